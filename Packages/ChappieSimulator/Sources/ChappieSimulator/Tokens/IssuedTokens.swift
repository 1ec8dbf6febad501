/// The three tokens of one answer of the token endpoint.
struct IssuedTokens: Sendable, Hashable {
    let idToken: String
    let accessToken: String
    let refreshToken: String
    /// Seconds until the access token expires.
    let expiresIn: Int
}
