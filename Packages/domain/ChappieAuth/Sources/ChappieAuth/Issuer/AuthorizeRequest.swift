@_spi(ChappieInternals) import ChappieCore

/// The request for the page on which the user approves a sign-in, sent as an address (RFC 6749, 4.1.1; RFC 7636, 4.3).
struct AuthorizeRequest: Sendable {
    /// The account of an earlier sign-in, so that the page does not have to ask for it.
    struct Hint: Sendable {
        let idToken: Secret
        let email: String?
    }

    let endpoints: ChappieEndpoints
    let appName: String
    /// The registration of the program, or `nil` before the first sign-in.
    let registration: ChappieClientRegistration?
    let hostID: String
    let binding: RedirectBinding
    let nonce: Secret
    let hint: Hint?
    /// Whether the user has declined plan use before, so that the page asks for consent again.
    let asksForConsent: Bool

    /// Returns the address of the page.
    ///
    /// - Parameter withIDToken: Whether the address may contain the user's identity token. In that case it must not be
    ///   logged or shown.
    func url(withIDToken: Bool) -> URL? {
        var fields = [("client_id", registration?.clientID ?? OpenID.bootstrapClientID)]
        if registration == nil { fields.append(("agent_name_hint", appName)) }
        fields += [
            ("ext_agent_host_id", hostID), ("response_type", "code"), ("redirect_uri", binding.redirectURI),
            ("scope", OpenID.scopes.joined(separator: " ")), ("resource", OpenID.resource),
            ("state", binding.state.text), ("nonce", nonce.text), ("code_challenge_method", "S256"),
            ("code_challenge", binding.challenge),
        ]
        if let hint {
            if withIDToken { fields.append(("id_token_hint", hint.idToken.text)) }
            if let email = hint.email { fields.append(("login_hint", email)) }
        }
        if asksForConsent { fields.append(("prompt", "consent")) }
        return endpoints.authorizeURL.appending(query: fields)
    }

    /// Returns the client id for the exchange of the code.
    ///
    /// - Parameter arrived: The `client_id` of the callback.
    /// - Throws: ``ChappieAuthError/authorizationDenied(_:)``.
    func issuedClientID(_ arrived: String?) throws(ChappieAuthError) -> String {
        if let registration {
            guard arrived == nil || arrived == registration.clientID else {
                throw .authorizationDenied("The sign-in service came back with another registration than this app's.")
            }
            return registration.clientID
        }
        guard let arrived, Self.isClientID(arrived), arrived != OpenID.bootstrapClientID else {
            throw .authorizationDenied(
                "The sign-in service issued no usable client id, so the app's registration is incomplete.")
        }
        return arrived
    }

    /// Returns whether `id` consists of 1 to 200 letters, digits, `_` and `-`.
    static func isClientID(_ id: String) -> Bool {
        (1...200).contains(id.utf8.count) && id.utf8.allSatisfy { $0.isASCIIAlphanumeric || "_-".utf8.contains($0) }
    }
}
