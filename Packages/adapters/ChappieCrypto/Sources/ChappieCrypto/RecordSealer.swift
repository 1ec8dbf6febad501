public import ChappieAuth

/// A sealer of records with one key, for a store that keeps many of them. Three values are derived from the key, each
/// for one use: encryption, the tags of rows, and the id of the key.
@_spi(ChappieInternals) public struct RecordSealer: Sendable {
    /// The 32 bytes from which the other keys are derived.
    public let key: Secret
    /// The number that identifies the key without revealing it. It is positive.
    public let id: Int
    private let encryption: Secret
    private let rows: Secret

    /// The number of bytes of a key.
    public static let keyCount = CryptoLibrary.keyCount

    /// Creates a sealer with a new key.
    ///
    /// - Throws: `failed` if the crypto library fails.
    public init() throws(CredentialStoreError) {
        try self.init(Secret(CryptoLibrary.randomBytes(CryptoLibrary.keyCount)))
    }

    /// Creates a sealer with this key, which must have ``keyCount`` bytes.
    ///
    /// - Throws: `failed` if the crypto library fails.
    public init(_ key: Secret) throws(CredentialStoreError) {
        precondition(key.count == Self.keyCount, "A record sealer needs a key of 32 bytes.")
        let derive = try MessageAuthenticator(key)
        self.key = key
        encryption = Secret(try derive.code(of: Array("chappie records: encryption".utf8)))
        rows = Secret(try derive.code(of: Array("chappie records: rows".utf8)))
        let name = try derive.code(of: Array("chappie records: id".utf8))
        id = name.prefix(4).reduce(0) { $0 << 8 | Int($1) } | 1 << 32
    }

    /// Encrypts `bytes` with AES-256-GCM under a new random nonce (NIST SP 800-38D) and binds the result to `context`.
    /// The result is 28 bytes longer than `bytes`. A key can be used for 2³² records.
    ///
    /// - Throws: `failed` if the crypto library fails.
    public func seal(_ bytes: [UInt8], for context: [UInt8]) throws(CredentialStoreError) -> [UInt8] {
        try CryptoLibrary.seal(bytes, key: encryption, authenticating: context)
    }

    /// Opens a record that ``seal(_:for:)`` made. Returns `nil` if key or context differ, or `sealed` was changed.
    ///
    /// - Throws: `failed` if the crypto library fails.
    public func open(_ sealed: [UInt8], for context: [UInt8]) throws(CredentialStoreError) -> [UInt8]? {
        try CryptoLibrary.open(sealed, key: encryption, authenticating: context)
    }

    /// Returns an authenticator for tags of rows. Only the owner of this key can make such tags.
    ///
    /// - Throws: `failed` if the crypto library fails.
    public func rowTags() throws(CredentialStoreError) -> MessageAuthenticator { try MessageAuthenticator(rows) }

    /// Returns a SHA-256 checksum (FIPS 180-4) for records that are not encrypted. It detects damage but not forgery.
    ///
    /// - Throws: `failed` if the crypto library fails.
    public static func checksum(of bytes: [UInt8]) throws(CredentialStoreError) -> [UInt8] {
        try CryptoLibrary.digest(of: bytes)
    }
}

/// An HMAC-SHA256 function (FIPS 198-1) for many messages with one key. Only one task at a time may use it.
@_spi(ChappieInternals) public final class MessageAuthenticator {
    private let hash: CryptoLibrary.KeyedHash
    private static let failure = CredentialStoreError.failed("\(CryptoLibrary.name) can't compute an HMAC")

    init(_ key: Secret) throws(CredentialStoreError) {
        guard let hash = CryptoLibrary.KeyedHash(key) else { throw Self.failure }
        self.hash = hash
    }

    /// Returns the code of a message, which has 32 bytes.
    ///
    /// - Throws: `failed` if the crypto library fails.
    public func code(of message: [UInt8]) throws(CredentialStoreError) -> [UInt8] {
        guard let code = hash.code(of: message) else { throw Self.failure }
        return code
    }
}
