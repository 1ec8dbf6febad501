import COpenSSL
import ChappieAuth

/// scrypt (RFC 7914): a key from a passphrase, made slow and big on purpose.
enum Scrypt {
    /// - Parameters:
    ///   - salt: Random bytes of the file; 16 here.
    ///   - count: How many bytes are wanted.
    /// - Throws: `failed` when libcrypto can't, which is for lack of memory.
    static func derive(
        _ count: Int, from passphrase: Secret, salt: [UInt8], parameters: ScryptParameters
    ) throws(CredentialStoreError) -> [UInt8] {
        try Libcrypto.require()
        var derived = [UInt8](repeating: 0, count: count)
        let status = passphrase.withBytes { passphrase in
            // A null passphrase would ask libcrypto for no more than a look at the parameters.
            withUnsafeBytes(of: 0 as UInt8) { nothing in
                EVP_PBE_scrypt(
                    (UnsafeRawPointer(passphrase.baseAddress) ?? nothing.baseAddress)?
                        .assumingMemoryBound(to: CChar.self), passphrase.count, salt, salt.count,
                    UInt64(parameters.cost), UInt64(parameters.blockSize), UInt64(parameters.parallelism),
                    UInt64(parameters.workspace), &derived, count)
            }
        }
        guard status == 1 else {
            Libcrypto.wipe(&derived)
            throw Libcrypto.failure(
                "libcrypto can't derive the key, which takes \(parameters.memory >> 20) MiB of memory")
        }
        return derived
    }
}
