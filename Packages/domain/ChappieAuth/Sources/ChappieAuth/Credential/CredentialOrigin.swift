@_spi(ChappieInternals) import ChappieCore

/// The issuer that granted a credential, the OAuth client that received it, and the backend that it is for.
///
/// A credential is refreshed and revoked only at this issuer and only by this client, because the refresh token is
/// bound to the client (RFC 6749, 6). It is sent only to this backend.
struct CredentialOrigin: Sendable, Hashable {
    let issuer: String
    let backend: String
    let client: String
    /// The scope with which requests may use the user's plan, or `nil` if the service has none. It is not part of a
    /// credential's name.
    let planScope: String?

    static let chatGPT = CredentialOrigin(ChappieEndpoints.chatGPT)

    init(_ endpoints: ChappieEndpoints) {
        let issuer = endpoints.issuer
        self.issuer = Origin(issuer).map { "\($0)\(issuer.path())" } ?? issuer.absoluteString
        backend = Origin(endpoints.backend)?.description ?? endpoints.backend.absoluteString
        client = endpoints.registration.clientID
        planScope = endpoints.usesPlan ? OpenID.planScope : nil
    }

    /// Creates an origin from the members of a stored document. Missing members are those of the default issuer,
    /// backend and client.
    init(_ document: ChappieJSONObject, planScope: String?) {
        self.planScope = planScope
        issuer = UntrustedText.token(document["issuer"]?.string, limit: 2048) ?? Self.chatGPT.issuer
        backend = UntrustedText.token(document["backend"]?.string, limit: 2048) ?? Self.chatGPT.backend
        client = UntrustedText.token(document["client_id"]?.string, limit: 2048) ?? Self.chatGPT.client
    }

    /// The part of a slot that names this origin, or `nil` for the default origin, whose slot has never had such a
    /// part. It has a third word only for a client other than the default one.
    var slotName: String? {
        if self == .chatGPT { return nil }
        return "\(issuer) \(backend)" + (client == Self.chatGPT.client ? "" : " \(client)")
    }
}

extension ChappieEndpoints {
    /// The text that separates credentials for these addresses from others (``CredentialSlot/issuer``), or `nil` for
    /// ``chatGPT``.
    public var credentialIssuer: String? { CredentialOrigin(self).slotName }
}

extension CredentialSlot {
    /// Whether the slot is for sign-ins of the plan route ("Continue with ChatGPT").
    @_spi(ChappieInternals) public var isOfPlanRoute: Bool {
        issuer?.split(separator: " ").last.map(String.init) == OpenID.bootstrapClientID
    }
}
