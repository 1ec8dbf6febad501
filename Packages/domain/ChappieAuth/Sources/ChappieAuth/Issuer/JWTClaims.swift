@_spi(ChappieInternals) import ChappieCore

/// A token's claims about its user and its expiry (RFC 7519), read without checking the signature.
///
/// The token may be hostile. At most 64 KiB are read, in linear time, and an unexpected value counts as absent.
struct JWTClaims: Sendable, Hashable {
    static let maximumSize = 64 << 10

    let account: ChappieAccountInfo
    /// The claim `exp`, or `nil` if it is not a time between 1970 and the year 10000.
    let expiresAt: Date?
    /// The claim `iss`.
    let issuer: String?
    /// The claim `sub`.
    let subject: String?
    /// The claim `aud`.
    let audiences: [String]
    /// The region of the workspace, as the token names it. It may be `no_constraint`.
    let residency: String?

    /// - Returns: `nil` if the token is not a JWT with a JSON object as its payload.
    init?(_ token: Secret) { self.init(bytes: token.withBytes(Array.init)) }

    init?(bytes: [UInt8]) {
        guard bytes.count <= Self.maximumSize else { return nil }
        // The parts are the header, the payload and the signature. The signature is empty or missing if a token is not
        // signed.
        let parts = bytes.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard (2...3).contains(parts.count), !parts[0].isEmpty,
            let payload = Base64URL.decode(String(decoding: parts[1], as: UTF8.self)),
            let json = try? ChappieJSON(parsing: payload), case .object(let claims) = json
        else { return nil }
        self.init(claims)
    }

    private init(_ claims: ChappieJSONObject) {
        // Most tokens have the account's claims in a namespace, and some have them at the root.
        let places = [claims["https://api.openai.com/auth"] ?? .null, .object(claims)]
        func first<Value>(_ names: [String], _ read: (ChappieJSON?) -> Value?) -> Value? {
            for name in names {
                for place in places {
                    if let value = read(place[name]) { return value }
                }
            }
            return nil
        }
        let email =
            Self.text(claims["email"], limit: 320)
            ?? Self.text(claims["https://api.openai.com/profile"]?["email"], limit: 320)
        account = ChappieAccountInfo(
            email: email,
            userID: first(["chatgpt_user_id", "user_id"], Self.identifier),
            accountID: first(["chatgpt_account_id", "account_id"], Self.identifier),
            plan: first(["chatgpt_plan_type"]) { Self.text($0, limit: 64) }.map(ChappiePlan.init(rawValue:)),
            isFedRAMPAccount: first(["chatgpt_account_is_fedramp"], \.?.bool) ?? false)
        residency = first(["chatgpt_compute_residency", "chatgpt_data_residency"], Self.identifier)
        expiresAt = claims["exp"]?.double.flatMap { seconds in
            (1..<253_402_300_800).contains(seconds) ? Date(timeIntervalSince1970: seconds) : nil
        }
        issuer = claims["iss"]?.string
        subject = Self.identifier(claims["sub"])
        audiences = Self.audiences(claims)
    }

    /// Returns the values of `aud`, which is one text or a list of texts (RFC 7519, 4.1.3).
    static func audiences(_ claims: ChappieJSONObject) -> [String] {
        if let one = claims["aud"]?.string { return [one] }
        return claims["aud"]?.array?.compactMap(\.string) ?? []
    }

    private static func text(_ value: ChappieJSON?, limit: Int) -> String? {
        UntrustedText.line(value?.string, limit: limit)
    }

    /// Returns an identifier, which must be a valid header value, because it is sent in headers.
    private static func identifier(_ value: ChappieJSON?) -> String? { UntrustedText.token(value?.string, limit: 256) }
}

/// An entry point that gives fuzzers access to the internal parser.
@_spi(Fuzzing)
public enum JWTClaimsFuzzing {
    /// Returns whether `bytes` are a token.
    public static func read(_ bytes: [UInt8]) -> Bool { JWTClaims(bytes: bytes) != nil }
}
