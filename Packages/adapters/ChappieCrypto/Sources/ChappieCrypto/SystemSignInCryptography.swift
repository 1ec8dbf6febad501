public import ChappieAuth

/// An implementation of ``SignInCryptography`` with the platform's library: Security on Apple's platforms, libcrypto
/// elsewhere.
public struct SystemSignInCryptography: SignInCryptography {
    /// Creates an implementation that uses the library of this platform.
    public init() {}

    /// Returns the SHA-256 digest of `bytes`.
    ///
    /// - Throws: ``CredentialStoreError/failed(_:)`` if memory runs out.
    public func sha256(_ bytes: [UInt8]) throws -> [UInt8] { try CryptoLibrary.digest(of: bytes) }

    /// Returns whether `signature` is a signature of `message` by RSASSA-PKCS1-v1_5 with SHA-256.
    ///
    /// The result is also `false` for an even modulus, and for an exponent of more than 64 bits. No issuer has such an
    /// exponent, and a check with it takes as long as the author of the key wants.
    ///
    /// - Throws: ``CredentialStoreError/failed(_:)`` if memory runs out.
    public func verifiesRS256(
        _ signature: [UInt8], of message: [UInt8], modulus: [UInt8], exponent: [UInt8]
    ) throws -> Bool {
        guard let key = RSAPublicKey(modulus: modulus, exponent: exponent) else { return false }
        // This is step 1 of RFC 8017, 8.2.2. The libraries differ in their answers to another length.
        guard signature.count == key.count else { return false }
        return try key.verifies(signature, of: message)
    }
}

/// An RSA key of a size that is in use.
struct RSAPublicKey {
    /// The size of the modulus and of a signature, in bytes.
    let count: Int
    /// The key in the form that both libraries read: `RSAPublicKey` of RFC 8017, A.1.1, in DER (ITU-T X.690, 8.1, 8.3,
    /// 8.9, 10.1).
    let der: [UInt8]

    /// Creates a key. Returns `nil` if it can't be an RSA key, or is smaller or larger than any that is in use.
    ///
    /// - Parameters:
    ///   - modulus: The modulus, big-endian, odd, of 2048 to 8192 bits.
    ///   - exponent: The exponent, big-endian, odd, at least 3, of at most 64 bits.
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

    /// Encodes a positive number. Its first bit must not look like a sign.
    private static func integer(_ magnitude: ArraySlice<UInt8>) -> [UInt8] {
        let sign: [UInt8] = magnitude.first.map { $0 & 0x80 != 0 } == true ? [0] : []
        return element(0x02, sign + magnitude)
    }

    private static func element(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
        guard content.count >= 0x80 else { return [tag, UInt8(content.count)] + content }
        // In the long form, the number of bytes of the length precedes the length.
        let length = withUnsafeBytes(of: content.count.bigEndian) { Array($0.drop { $0 == 0 }) }
        return [tag, 0x80 | UInt8(length.count)] + length + content
    }
}
