@_spi(ChappieInternals) import ChappieCore

/// A fault of an ID token, or an unusual form of it.
enum IDTokenFault: String, Codable, Sendable, Hashable {
    /// The token is not signed, or is signed with a secret.
    case algNone, hs256
    case wrongSignature
    /// The token is signed with a key that is not published, or does not name its key.
    case unknownKey, noKeyID
    case otherIssuer
    /// The audience is another app, the authorized party is another app, or there are several audiences and no party.
    case otherAudience, otherParty, noParty
    /// The token has several audiences and this app as the authorized party. It is valid.
    case severalAudiences
    case expired
    /// The token is issued ten minutes from now.
    case issuedLater
    case otherNonce, noNonce
    /// The token is for another user.
    case otherSubject
    /// There is no token.
    case absent
}

/// The ID token with which a sign-in over the plan route is answered (OpenID Connect Core 1.0, 2).
struct IDToken: Sendable {
    let issuer: String
    let clientID: String
    let account: SimulatorAccount
    /// The nonce of the sign-in, or `nil` for the token of a refresh.
    let nonce: String?
    /// The time of issue in Unix seconds.
    let issuedAt: Int
    let expiresAt: Int

    /// Returns the signed token, or an empty string for the fault `absent`.
    func signed(by key: TestSigningKey, fault: IDTokenFault?) -> String {
        guard fault != .absent else { return "" }
        var header: ChappieJSONObject = ["alg": "RS256", "typ": "JWT", "kid": .string(key.id)]
        switch fault {
        case .algNone: header["alg"] = "none"
        case .hs256: header["alg"] = "HS256"
        case .unknownKey: header["kid"] = "simulated-unknown"
        case .noKeyID: header["kid"] = nil
        default: break
        }
        let words = [ChappieJSON.object(header), claims(fault)].map { Base64URL.encode($0.serializedBytes()) }
        let message = Array(words.joined(separator: ".").utf8)
        var signature = fault == .algNone ? [] : key.signature(of: message)
        if fault == .wrongSignature { signature[signature.count - 1] ^= 1 }
        return (words + [Base64URL.encode(signature)]).joined(separator: ".")
    }

    private func claims(_ fault: IDTokenFault?) -> ChappieJSON {
        let now = fault == .issuedLater ? issuedAt + 600 : issuedAt
        let other = "oaiapp_other"
        var claims: ChappieJSONObject = [
            "iss": .string(fault == .otherIssuer ? "https://issuer.example" : issuer),
            "sub": .string(fault == .otherSubject ? "auth0|user-other" : "auth0|" + account.userID),
            "aud": .string(fault == .otherAudience ? other : clientID), "iat": .integer(now),
            "exp": .integer(fault == .expired ? issuedAt - 600 : expiresAt + (now - issuedAt)),
            "jti": .string(randomSecret()), "email": .string(account.email), "email_verified": true,
            "name": .string(account.name),
        ]
        switch fault {
        case .severalAudiences:
            claims["aud"] = [.string(clientID), .string(other)]
            claims["azp"] = .string(clientID)
        case .noParty: claims["aud"] = [.string(clientID), .string(other)]
        case .otherParty: claims["azp"] = .string(other)
        default: break
        }
        if fault == .otherNonce {
            claims["nonce"] = .string(randomSecret())
        } else if let nonce, fault != .noNonce {
            claims["nonce"] = .string(nonce)
        }
        return .object(claims)
    }
}

extension UInt8 {
    /// Whether it is a character of base64url (RFC 4648, 5).
    var isBase64URL: Bool {
        switch self {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"): true
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"): true
        default: false
        }
    }
}
