import ChappieCore

/// The tokens in a successful answer of the token endpoint; each may be missing.
struct TokenAnswer: Sendable {
    let idToken: Secret?
    let accessToken: Secret?
    let refreshToken: Secret?

    /// Reads a success.
    ///
    /// - Throws: ``ChappieAuthError/invalidResponse`` when it is not a JSON object with at least one token, or when a
    ///   token could not travel in a header.
    init(_ answer: IssuerAnswer) throws(ChappieAuthError) {
        guard let object = answer.object else { throw .invalidResponse }
        idToken = try Self.token("id_token", in: object)
        accessToken = try Self.token("access_token", in: object)
        refreshToken = try Self.token("refresh_token", in: object)
        guard idToken != nil || accessToken != nil || refreshToken != nil else { throw .invalidResponse }
    }

    private static func token(_ name: String, in object: ChappieJSONObject) throws(ChappieAuthError) -> Secret? {
        guard let value = object[name], !value.isNull, value != "" else { return nil }
        guard let token = Secret(token: value.string) else { throw .invalidResponse }
        return token
    }
}
