@_spi(ChappieInternals) import ChappieCore

/// An identity token whose signature and claims have been checked (OpenID Connect Core, 3.1.3.7).
struct IDToken: Sendable, Hashable {
    /// The id of the user at this issuer.
    let subject: String
    let email: String?

    /// The claims that a token must have.
    struct Expectation: Sendable {
        let issuer: String
        let clientID: String
        let nonce: Secret
        /// The user of the registration, or `nil` if it has none yet.
        let subject: String?
    }

    /// The reason why a token is not valid.
    enum Refusal: Error, Sendable, Hashable {
        /// The key is not in the set. The server may have new keys.
        case unknownKey
        /// The user is not the same as before.
        case otherAccount
        /// The token is not valid at this time. The string is the end of a sentence.
        case untimely(String)
        /// Any other reason. The string is the middle of a sentence.
        case invalid(String)

        var error: ChappieAuthError {
            let reason: String
            switch self {
            case .otherAccount:
                return .authorizationDenied(
                    "You approved with another ChatGPT account than the one this sign-in is registered for. Choose that "
                        + "account in the browser, or use another account name in the app.")
            case .unknownKey: reason = "its key is unknown"
            case .untimely(let words):
                return .authorizationDenied(
                    "The sign-in service's identity token \(words). Set this machine's clock, and sign in again.")
            case .invalid(let words): reason = words
            }
            return .authorizationDenied("The sign-in service's identity token is not valid (\(reason)).")
        }
    }

    /// The difference between two clocks that is tolerated, in seconds. The nonce already proves that the token is new.
    static let tolerance = 5 * 60.0

    /// Creates an identity token from `token` after checking it.
    ///
    /// - Parameter now: The time by the clock of the server that sent the token, or by this machine's clock.
    init(
        _ token: Secret, keys: SigningKeys, cryptography: any SignInCryptography, expecting expected: Expectation,
        now: Date
    ) throws(Refusal) {
        let bytes = token.withBytes(Array.init)
        let parts = bytes.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard bytes.count <= JWTClaims.maximumSize, parts.count == 3, let header = Self.object(parts[0]),
            let claims = Self.object(parts[1]), let signature = Self.decoded(parts[2])
        else { throw .invalid("it can't be read") }
        // The header must not choose how the token is checked (RFC 8725, 3.1).
        guard header["alg"]?.string == "RS256" else { throw .invalid("it is not signed with RS256") }
        guard header["crit"] == nil else { throw .invalid("it has an extension that is not known here") }
        guard let name = header["kid"]?.string else { throw .invalid("it names no key") }
        guard let key = keys.key(name) else { throw .unknownKey }
        let message = Array(bytes.prefix(parts[0].count + 1 + parts[1].count))
        let isSigned: Bool
        do {
            isSigned = try cryptography.verifiesRS256(
                signature, of: message, modulus: key.modulus, exponent: key.exponent)
        } catch {
            throw .invalid("its signature could not be checked")
        }
        guard isSigned else { throw .invalid("its signature is wrong") }
        try Self.check(claims, expected, now: now)
        guard let subject = UntrustedText.token(claims["sub"]?.string, limit: 256) else {
            throw .invalid("it names no user")
        }
        if let known = expected.subject, known != subject { throw .otherAccount }
        self.subject = subject
        email = UntrustedText.line(claims["email"]?.string, limit: 320)
    }

    private static func check(
        _ claims: ChappieJSONObject, _ expected: Expectation, now: Date
    ) throws(Refusal) {
        guard claims["iss"]?.string == expected.issuer else { throw .invalid("it is from another issuer") }
        let audiences = JWTClaims.audiences(claims)
        guard audiences.contains(expected.clientID) else { throw .invalid("it is for another app") }
        let party = claims["azp"]
        guard party?.string == expected.clientID || party == nil && audiences.count == 1 else {
            throw .invalid("it was issued to another app")
        }
        guard let end = claims["exp"]?.double, let start = claims["iat"]?.double, end.isFinite, start.isFinite else {
            throw .invalid("it has no times")
        }
        let now = now.timeIntervalSince1970
        guard now < end + tolerance else { throw .untimely("has expired") }
        guard max(start, claims["nbf"]?.double ?? start) <= now + tolerance else { throw .untimely("is not valid yet") }
        guard let nonce = claims["nonce"]?.string, Secret(nonce) == expected.nonce else {
            throw .invalid("it is of another sign-in")
        }
    }

    private static func object(_ part: ArraySlice<UInt8>) -> ChappieJSONObject? {
        decoded(part).flatMap { try? ChappieJSON(parsing: $0) }?.object
    }

    /// Decodes Base64url. Padding is not allowed (RFC 7515, 2).
    private static func decoded(_ part: ArraySlice<UInt8>) -> [UInt8]? {
        guard !part.isEmpty, !part.contains(UInt8(ascii: "=")) else { return nil }
        return Base64URL.decode(String(decoding: part, as: UTF8.self))
    }
}

/// The public keys of an issuer that are for RS256 (RFC 7517, 5; RFC 7518, 6.3.1).
struct SigningKeys: Sendable, Hashable {
    /// An RSA key with big-endian numbers.
    struct Key: Sendable, Hashable {
        let modulus: [UInt8]
        let exponent: [UInt8]
    }

    private let keys: [String: Key]

    /// - Returns: `nil` if this is not a set of keys.
    init?(_ object: ChappieJSONObject?) {
        guard let list = object?["keys"]?.array else { return nil }
        var keys: [String: Key] = [:]
        for entry in list {
            guard entry["kty"]?.string == "RSA", entry["use"] == nil || entry["use"]?.string == "sig",
                entry["alg"] == nil || entry["alg"]?.string == "RS256",
                entry["key_ops"]?.array?.contains("verify") ?? true, let name = entry["kid"]?.string,
                let modulus = entry["n"]?.string.flatMap(Base64URL.decode),
                let exponent = entry["e"]?.string.flatMap(Base64URL.decode)
            else { continue }
            if keys[name] == nil { keys[name] = Key(modulus: modulus, exponent: exponent) }
        }
        self.keys = keys
    }

    /// Returns the key with this id.
    func key(_ name: String) -> Key? { keys[name] }
}
