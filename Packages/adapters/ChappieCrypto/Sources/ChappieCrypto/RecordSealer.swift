public import ChappieAuth

/// A sealer of records with one key, for a store that keeps many of them. Two values are derived from the key, one for
/// encryption and one as the id of the key.
@_spi(ChappieInternals) public struct RecordSealer: Sendable {
    /// The 32 bytes from which the other keys are derived.
    public let key: Secret
    /// The number that identifies the key without revealing it. It is positive.
    public let id: Int
    private let encryption: Secret

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
        // HMAC-SHA256 (FIPS 198-1).
        guard let derive = CryptoLibrary.KeyedHash(key),
            let encryption = derive.code(of: Array("chappie records: encryption".utf8)),
            let name = derive.code(of: Array("chappie records: id".utf8))
        else { throw .failed("\(CryptoLibrary.name) can't compute an HMAC") }
        self.key = key
        self.encryption = Secret(encryption)
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

    /// Returns a SHA-256 checksum (FIPS 180-4) for records that are not encrypted. It detects damage but not forgery.
    ///
    /// - Throws: `failed` if the crypto library fails.
    public static func checksum(of bytes: [UInt8]) throws(CredentialStoreError) -> [UInt8] {
        try CryptoLibrary.digest(of: bytes)
    }
}
