import COpenSSL
import ChappieAuth

/// SHA-256 (FIPS 180-4).
enum SHA256 {
    static let count = 32

    static func digest(of bytes: some Collection<UInt8>) throws(CredentialStoreError) -> [UInt8] {
        try Libcrypto.require()
        let input = Array(bytes)
        var digest = [UInt8](repeating: 0, count: count)
        guard EVP_Digest(input, input.count, &digest, nil, EVP_sha256(), nil) == 1 else {
            throw Libcrypto.failure("libcrypto can't compute a SHA-256 digest")
        }
        return digest
    }
}
