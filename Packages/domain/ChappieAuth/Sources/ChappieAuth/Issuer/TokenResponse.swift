@_spi(ChappieInternals) import ChappieCore

/// The tokens in a successful answer of the token endpoint. Each may be missing.
struct TokenResponse: Sendable {
    let idToken: Secret?
    let accessToken: Secret?
    let refreshToken: Secret?
    /// The time before which the server expects no avoidable renewal.
    let earliestRefresh: Date?
    /// The permissions, or `nil` if the answer names none.
    let scopes: [String]?
    /// The time by the server's clock, if the answer has it.
    let date: Date?
    /// The lifetime of the access token in seconds, if the answer has a plausible one.
    let lifetime: TimeInterval?
    /// Whether the answer has a refresh token that can't be sent.
    let hasUnusableRefreshToken: Bool

    /// Creates a response from an answer. A token that can't be sent in a header counts as missing, because the other
    /// tokens may still be valid, and the old refresh token is used up.
    ///
    /// - Throws: ``ChappieAuthError/invalidResponse`` if the answer is not a JSON object with at least one usable token.
    init(_ answer: IssuerResponse) throws(ChappieAuthError) {
        guard let object = answer.object else { throw .invalidResponse }
        refreshToken = Secret(token: object["refresh_token"]?.string)
        hasUnusableRefreshToken = refreshToken == nil && Self.isGiven(object["refresh_token"])
        idToken = Secret(token: object["id_token"]?.string)
        accessToken = Secret(token: object["access_token"]?.string)
        date = answer.date
        let earliest = object["earliest_refresh_at"]
        earliestRefresh = PeerNumber.date(earliest?.double) ?? earliest?.string.flatMap(HTTPDate.rfc3339)
        scopes = object["scope"]?.string.map { $0.split(separator: " ").prefix(64).map(String.init) }
        lifetime = object["expires_in"]?.double.flatMap { (1...31_536_000).contains($0) ? $0 : nil }
        guard idToken != nil || accessToken != nil || refreshToken != nil else { throw .invalidResponse }
    }

    private static func isGiven(_ value: ChappieJSON?) -> Bool { value.map { !$0.isNull && $0 != "" } ?? false }

    /// Returns the number of seconds by which the server's clock was ahead of this machine's when the answer arrived at
    /// `now`, or `nil` if the answer has no date. A difference of a few seconds is due to the transmission and counts
    /// as zero.
    func clockOffset(at now: Date) -> TimeInterval? {
        guard let offset = date?.timeIntervalSince(now).rounded() else { return nil }
        return abs(offset) < 5 ? 0 : offset
    }
}
