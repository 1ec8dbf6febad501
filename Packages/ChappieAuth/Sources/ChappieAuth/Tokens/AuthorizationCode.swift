import FoundationEssentials

/// What every grant ends in, and all that the token exchange needs to know.
struct AuthorizationCode: Sendable {
    let code: Secret
    /// The PKCE verifier (RFC 7636, 4.1); the device grant gets it from the server.
    let verifier: Secret
    /// The redirect address that the grant was asked for with.
    let redirectURI: String
    let grant: ChappieGrant
}
