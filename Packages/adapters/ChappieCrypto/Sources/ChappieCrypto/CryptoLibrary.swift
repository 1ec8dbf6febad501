import ChappieAuth

/// The functions that encrypted files need, implemented with the platform's crypto library: CryptoKit on Apple's
/// platforms, libcrypto elsewhere. Each opens data that the other sealed. Each function throws `failed` if the library
/// fails, which happens if memory runs out.
enum CryptoLibrary {
    static let digestCount = 32
    static let keyCount = 32
    static let nonceCount = 12
    static let tagCount = 16

    enum Direction { case decrypting, encrypting }

    private static func demand(_ isDone: Bool, _ words: String) throws(CredentialStoreError) {
        guard isDone else { throw .failed("\(name) \(words)") }
    }

    static func randomBytes(_ count: Int) throws(CredentialStoreError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        try demand(fillRandomly(&bytes), "can't provide random bytes")
        return bytes
    }

    /// Computes a SHA-256 digest (FIPS 180-4).
    static func digest(of bytes: some Collection<UInt8>) throws(CredentialStoreError) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: digestCount)
        try demand(hash(Array(bytes), into: &digest), "can't compute a SHA-256 digest")
        return digest
    }

    /// Derives `count` bytes from a passphrase with scrypt (RFC 7914), which is slow on purpose.
    static func scrypt(
        _ count: Int, from passphrase: Secret, salt: [UInt8], parameters: ScryptParameters
    ) throws(CredentialStoreError) -> [UInt8] {
        var derived = [UInt8](repeating: 0, count: count)
        let isDone = stretch(passphrase, salt, parameters, into: &derived)
        if !isDone { wipe(&derived) }
        try demand(isDone, "can't derive the key, which takes \(parameters.memory >> 20) MiB of memory")
        return derived
    }

    /// Encrypts `plaintext` with AES-256-GCM (NIST SP 800-38D) and authenticates it together with `header`.
    ///
    /// - Parameter nonce: The nonce. It must never be used twice with the same key.
    static func encrypt(
        _ plaintext: Secret, key: Secret, nonce: [UInt8], authenticating header: [UInt8]
    ) throws(CredentialStoreError) -> (ciphertext: [UInt8], tag: [UInt8]) {
        var tag = [UInt8](repeating: 0, count: tagCount)
        var ciphertext = [UInt8](repeating: 0, count: plaintext.count)
        let isDone = plaintext.withBytes { run(.encrypting, $0, into: &ciphertext, key, nonce, header, &tag) }
        try demand(isDone == true, "can't encrypt")
        return (ciphertext, tag)
    }

    /// Decrypts `ciphertext`. Returns `nil` if key, nonce, header, ciphertext and tag do not match.
    static func decrypt(
        _ ciphertext: [UInt8], tag: [UInt8], key: Secret, nonce: [UInt8], authenticating header: [UInt8]
    ) throws(CredentialStoreError) -> Secret? {
        var tag = tag
        var plaintext = [UInt8](repeating: 0, count: ciphertext.count)
        // Bytes that were decrypted before the tag proved wrong must not stay in memory.
        defer { wipe(&plaintext) }
        let isRight = ciphertext.withUnsafeBufferPointer {
            run(.decrypting, $0, into: &plaintext, key, nonce, header, &tag)
        }
        try demand(isRight != nil, "can't decrypt")
        return isRight == true ? Secret(plaintext) : nil
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

    /// Decrypts bytes that ``seal(_:key:authenticating:)`` made. Returns `nil` if key, header and `sealed` do not
    /// match.
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
        return nil
    }

    /// Overwrites `bytes` with zeros. The array must have no other owner.
    static func wipe(_ bytes: inout [UInt8]) { bytes.withUnsafeMutableBytes { wipe($0) } }
}
