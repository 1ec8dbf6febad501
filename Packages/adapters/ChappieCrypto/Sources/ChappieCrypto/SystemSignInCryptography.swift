public import ChappieAuth

/// ``SignInCryptography`` over the platform's library: Security on Apple's platforms, libcrypto elsewhere.
public struct SystemSignInCryptography: SignInCryptography {
    /// The library of this platform.
    public init() {}

    /// The SHA-256 digest of `bytes`.
    ///
    /// - Throws: ``CredentialStoreError/failed(_:)`` for lack of memory.
    public func sha256(_ bytes: [UInt8]) throws -> [UInt8] { try CryptoLibrary.digest(of: bytes) }

    /// Whether `signature` is of `message`: RSASSA-PKCS1-v1_5 with SHA-256.
    ///
    /// `false` also for an even modulus, and for an exponent of more than 64 bits: no issuer has one, and a check with it
    /// takes as long as the author of the key wants.
    ///
    /// - Throws: ``CredentialStoreError/failed(_:)`` for lack of memory.
    public func verifiesRS256(
        _ signature: [UInt8], of message: [UInt8], modulus: [UInt8], exponent: [UInt8]
    ) throws -> Bool {
        guard let key = RSAPublicKey(modulus: modulus, exponent: exponent) else { return false }
        // RFC 8017, 8.2.2, step 1. The library's own answer to another length varies.
        guard signature.count == key.count else { return false }
        return try key.verifies(signature, of: message)
    }
}

/// An RSA key of a size that is in use.
struct RSAPublicKey {
    /// In bytes, as a signature.
    let count: Int
    /// The key as both libraries read it: `RSAPublicKey` of RFC 8017, A.1.1, in DER (ITU-T X.690, 8.1, 8.3, 8.9, 10.1).
    let der: [UInt8]

    /// `nil` if it can't be an RSA key, or is smaller or larger than any that is in use.
    ///
    /// - Parameters:
    ///   - modulus: Big-endian, odd, of 2048 to 8192 bits.
    ///   - exponent: Big-endian, odd, from 3 on, of 64 bits at most.
    init?(modulus: [UInt8], exponent: [UInt8]) {
        let modulus = modulus.drop { $0 == 0 }
        let exponent = exponent.drop { $0 == 0 }
        guard let first = modulus.first, let last = modulus.last else { return nil }
        let bits = modulus.count * 8 - first.leadingZeroBitCount
        guard (2048...8192).contains(bits), last & 1 == 1 else { return nil }
        guard exponent.count <= 8, let end = exponent.last, end & 1 == 1, exponent != [1] else { return nil }
        count = modulus.count
        der = Self.element(0x30, Self.integer(modulus) + Self.integer(exponent))
    }

    /// A positive number: its first bit must not look like a sign.
    private static func integer(_ magnitude: ArraySlice<UInt8>) -> [UInt8] {
        let sign: [UInt8] = magnitude.first.map { $0 & 0x80 != 0 } == true ? [0] : []
        return element(0x02, sign + magnitude)
    }

    private static func element(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
        guard content.count >= 0x80 else { return [tag, UInt8(content.count)] + content }
        // The long form: how many bytes the length has, and these.
        let length = withUnsafeBytes(of: content.count.bigEndian) { Array($0.drop { $0 == 0 }) }
        return [tag, 0x80 | UInt8(length.count)] + length + content
    }
}
