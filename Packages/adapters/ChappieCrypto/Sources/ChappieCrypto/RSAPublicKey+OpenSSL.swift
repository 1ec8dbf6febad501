#if !canImport(Security)
    import COpenSSL
    import ChappieAuth

    extension RSAPublicKey {
        /// Returns whether `signature` is a signature of `message`. This leaves no error in the thread's queue for the
        /// next user of libcrypto.
        ///
        /// - Throws: ``CredentialStoreError/failed(_:)`` if memory runs out.
        func verifies(_ signature: [UInt8], of message: [UInt8]) throws(CredentialStoreError) -> Bool {
            guard chappie_openssl_init() == 1, let context = EVP_MD_CTX_new() else {
                throw .failed("libcrypto can't check a signature")
            }
            defer {
                EVP_MD_CTX_free(context)
                ERR_clear_error()
            }
            let key = der.withUnsafeBufferPointer { der in
                var start = der.baseAddress
                return d2i_PublicKey(EVP_PKEY_RSA, nil, &start, der.count)
            }
            guard let key else { return false }
            defer { EVP_PKEY_free(key) }
            // The padding of PKCS #1 v1.5 is the default.
            return EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, key) == 1
                && EVP_DigestVerify(context, signature, signature.count, message, message.count) == 1
        }
    }
#endif
