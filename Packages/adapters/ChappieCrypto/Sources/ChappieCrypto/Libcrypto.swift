import COpenSSL
import ChappieAuth

/// The functions of libcrypto that encrypted files need. Each throws `failed` if libcrypto fails, which happens for
/// lack of memory. None leaves an error of ours in the thread's queue for the next user of the library.
enum Libcrypto {
    static let digestCount = 32
    static let keyCount = 32
    static let nonceCount = 12
    static let tagCount = 16

    /// Initialised without a clean-up at exit: a thread may still derive a key when the program ends.
    static let isReady = chappie_openssl_init() == 1

    private static func demand(_ isDone: Bool, _ words: String) throws(CredentialStoreError) {
        guard !isDone else { return }
        ERR_clear_error()
        throw .failed("libcrypto \(words)")
    }

    static func randomBytes(_ count: Int) throws(CredentialStoreError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        try demand(isReady && RAND_bytes(&bytes, CInt(count)) == 1, "can't provide random bytes")
        return bytes
    }

    /// SHA-256 (FIPS 180-4).
    static func digest(of bytes: some Collection<UInt8>) throws(CredentialStoreError) -> [UInt8] {
        let input = Array(bytes)
        var digest = [UInt8](repeating: 0, count: digestCount)
        let isDone = isReady && EVP_Digest(input, input.count, &digest, nil, EVP_sha256(), nil) == 1
        try demand(isDone, "can't compute a SHA-256 digest")
        return digest
    }

    /// scrypt (RFC 7914): `count` bytes from a passphrase, slow on purpose.
    static func scrypt(
        _ count: Int, from passphrase: Secret, salt: [UInt8], parameters: ScryptParameters
    ) throws(CredentialStoreError) -> [UInt8] {
        var derived = [UInt8](repeating: 0, count: count)
        let isDone = passphrase.withBytes { passphrase in
            // With a null passphrase, libcrypto would only check the parameters.
            withUnsafeBytes(of: 0 as UInt8) { nothing in
                isReady
                    && EVP_PBE_scrypt(
                        (UnsafeRawPointer(passphrase.baseAddress) ?? nothing.baseAddress)?
                            .assumingMemoryBound(to: CChar.self), passphrase.count, salt, salt.count,
                        UInt64(parameters.cost), UInt64(parameters.blockSize), UInt64(parameters.parallelism),
                        UInt64(parameters.workspace), &derived, count) == 1
            }
        }
        if !isDone { wipe(&derived) }
        try demand(isDone, "can't derive the key, which takes \(parameters.memory >> 20) MiB of memory")
        return derived
    }

    /// Encrypts `plaintext` with AES-256-GCM (NIST SP 800-38D) and authenticates it together with `header`.
    ///
    /// - Parameter nonce: Must never be used twice with the same key.
    static func encrypt(
        _ plaintext: Secret, key: Secret, nonce: [UInt8], authenticating header: [UInt8]
    ) throws(CredentialStoreError) -> (ciphertext: [UInt8], tag: [UInt8]) {
        var tag = [UInt8](repeating: 0, count: tagCount)
        var ciphertext = [UInt8](repeating: 0, count: plaintext.count)
        let isDone = plaintext.withBytes { run(.encrypting, $0, into: &ciphertext, key, nonce, header, &tag) }
        try demand(isDone == true, "can't encrypt")
        return (ciphertext, tag)
    }

    /// The plaintext; `nil` if key, nonce, header, ciphertext and tag don't belong together.
    static func decrypt(
        _ ciphertext: [UInt8], tag: [UInt8], key: Secret, nonce: [UInt8], authenticating header: [UInt8]
    ) throws(CredentialStoreError) -> Secret? {
        var tag = tag
        var plaintext = [UInt8](repeating: 0, count: ciphertext.count)
        // Bytes that were decrypted before the tag turned out wrong must not stay in memory.
        defer { wipe(&plaintext) }
        let isRight = ciphertext.withUnsafeBufferPointer {
            run(.decrypting, $0, into: &plaintext, key, nonce, header, &tag)
        }
        try demand(isRight != nil, "can't decrypt")
        if isRight == true { return Secret(plaintext) }
        ERR_clear_error()
        return nil
    }

    /// Encrypts `plaintext` like `encrypt` and returns the nonce, the ciphertext and the tag as one array.
    static func seal(
        _ plaintext: [UInt8], key: Secret, authenticating header: [UInt8]
    ) throws(CredentialStoreError) -> [UInt8] {
        let nonce = try randomBytes(nonceCount)
        var tag = [UInt8](repeating: 0, count: tagCount)
        var ciphertext = [UInt8](repeating: 0, count: plaintext.count)
        let isDone = plaintext.withUnsafeBufferPointer {
            run(.encrypting, $0, into: &ciphertext, key, nonce, header, &tag)
        }
        try demand(isDone == true, "can't encrypt")
        return nonce + ciphertext + tag
    }

    /// The bytes that were sealed; `nil` if key, header and `sealed` don't belong together.
    static func open(
        _ sealed: [UInt8], key: Secret, authenticating header: [UInt8]
    ) throws(CredentialStoreError) -> [UInt8]? {
        guard sealed.count >= nonceCount + tagCount else { return nil }
        let nonce = Array(sealed.prefix(nonceCount))
        var tag = Array(sealed.suffix(tagCount))
        var plaintext = [UInt8](repeating: 0, count: sealed.count - nonceCount - tagCount)
        let isRight = sealed.withUnsafeBufferPointer {
            let ciphertext = UnsafeBufferPointer(rebasing: $0[nonceCount..<sealed.count - tagCount])
            return run(.decrypting, ciphertext, into: &plaintext, key, nonce, header, &tag)
        }
        if isRight == true { return plaintext }
        wipe(&plaintext)
        try demand(isRight != nil, "can't decrypt")
        ERR_clear_error()
        return nil
    }

    private enum Direction: CInt { case decrypting, encrypting }

    /// Whether the tag is right; `nil` if libcrypto failed.
    private static func run(
        _ direction: Direction, _ input: UnsafeBufferPointer<UInt8>, into output: inout [UInt8], _ key: Secret,
        _ nonce: [UInt8], _ header: [UInt8], _ tag: inout [UInt8]
    ) -> Bool? {
        guard isReady, let context = EVP_CIPHER_CTX_new() else { return nil }
        defer { EVP_CIPHER_CTX_free(context) }
        let hasKey = key.withBytes {
            EVP_CipherInit_ex(context, EVP_aes_256_gcm(), nil, $0.baseAddress, nonce, direction.rawValue) == 1
        }
        var written: CInt = 0
        guard hasKey,
            direction == .encrypting
                || EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, CInt(tagCount), &tag) == 1,
            EVP_CipherUpdate(context, nil, &written, header, CInt(header.count)) == 1,
            input.isEmpty || EVP_CipherUpdate(context, &output, &written, input.baseAddress, CInt(input.count)) == 1
        else { return nil }
        // GCM is a stream: its end adds no bytes, and checks the tag.
        var rest = [UInt8](repeating: 0, count: tagCount)
        let isRight = EVP_CipherFinal_ex(context, &rest, &written) == 1
        guard direction == .encrypting else { return isRight }
        return isRight && EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, CInt(tagCount), &tag) == 1
    }

    /// Overwrites `bytes`, which must have no other owner, with zeros.
    static func wipe(_ bytes: inout [UInt8]) {
        bytes.withUnsafeMutableBytes { OPENSSL_cleanse($0.baseAddress, $0.count) }
    }
}
