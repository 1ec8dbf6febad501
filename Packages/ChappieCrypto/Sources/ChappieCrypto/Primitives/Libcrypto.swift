import COpenSSL
import ChappieAuth

/// What all calls into libcrypto share.
enum Libcrypto {
    /// Set up without the clean-up at exit: a thread may still be deriving a key when the program ends, and the clean-up
    /// would pull the library away from under it.
    private static let isReady = OPENSSL_init_crypto(UInt64(OPENSSL_INIT_NO_ATEXIT), nil) == 1

    /// Makes libcrypto ready to be called.
    ///
    /// - Throws: `failed` when it can't be set up.
    static func require() throws(CredentialStoreError) {
        guard isReady else { throw failure("libcrypto can't be set up") }
    }

    /// The error for a call that failed for no reason of ours, such as no memory. The thread's queue of errors is
    /// emptied, so that the next user of the library does not find ours in it.
    static func failure(_ what: String) -> CredentialStoreError {
        ERR_clear_error()
        return .failed(what)
    }

    /// Whether both are the same, in a time that tells nothing but the lengths.
    static func areEqual(_ left: some Collection<UInt8>, _ right: some Collection<UInt8>) -> Bool {
        let (left, right) = (Array(left), Array(right))
        return left.count == right.count && CRYPTO_memcmp(left, right, left.count) == 0
    }

    /// Overwrites `bytes`, which must be held by nobody else, with zeros.
    static func wipe(_ bytes: inout [UInt8]) {
        bytes.withUnsafeMutableBytes { OPENSSL_cleanse($0.baseAddress, $0.count) }
    }
}
