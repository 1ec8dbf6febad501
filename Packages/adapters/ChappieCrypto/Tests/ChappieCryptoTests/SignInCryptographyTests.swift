import ChappieAuth
import ChappieTesting
import FoundationEssentials
import TestFixtures
import Testing

@testable import ChappieCrypto

/// Signatures of published keys and of the machine's `openssl`.
struct SignInCryptographyTests {
    private let cryptography: any SignInCryptography = SystemSignInCryptography()

    @Test(arguments: SignInCryptographyContract.cases)
    func keepsTheContract(_ demand: SignInCryptographyContract.Case) throws { try demand.run(cryptography) }

    private func verifies(_ signature: [UInt8], of message: [UInt8], modulus: [UInt8]) throws -> Bool {
        try cryptography.verifiesRS256(signature, of: message, modulus: modulus, exponent: [1, 0, 1])
    }

    @Test(arguments: [[], [0], [1], [2], [1, 0, 0], [UInt8](repeating: 1, count: 9), [0, 0, 1]])
    func `an exponent that is even, one or too long makes no key`(exponent: [UInt8]) {
        let modulus = [UInt8](repeating: 0xFF, count: 256)
        #expect(RSAPublicKey(modulus: modulus, exponent: exponent) == nil)
        #expect(RSAPublicKey(modulus: modulus, exponent: [0] + [UInt8](repeating: 1, count: 8)) != nil)
    }

    @Test(arguments: [(255, false), (256, true), (257, true), (1024, true), (1025, false)])
    func aKeyHas2048To8192Bits(count: Int, isOne: Bool) {
        let key = RSAPublicKey(modulus: [UInt8](repeating: 0xFF, count: count), exponent: [3])
        #expect(key?.count == (isOne ? count : nil))
    }

    @Test func aKeyIsTheStructureOfRFC8017() {
        let modulus = [0x80] + [UInt8](repeating: 0, count: 254) + [1]
        let key = RSAPublicKey(modulus: modulus, exponent: [1, 0, 1])
        #expect(key?.der == [0x30, 0x82, 0x01, 0x0A, 0x02, 0x82, 0x01, 0x01, 0] + modulus + [0x02, 3, 1, 0, 1])
    }

    /// The key of another size, and a message of no size.
    @Test(.enabled(if: SystemProgram.openssl.isUsable, Comment(rawValue: SystemProgram.openssl.absence)))
    func opensslsOwnSignaturesAreRight() async throws {
        let folder = try TemporaryDirectory()
        let (key, signature) = (folder.path("key.pem"), folder.path("signature"))
        for (bits, isLargeEnough) in [(1024, false), (2048, true), (3072, true)] {
            try await SystemProgram.openssl.run([
                "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:\(bits)", "-out", key,
            ])
            let line = try await SystemProgram.openssl.run(["pkey", "-in", key, "-noout", "-text_pub"])
            let digits = try #require(line.split(separator: "Modulus:").last?.split(separator: "Exponent").first)
            let modulus = bytes(hex: digits.filter(\.isHexDigit))
            for text in ["", "a.b", String(repeating: "long", count: 10_000)] {
                let message = try folder.write(text, to: "message")
                try await SystemProgram.openssl.run(["dgst", "-sha256", "-sign", key, "-out", signature, message])
                let made = Array(try Data(contentsOf: URL(filePath: signature)))
                #expect(try verifies(made, of: Array(text.utf8), modulus: modulus) == isLargeEnough)
                #expect(try !verifies(made, of: Array("other".utf8), modulus: modulus))
            }
            // The same key with another padding, and with another digest.
            let message = try folder.write("a.b", to: "message")
            for options in [["-sha256", "-sigopt", "rsa_padding_mode:pss"], ["-sha384"]] {
                try await SystemProgram.openssl.run(["dgst"] + options + ["-sign", key, "-out", signature, message])
                let made = Array(try Data(contentsOf: URL(filePath: signature)))
                #expect(try !verifies(made, of: Array("a.b".utf8), modulus: modulus))
            }
        }
    }
}
