import COpenSSL
import ChappieAuth

/// AES-256-GCM (NIST SP 800-38D) with nonces of 96 bits and tags of 128.
enum AESGCM {
    static let keyCount = 32
    static let nonceCount = 12
    static let tagCount = 16

    /// Encrypts `plaintext` and authenticates it together with `header`.
    ///
    /// - Parameter nonce: Never twice with the same key.
    /// - Throws: `failed` when libcrypto can't, which is for lack of memory.
    static func seal(
        _ plaintext: Secret, key: Secret, nonce: [UInt8], authenticating header: [UInt8]
    ) throws(CredentialStoreError) -> (ciphertext: [UInt8], tag: [UInt8]) {
        let context = try context()
        defer { EVP_CIPHER_CTX_free(context) }
        var ciphertext = [UInt8](repeating: 0, count: plaintext.count)
        var tag = [UInt8](repeating: 0, count: tagCount)
        let done = key.withBytes { key in
            guard key.count == keyCount, nonce.count == nonceCount,
                EVP_EncryptInit_ex(context, EVP_aes_256_gcm(), nil, key.baseAddress, nonce) == 1
            else { return false }
            var written: CInt = 0
            let isEncrypted = plaintext.withBytes { plaintext in
                EVP_EncryptUpdate(context, nil, &written, header, CInt(header.count)) == 1
                    && (plaintext.isEmpty
                        || EVP_EncryptUpdate(
                            context, &ciphertext, &written, plaintext.baseAddress, CInt(plaintext.count)) == 1)
            }
            // GCM is a stream: the end adds no bytes.
            var rest = [UInt8](repeating: 0, count: tagCount)
            return isEncrypted && EVP_EncryptFinal_ex(context, &rest, &written) == 1 && written == 0
                && EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, CInt(tagCount), &tag) == 1
        }
        guard done else { throw Libcrypto.failure("libcrypto can't encrypt") }
        return (ciphertext, tag)
    }

    /// What was sealed; `nil` when key, nonce, header, ciphertext and tag don't belong together.
    ///
    /// - Throws: `failed` when libcrypto can't, which is for lack of memory.
    static func open(
        _ ciphertext: [UInt8], tag: [UInt8], key: Secret, nonce: [UInt8], authenticating header: [UInt8]
    ) throws(CredentialStoreError) -> Secret? {
        let context = try context()
        defer { EVP_CIPHER_CTX_free(context) }
        var (plaintext, tag) = ([UInt8](repeating: 0, count: ciphertext.count), tag)
        var isAuthentic = false
        let done = key.withBytes { key in
            guard key.count == keyCount, nonce.count == nonceCount, tag.count == tagCount,
                EVP_DecryptInit_ex(context, EVP_aes_256_gcm(), nil, key.baseAddress, nonce) == 1
            else { return false }
            var written: CInt = 0
            guard EVP_DecryptUpdate(context, nil, &written, header, CInt(header.count)) == 1,
                ciphertext.isEmpty
                    || EVP_DecryptUpdate(context, &plaintext, &written, ciphertext, CInt(ciphertext.count)) == 1,
                EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, CInt(tagCount), &tag) == 1
            else { return false }
            var rest = [UInt8](repeating: 0, count: tagCount)
            isAuthentic = EVP_DecryptFinal_ex(context, &rest, &written) == 1
            return true
        }
        guard done, isAuthentic else {
            // Nobody may see what was decrypted before the tag was found wrong.
            Libcrypto.wipe(&plaintext)
            let failure = Libcrypto.failure("libcrypto can't decrypt")
            if !done { throw failure }
            return nil
        }
        return Secret(plaintext)
    }

    private static func context() throws(CredentialStoreError) -> OpaquePointer {
        try Libcrypto.require()
        guard let context = EVP_CIPHER_CTX_new() else { throw Libcrypto.failure("there is no memory to encrypt with") }
        return context
    }
}
