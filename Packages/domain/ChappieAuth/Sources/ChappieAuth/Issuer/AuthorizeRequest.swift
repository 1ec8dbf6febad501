@_spi(ChappieInternals) import ChappieCore

/// The page on which the user approves a sign-in, as an address (RFC 6749, 4.1.1; RFC 7636, 4.3).
struct AuthorizeRequest: Sendable {
    /// The account of an earlier sign-in, so that the page need not ask for it.
    struct Hint: Sendable {
        let idToken: Secret
        let email: String?
    }

    let endpoints: ChappieEndpoints
    let openID: ChappieOpenIDProfile
    let appName: String
    /// `nil` before the first sign-in.
    let registration: ChappieClientRegistration?
    let hostID: String
    let redirectURI: String
    let state: Secret
    let nonce: Secret
    /// The digest of the PKCE verifier, as text.
    let challenge: String
    let hint: Hint?
    /// Whether the user has turned down plan use, and asks for it now.
    let asksForConsent: Bool

    /// Returns the address of the page.
    ///
    /// - Parameter withIDToken: Whether it may have the user's identity token in it. Then it belongs in no log and on no
    ///   screen.
    func url(withIDToken: Bool) -> URL? {
        var fields = [("client_id", registration?.clientID ?? openID.bootstrapClientID)]
        if registration == nil { fields.append(("agent_name_hint", appName)) }
        fields += [
            ("ext_agent_host_id", hostID), ("response_type", "code"), ("redirect_uri", redirectURI),
            ("scope", openID.scopes.joined(separator: " ")), ("resource", openID.resource), ("state", state.text),
            ("nonce", nonce.text), ("code_challenge_method", "S256"), ("code_challenge", challenge),
        ]
        if let hint {
            if withIDToken { fields.append(("id_token_hint", hint.idToken.text)) }
            if let email = hint.email { fields.append(("login_hint", email)) }
        }
        if asksForConsent { fields.append(("prompt", "consent")) }
        let query = String(decoding: FormFields.encoded(fields), as: UTF8.self)
        return URL(string: endpoints.profile.authorizeURL(openID).absoluteString + "?" + query)
    }

    /// The client id for the exchange of the code.
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
        guard let arrived, Self.isClientID(arrived), arrived != openID.bootstrapClientID else {
            throw .authorizationDenied(
                "The sign-in service issued no usable client id, so the app's registration is incomplete.")
        }
        return arrived
    }

    /// Whether `id` has 1 to 200 letters, digits, `_` and `-`.
    static func isClientID(_ id: String) -> Bool {
        (1...200).contains(id.utf8.count) && id.utf8.allSatisfy { $0.isASCIIAlphanumeric || "_-".utf8.contains($0) }
    }
}
