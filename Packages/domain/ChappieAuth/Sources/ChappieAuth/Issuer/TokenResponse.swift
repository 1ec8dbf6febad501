@_spi(ChappieInternals) import ChappieCore

/// The tokens in a successful answer of the token endpoint; each may be missing.
struct TokenResponse: Sendable {
    let idToken: Secret?
    let accessToken: Secret?
    let refreshToken: Secret?
    /// The server wants no avoidable renewal before this time.
    let earliestRefresh: Date?
    /// The permissions; `nil` if the answer names none.
    let scopes: [String]?
    /// The time by the server's clock, if the answer has it.
    let date: Date?
    /// The lifetime of the access token in seconds, if the answer has a plausible one.
    let lifetime: TimeInterval?

    /// - Throws: ``ChappieAuthError/invalidResponse`` if the answer is not a JSON object with at least one token, or if
    ///   a token could not travel in a header. Beside a usable refresh token, another unusable token counts as missing.
    init(_ answer: IssuerResponse) throws(ChappieAuthError) {
        guard let object = answer.object else { throw .invalidResponse }
        date = answer.date
        refreshToken = try Self.token("refresh_token", in: object)
        // The old refresh token is used up: no other member in a new form may cost the new one.
        let mayBeUnusable = refreshToken != nil
        idToken = try Self.token("id_token", in: object, mayBeUnusable: mayBeUnusable)
        accessToken = try Self.token("access_token", in: object, mayBeUnusable: mayBeUnusable)
        let earliest = object["earliest_refresh_at"]
        earliestRefresh = PeerNumber.date(earliest?.double) ?? earliest?.string.flatMap(HTTPDate.rfc3339)
        scopes = object["scope"]?.string.map { $0.split(separator: " ").prefix(64).map(String.init) }
        lifetime = object["expires_in"]?.double.flatMap { (1...31_536_000).contains($0) ? $0 : nil }
        guard idToken != nil || accessToken != nil || refreshToken != nil else { throw .invalidResponse }
    }

    private static func token(
        _ name: String, in object: ChappieJSONObject, mayBeUnusable: Bool = false
    ) throws(ChappieAuthError) -> Secret? {
        guard let value = object[name], !value.isNull, value != "" else { return nil }
        let token = Secret(token: value.string)
        guard token != nil || mayBeUnusable else { throw .invalidResponse }
        return token
    }
}
