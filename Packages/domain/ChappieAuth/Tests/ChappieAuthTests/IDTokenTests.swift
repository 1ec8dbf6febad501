@_spi(ChappieInternals) import ChappieCore
import ChappieTesting
import FoundationEssentials
import Testing

@_spi(ChappieInternals) @testable import ChappieAuth

/// Signatures that only this type makes and accepts: the key's modulus and a checksum of the message.
struct ToyCryptography: SignInCryptography {
    static func signature(of message: [UInt8], by modulus: [UInt8]) -> [UInt8] {
        modulus + Array(FNV1a.hexadecimal([String(decoding: message, as: UTF8.self)]).utf8)
    }

    func sha256(_ bytes: [UInt8]) -> [UInt8] {
        Array((FNV1a.hexadecimal([String(decoding: bytes, as: UTF8.self)]) + "0123456789abcdef").utf8)
    }

    func verifiesRS256(_ signature: [UInt8], of message: [UInt8], modulus: [UInt8], exponent: [UInt8]) -> Bool {
        signature == Self.signature(of: message, by: modulus)
    }
}

/// Identity tokens of an issuer with one key.
struct ToyIssuer {
    var header: [(String, ChappieJSON)] = [("alg", "RS256"), ("kid", "key-1"), ("typ", "JWT")]
    var claims: [(String, ChappieJSON)]
    var modulus = Array("modulus-1".utf8)

    init(audience: ChappieJSON = "oaiapp_1", nonce: String, subject: String = "user-1", at now: Date = start) {
        let seconds = Int(now.timeIntervalSince1970)
        claims = [
            ("iss", "https://issuer.test"), ("aud", audience), ("sub", .string(subject)),
            ("email", .string("\(subject)@example.com")), ("nonce", .string(nonce)), ("iat", .integer(seconds)),
            ("exp", .integer(seconds + 3600)),
        ]
    }

    subscript(name: String) -> ChappieJSON? {
        get { claims.first { $0.0 == name }?.1 }
        set {
            claims.removeAll { $0.0 == name }
            if let newValue { claims.append((name, newValue)) }
        }
    }

    var token: String {
        let parts = [header, claims].map {
            Base64URL.encode(ChappieJSON.object(ChappieJSONObject($0)).serializedBytes())
        }
        let message = parts.joined(separator: ".")
        return "\(message).\(Base64URL.encode(ToyCryptography.signature(of: Array(message.utf8), by: modulus)))"
    }

    /// The document of the keys.
    static func keys(_ names: String..., modulus: String = "modulus-1") -> String {
        let keys = names.map { name -> ChappieJSON in
            [
                "kty": "RSA", "use": "sig", "alg": "RS256", "kid": .string(name),
                "n": .string(Base64URL.encode(modulus.utf8)), "e": "AQAB",
            ]
        }
        return ChappieJSON.object(["keys": .array(keys)]).serialized()
    }
}

@Suite struct IDTokenTests {
    private static func check(
        _ token: String, keys: String = ToyIssuer.keys("key-0", "key-1"), subject: String? = nil, now: Date = start
    ) throws(IDToken.Refusal) -> IDToken {
        guard let keys = SigningKeys((try? ChappieJSON(parsing: keys))?.object) else {
            throw .invalid("no keys")
        }
        return try IDToken(
            Secret(token), keys: keys, cryptography: ToyCryptography(),
            expecting: .init(issuer: "https://issuer.test", clientID: "oaiapp_1", nonce: Secret("n"), subject: subject),
            now: now)
    }

    @Test func aGoodTokenNamesTheUser() throws {
        let token = try Self.check(ToyIssuer(nonce: "n").token, subject: "user-1")
        #expect(token.subject == "user-1")
        #expect(token.email == "user-1@example.com")
    }

    /// One fault of a token, and the reason for which it is refused.
    struct Fault: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let reason: String
        let change: @Sendable (inout ToyIssuer) -> Void

        init(_ name: String, _ reason: String, _ change: @escaping @Sendable (inout ToyIssuer) -> Void) {
            testDescription = name
            self.reason = reason
            self.change = change
        }
    }

    @Test(arguments: [
        Fault("alg none", "it is not signed with RS256") { $0.header[0].1 = "none" },
        Fault("alg HS256", "it is not signed with RS256") { $0.header[0].1 = "HS256" },
        Fault("alg ES256", "it is not signed with RS256") { $0.header[0].1 = "ES256" },
        Fault("no alg", "it is not signed with RS256") { $0.header.removeFirst() },
        Fault("no kid", "it names no key") { $0.header.remove(at: 1) },
        Fault("an extension", "it has an extension that is not known here") { $0.header.append(("crit", ["x"])) },
        Fault("another key", "its signature is wrong") { $0.modulus = Array("modulus-2".utf8) },
        Fault("another issuer", "it is from another issuer") { $0["iss"] = "https://issuer.test/" },
        Fault("no issuer", "it is from another issuer") { $0["iss"] = nil },
        Fault("another audience", "it is for another app") { $0["aud"] = "oaiapp_2" },
        Fault("no audience", "it is for another app") { $0["aud"] = nil },
        Fault("an empty audience", "it is for another app") { $0["aud"] = [] },
        Fault("the bootstrap client", "it is for another app") { $0["aud"] = "dynamic_agent_client" },
        Fault("two audiences without azp", "it was issued to another app") { $0["aud"] = ["oaiapp_1", "oaiapp_2"] },
        Fault("another azp", "it was issued to another app") { $0["azp"] = "oaiapp_2" },
        Fault("an azp that is no text", "it was issued to another app") { $0["azp"] = 1 },
        Fault("another nonce", "it is of another sign-in") { $0["nonce"] = "m" },
        Fault("no nonce", "it is of another sign-in") { $0["nonce"] = nil },
        Fault("no end", "it has no times") { $0["exp"] = nil },
        Fault("no beginning", "it has no times") { $0["iat"] = nil },
        Fault("an end in words", "it has no times") { $0["exp"] = "1795180000" },
        Fault("no user", "it names no user") { $0["sub"] = nil },
        Fault("an empty user", "it names no user") { $0["sub"] = "" },
    ])
    func aTokenWithOneFaultIsRefused(_ fault: Fault) {
        var issuer = ToyIssuer(nonce: "n")
        fault.change(&issuer)
        #expect(throws: IDToken.Refusal.invalid(fault.reason)) { try Self.check(issuer.token) }
    }

    @Test func severalAudiencesNeedAnAzp() throws {
        var issuer = ToyIssuer(audience: ["oaiapp_2", "oaiapp_1"], nonce: "n")
        issuer["azp"] = "oaiapp_1"
        #expect(try Self.check(issuer.token).subject == "user-1")
    }

    @Test(
        arguments: [
            (3599, nil), (3899, nil), (3900, "has expired"), (-300, nil), (-301, "is not valid yet"),
        ] as [(TimeInterval, String?)])
    func `a clock that is five minutes off is tolerated`(_ seconds: TimeInterval, _ reason: String?) {
        let now = start.addingTimeInterval(seconds)
        var refusal: IDToken.Refusal?
        do throws(IDToken.Refusal) { _ = try Self.check(ToyIssuer(nonce: "n").token, now: now) } catch {
            refusal = error
        }
        #expect(refusal == reason.map { .untimely($0) })
        #expect(refusal.map { $0.error.errorDescription?.contains("Set this machine's clock") == true } ?? true)
    }

    @Test func anotherAccountIsToldApartFromABadToken() {
        #expect(throws: IDToken.Refusal.otherAccount) {
            try Self.check(ToyIssuer(nonce: "n", subject: "user-2").token, subject: "user-1")
        }
    }

    @Test func aKeyThatIsNotThereMayComeLater() {
        let token = ToyIssuer(nonce: "n").token
        for keys in [ToyIssuer.keys("key-2"), #"{"keys":[]}"#, #"{"keys":[{"kty":"EC","kid":"key-1"}]}"#] {
            #expect(throws: IDToken.Refusal.unknownKey) { try Self.check(token, keys: keys) }
        }
    }

    @Test func aKeyForSomethingElseDoesNotCount() {
        for fault in [#""use":"enc""#, #""alg":"RS512""#, #""key_ops":["encrypt"]"#] {
            let keys = #"{"keys":[{"kty":"RSA","kid":"key-1","n":"bW9kdWx1cy0x","e":"AQAB",\#(fault)}]}"#
            #expect(throws: IDToken.Refusal.unknownKey) { try Self.check(ToyIssuer(nonce: "n").token, keys: keys) }
        }
    }

    @Test func aTextThatIsNoTokenIsRefused() {
        let good = ToyIssuer(nonce: "n").token
        let parts = good.split(separator: ".").map(String.init)
        for text in [
            "", ".", "..", "a.b.c", "\(parts[0]).\(parts[1])", "\(parts[0]).\(parts[1]).", good + ".x",
            "\(parts[0]).\(parts[1]).\(parts[2])=", "e30.e30.e30=", String(repeating: "a", count: 70_000),
        ] {
            #expect(throws: IDToken.Refusal.self, "\(text.prefix(40))") { try Self.check(text) }
        }
    }

    /// A signature holds for the bytes that were sent, whatever else decodes to the same claims.
    @Test func everyChangedByteIsNoticed() {
        let token = Array(ToyIssuer(nonce: "n").token.utf8)
        for index in token.indices {
            var other = token
            other[index] = other[index] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
            let text = String(decoding: other, as: UTF8.self)
            if let accepted = try? Self.check(text) {
                // The last digit of base64url has bits that stand for nothing.
                #expect(index == token.count - 1, "\(accepted)")
            }
        }
    }

    @Test func theWordsOfARefusalHaveNoTokenInThem() {
        #expect(
            IDToken.Refusal.invalid("it has expired").error.errorDescription
                == "The sign-in service's identity token is not valid (it has expired).")
        #expect(IDToken.Refusal.unknownKey.error.errorDescription?.contains("its key is unknown") == true)
    }
}
