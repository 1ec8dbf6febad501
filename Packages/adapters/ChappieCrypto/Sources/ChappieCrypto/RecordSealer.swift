import COpenSSL
public import ChappieAuth

/// Seals records with one key, for a store that keeps many of them. Three keys are derived from it, each for one use:
/// encryption, the tags of rows, the name of the key.
@_spi(ChappieInternals) public struct RecordSealer: Sendable {
    /// The 32 bytes from which the other keys are derived.
    public let key: Secret
    /// Identifies the key without revealing it. Positive.
    public let id: Int
    private let encryption: Secret
    private let rows: Secret

    /// The number of bytes of a key.
    public static let keyCount = Libcrypto.keyCount

    /// A sealer with a new key.
    ///
    /// - Throws: `failed` if libcrypto fails.
    public init() throws(CredentialStoreError) { try self.init(Secret(Libcrypto.randomBytes(Libcrypto.keyCount))) }

    /// A sealer with this key, which must have ``keyCount`` bytes.
    ///
    /// - Throws: `failed` if libcrypto fails.
    public init(_ key: Secret) throws(CredentialStoreError) {
        precondition(key.count == Self.keyCount, "A record sealer needs a key of 32 bytes.")
        let derive = try MessageAuthenticator(key)
        self.key = key
        encryption = Secret(try derive.code(of: Array("chappie records: encryption".utf8)))
        rows = Secret(try derive.code(of: Array("chappie records: rows".utf8)))
        let name = try derive.code(of: Array("chappie records: id".utf8))
        id = name.prefix(4).reduce(0) { $0 << 8 | Int($1) } | 1 << 32
    }

    /// `bytes` encrypted with AES-256-GCM under a new random nonce (NIST SP 800-38D), bound to `context`: 28 bytes
    /// more. A key is good for 2³² records.
    ///
    /// - Throws: `failed` if libcrypto fails.
    public func seal(_ bytes: [UInt8], for context: [UInt8]) throws(CredentialStoreError) -> [UInt8] {
        try Libcrypto.seal(bytes, key: encryption, authenticating: context)
    }

    /// Opens a record that ``seal(_:for:)`` made; `nil` if key or context differ, or `sealed` was changed.
    ///
    /// - Throws: `failed` if libcrypto fails.
    public func open(_ sealed: [UInt8], for context: [UInt8]) throws(CredentialStoreError) -> [UInt8]? {
        try Libcrypto.open(sealed, key: encryption, authenticating: context)
    }

    /// Makes tags of rows, which only the owner of this key can make.
    ///
    /// - Throws: `failed` if libcrypto fails.
    public func rowTags() throws(CredentialStoreError) -> MessageAuthenticator { try MessageAuthenticator(rows) }

    /// SHA-256 (FIPS 180-4), which detects damage but no forgery: for records that are not encrypted.
    ///
    /// - Throws: `failed` if libcrypto fails.
    public static func checksum(of bytes: [UInt8]) throws(CredentialStoreError) -> [UInt8] {
        try Libcrypto.digest(of: bytes)
    }
}

/// HMAC-SHA256 (FIPS 198-1) of many messages with one key. Only one task at a time may use it.
@_spi(ChappieInternals) public final class MessageAuthenticator {
    private let context: OpaquePointer

    init(_ key: Secret) throws(CredentialStoreError) {
        let algorithm = Libcrypto.isReady ? EVP_MAC_fetch(nil, "HMAC", nil) : nil
        defer { EVP_MAC_free(algorithm) }
        let context = algorithm.flatMap { EVP_MAC_CTX_new($0) }
        var name = Array("digest".utf8CString)
        var digest = Array("SHA256".utf8CString)
        // The parameter points to its name and to its value.
        let isDone = name.withUnsafeMutableBufferPointer { name in
            digest.withUnsafeMutableBufferPointer { digest in
                let parameters = [
                    OSSL_PARAM_construct_utf8_string(name.baseAddress, digest.baseAddress, 0),
                    OSSL_PARAM_construct_end(),
                ]
                return context != nil
                    && key.withBytes { EVP_MAC_init(context, $0.baseAddress, $0.count, parameters) == 1 }
            }
        }
        guard isDone, let context else {
            EVP_MAC_CTX_free(context)
            throw Self.failure
        }
        self.context = context
    }

    deinit { EVP_MAC_CTX_free(context) }

    /// The code of a message: 32 bytes.
    ///
    /// - Throws: `failed` if libcrypto fails.
    public func code(of message: [UInt8]) throws(CredentialStoreError) -> [UInt8] {
        var code = [UInt8](repeating: 0, count: Libcrypto.digestCount)
        var count = 0
        // Without a new key, libcrypto starts again with the present key.
        let isDone =
            EVP_MAC_init(context, nil, 0, nil) == 1 && EVP_MAC_update(context, message, message.count) == 1
            && EVP_MAC_final(context, &code, &count, code.count) == 1
        guard isDone else { throw Self.failure }
        return code
    }

    private static var failure: CredentialStoreError {
        ERR_clear_error()
        return .failed("libcrypto can't compute an HMAC")
    }
}
