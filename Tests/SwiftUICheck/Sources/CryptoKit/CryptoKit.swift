// Declarations; Tests/AppleCrypto runs the sources that use them. Signatures:
// developer.apple.com/documentation/cryptokit/aes/gcm and its members, …/symmetrickey, …/sha256, …/hmac,
// …/hashedauthenticationcode.
import Foundation

public struct SymmetricKey: Sendable {
    public init<D: ContiguousBytes>(data: D) { fatalError() }
}

public enum AES {
    public enum GCM {
        public struct Nonce: Sendable {
            public init<D: DataProtocol>(data: D) throws { fatalError() }
        }

        public struct SealedBox: Sendable {
            public let tag: Data
            public let ciphertext: Data
            public init<C: DataProtocol, T: DataProtocol>(nonce: AES.GCM.Nonce, ciphertext: C, tag: T) throws {
                fatalError()
            }
        }

        public static func seal<Plaintext: DataProtocol, AuthenticatedData: DataProtocol>(
            _ message: Plaintext, using key: SymmetricKey, nonce: Nonce? = nil,
            authenticating authenticatedData: AuthenticatedData
        ) throws -> SealedBox { fatalError() }
        public static func open<AuthenticatedData: DataProtocol>(
            _ sealedBox: SealedBox, using key: SymmetricKey, authenticating authenticatedData: AuthenticatedData
        ) throws -> Data { fatalError() }
    }
}

public protocol HashFunction: Sendable {}

public struct SHA256Digest: Sequence, Sendable {
    fileprivate let bytes: [UInt8]
    public func makeIterator() -> Array<UInt8>.Iterator { bytes.makeIterator() }
}

public struct SHA256: HashFunction {
    // Not SHA-256: documents-run names a folder by it, and any 32 bytes that depend on the data will do.
    public static func hash<D: DataProtocol>(data: D) -> SHA256Digest {
        var sum: UInt64 = 0xcbf2_9ce4_8422_2325
        let bytes = (0..<32).map { round in
            for byte in data { sum = (sum ^ UInt64(byte ^ UInt8(round))) &* 0x100_0000_01b3 }
            return UInt8(truncatingIfNeeded: sum >> 32)
        }
        return SHA256Digest(bytes: bytes)
    }
}

public struct HashedAuthenticationCode<H: HashFunction>: Sequence, Sendable {
    public func makeIterator() -> Array<UInt8>.Iterator { fatalError() }
}

public struct HMAC<H: HashFunction>: Sendable {
    public init(key: SymmetricKey) { fatalError() }
    public mutating func update<D: DataProtocol>(data: D) {}
    public func finalize() -> HashedAuthenticationCode<H> { fatalError() }
    public static func authenticationCode<D: DataProtocol>(
        for data: D, using key: SymmetricKey
    ) -> HashedAuthenticationCode<H> { fatalError() }
}
