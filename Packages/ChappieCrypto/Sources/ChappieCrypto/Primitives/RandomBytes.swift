import COpenSSL
import ChappieAuth

/// Bytes from libcrypto's generator, which the system's seeds and which notices a fork.
enum RandomBytes {
    static func make(_ count: Int) throws(CredentialStoreError) -> [UInt8] {
        try Libcrypto.require()
        var bytes = [UInt8](repeating: 0, count: count)
        guard RAND_bytes(&bytes, CInt(count)) == 1 else {
            throw Libcrypto.failure("libcrypto has no random bytes to give")
        }
        return bytes
    }
}
