import ChappieAuth

/// An encrypted credential in the form in which it is stored in a file. This type decrypts nothing and does no I/O.
///
/// Version 1, with numbers in big-endian order:
///
/// | bytes | content |
/// | --- | --- |
/// | 8 | `CHAPCRED` |
/// | 1 | version, 1 |
/// | 1 | scrypt: binary logarithm of N |
/// | 2, 2 | scrypt: r, p |
/// | 16 | scrypt: salt |
/// | 32 | key check value |
/// | 12 | AES-256-GCM: nonce, new at each save |
/// | 4 | n, the length of the ciphertext, 1 MiB at most |
/// | n | ciphertext |
/// | 16 | AES-256-GCM: tag, over everything above and the digest of the slot |
/// | 32 | SHA-256 of everything above |
///
/// scrypt derives 64 bytes: the key, and the check value, from which the key can't be computed. Three fields show what
/// is wrong. The checksum shows that the file is damaged, before anything is derived. The check value shows that the
/// passphrase is wrong. The tag shows that the file was changed or moved on purpose. Every version begins with the
/// magic and its number and ends with the checksum, so that a reader can distinguish damage from a newer version.
struct CredentialFile: Equatable {
    static let saltCount = 16
    static let checkCount = 32
    /// The maximum size of a secret, in bytes.
    static let secretLimit = 1 << 20
    /// The maximum size of a file, in bytes.
    static let limit = headerCount + secretLimit + CryptoLibrary.tagCount + CryptoLibrary.digestCount
    static let magic = Array("CHAPCRED".utf8)
    private static let version = 1
    private static let headerCount = magic.count + 6 + saltCount + checkCount + CryptoLibrary.nonceCount + 4

    let parameters: ScryptParameters
    let salt: [UInt8]
    /// The second half of the derived bytes. The first half is the key.
    let check: [UInt8]
    let nonce: [UInt8]
    var ciphertext: [UInt8] = []
    var tag: [UInt8] = []

    /// Returns everything before the ciphertext, which has `count` bytes.
    func header(ciphertextCount count: Int) -> [UInt8] {
        var bytes = Self.magic
        bytes.append(Self.version, count: 1)
        bytes.append(parameters.costExponent, count: 1)
        bytes.append(parameters.blockSize, count: 2)
        bytes.append(parameters.parallelism, count: 2)
        bytes += salt + check + nonce
        bytes.append(count, count: 4)
        return bytes
    }

    func bytes() throws(CredentialStoreError) -> [UInt8] {
        let content = header(ciphertextCount: ciphertext.count) + ciphertext + tag
        return content + (try CryptoLibrary.digest(of: content))
    }
}

extension CredentialFile {
    /// Reads a stored file.
    ///
    /// - Throws: `corrupt` if ``bytes()`` can't have written these bytes, or `tooNew`. The message names `path`.
    init(_ bytes: [UInt8], path: String) throws(CredentialStoreError) {
        guard bytes.starts(with: Self.magic) else {
            throw .corrupt("\(path) is not an encrypted credential file, or its beginning is lost")
        }
        guard bytes.count <= Self.limit else { throw .corrupt("\(path) is longer than any credential file") }
        let content = bytes.dropLast(CryptoLibrary.digestCount)
        let checksum = bytes.suffix(CryptoLibrary.digestCount)
        guard content.count > Self.magic.count, try CryptoLibrary.digest(of: content) == Array(checksum) else {
            throw .corrupt("\(path) is damaged or cut off: its checksum is wrong")
        }
        var rest = content.dropFirst(Self.magic.count)
        let version = rest.takeNumber(1)
        if let version, version > Self.version { throw .tooNew(path, found: version, known: Self.version) }
        guard version == Self.version, let costExponent = rest.takeNumber(1), let blockSize = rest.takeNumber(2),
            let parallelism = rest.takeNumber(2), let salt = rest.take(Self.saltCount),
            let check = rest.take(Self.checkCount), let nonce = rest.take(CryptoLibrary.nonceCount),
            let count = rest.takeNumber(4), let ciphertext = rest.take(count),
            let tag = rest.take(CryptoLibrary.tagCount), rest.isEmpty
        else { throw .corrupt("\(path) does not have the form of a credential file") }
        let parameters = ScryptParameters(costExponent: costExponent, blockSize: blockSize, parallelism: parallelism)
        guard let parameters else {
            throw .corrupt("\(path) asks for more work to open it than any file of this program")
        }
        self.init(parameters: parameters, salt: salt, check: check, nonce: nonce, ciphertext: ciphertext, tag: tag)
    }
}

extension ArraySlice<UInt8> {
    /// Removes and returns the next bytes. Returns `nil` if there are too few.
    fileprivate mutating func take(_ count: Int) -> [UInt8]? {
        guard self.count >= count else { return nil }
        defer { removeFirst(count) }
        return Array(prefix(count))
    }

    /// Removes and returns an unsigned number of `count` bytes, at most 7, in big-endian order.
    fileprivate mutating func takeNumber(_ count: Int) -> Int? { take(count)?.reduce(0) { $0 << 8 | Int($1) } }
}

extension [UInt8] {
    /// Appends `number` in `count` bytes, in big-endian order.
    mutating func append(_ number: Int, count: Int) {
        for shift in (0..<count).reversed() { append(UInt8(truncatingIfNeeded: number >> (8 * shift))) }
    }
}
