import ChappieAuth

/// An encrypted credential as it lies in a file. Pure: bytes in, a value or a fault out, nothing decrypted.
///
/// Version 1, numbers with the highest byte first:
///
/// | bytes | what |
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
/// scrypt derives 64 bytes: the key, and the check value, from which the key can't be computed (both are outputs of
/// PBKDF2 for different blocks). A thief could try passphrases against the tag just as well. The three together tell a
/// person what is wrong: the checksum that the file is damaged, before anything is derived; the check value that the
/// passphrase is another one; the tag that somebody has changed or moved the file on purpose.
///
/// Every version begins with the magic and its number and ends with the checksum, so that damage can be told from a
/// newer version.
struct CredentialFile: Equatable {
    /// The longest secret, in bytes.
    static let secretLimit = 1 << 20
    /// The longest file, in bytes.
    static let limit = CredentialFileHeader.count + secretLimit + AESGCM.tagCount + SHA256.count

    let header: CredentialFileHeader
    let ciphertext: [UInt8]
    let tag: [UInt8]

    init(header: CredentialFileHeader, ciphertext: [UInt8], tag: [UInt8]) {
        self.header = header
        self.ciphertext = ciphertext
        self.tag = tag
    }

    func bytes() throws(CredentialStoreError) -> [UInt8] {
        let content = header.bytes + ciphertext + tag
        return content + (try SHA256.digest(of: content))
    }

    /// - Parameters:
    ///   - bytes: Whatever the file holds.
    ///   - path: For the messages.
    /// - Throws: `corrupt` for anything that ``bytes()`` does not write.
    init(_ bytes: [UInt8], path: String) throws(CredentialStoreError) {
        guard bytes.starts(with: CredentialFileHeader.magic) else {
            throw .corrupt("\(path) is not an encrypted credential file, or its beginning is lost")
        }
        guard bytes.count <= Self.limit else { throw .corrupt("\(path) is longer than any credential file") }
        guard bytes.count > CredentialFileHeader.magic.count + SHA256.count,
            try SHA256.digest(of: bytes.dropLast(SHA256.count)) == Array(bytes.suffix(SHA256.count))
        else { throw .corrupt("\(path) is damaged or cut off: its checksum is wrong") }
        var reader = ByteReader(bytes.dropLast(SHA256.count).dropFirst(CredentialFileHeader.magic.count))
        guard let version = reader.number(1), version == CredentialFileHeader.version else {
            throw .corrupt("\(path) was written by a newer version of this program")
        }
        guard let costExponent = reader.number(1), let blockSize = reader.number(2),
            let parallelism = reader.number(2), let salt = reader.bytes(CredentialFileHeader.saltCount),
            let check = reader.bytes(CredentialFileHeader.checkCount), let nonce = reader.bytes(AESGCM.nonceCount),
            let count = reader.number(4), let ciphertext = reader.bytes(count),
            let tag = reader.bytes(AESGCM.tagCount), reader.rest.isEmpty
        else { throw .corrupt("\(path) does not have the form of a credential file") }
        guard
            let parameters = ScryptParameters(
                costExponent: costExponent, blockSize: blockSize, parallelism: parallelism)
        else { throw .corrupt("\(path) asks for more work to open it than any file of this program") }
        header = CredentialFileHeader(
            parameters: parameters, salt: salt, check: check, nonce: nonce, ciphertextCount: count)
        self.ciphertext = ciphertext
        self.tag = tag
    }
}
