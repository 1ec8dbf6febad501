@_spi(ChappieInternals) import ChappieCore

/// The issuer that granted a credential, the OAuth client that it was granted to, and the backend that it is for.
///
/// A credential is refreshed and revoked at this issuer alone, by this client alone (RFC 6749, 6: the refresh token is
/// bound to it), and sent to this backend alone.
struct CredentialOrigin: Sendable, Hashable {
    let issuer: String
    let backend: String
    let client: String
    /// The scope with which requests may use the user's plan; `nil` if the service has none. It names no credential.
    let planScope: String?

    static let chatGPT = CredentialOrigin(ChappieEndpoints.chatGPT)

    init(_ endpoints: ChappieEndpoints) {
        let issuer = endpoints.profile.issuer
        self.issuer = Origin(issuer).map { "\($0)\(issuer.path())" } ?? issuer.absoluteString
        backend = Origin(endpoints.profile.backend)?.description ?? endpoints.profile.backend.absoluteString
        client = endpoints.registration.clientID
        planScope = endpoints.profile.openID?.planScope
    }

    /// Reads the members of a stored document. Without them it belongs to the default issuer, backend and client.
    init(_ document: ChappieJSONObject, planScope: String?) {
        self.planScope = planScope
        issuer = UntrustedText.token(document["issuer"]?.string, limit: 2048) ?? Self.chatGPT.issuer
        backend = UntrustedText.token(document["backend"]?.string, limit: 2048) ?? Self.chatGPT.backend
        client = UntrustedText.token(document["client_id"]?.string, limit: 2048) ?? Self.chatGPT.client
    }

    /// The part of a slot that names this origin; `nil` for the default, whose slot had no such part from the start. It
    /// has a third word only for another client than the default one.
    var slotName: String? {
        if self == .chatGPT { return nil }
        return "\(issuer) \(backend)" + (client == Self.chatGPT.client ? "" : " \(client)")
    }
}

extension ChappieEndpoints {
    /// A text that separates credentials for these addresses from others: ``CredentialSlot/issuer``. `nil` for
    /// ``chatGPT``.
    public var credentialIssuer: String? { CredentialOrigin(self).slotName }
}
