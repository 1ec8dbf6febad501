/// What stands before the ciphertext: how to make the key from the passphrase, and what to decrypt with it.
struct CredentialFileHeader: Equatable {
    static let magic = Array("CHAPCRED".utf8)
    static let version = 1
    static let saltCount = 16
    static let checkCount = 32
    static let count = magic.count + 1 + 1 + 2 + 2 + saltCount + checkCount + AESGCM.nonceCount + 4

    let parameters: ScryptParameters
    let salt: [UInt8]
    /// The second half of what scrypt derives, the first half being the key.
    let check: [UInt8]
    let nonce: [UInt8]
    let ciphertextCount: Int

    var bytes: [UInt8] {
        var bytes = Self.magic
        bytes.append(Self.version, count: 1)
        bytes.append(parameters.costExponent, count: 1)
        bytes.append(parameters.blockSize, count: 2)
        bytes.append(parameters.parallelism, count: 2)
        bytes += salt + check + nonce
        bytes.append(ciphertextCount, count: 4)
        return bytes
    }
}
