// CryptoKit has no RSA.
#if canImport(Security)
    import ChappieAuth
    import ChappieCore
    import Security

    // The project has not run this file on any machine. It is compiled against declarations that are written by hand.

    extension RSAPublicKey {
        /// Returns whether `signature` is a signature of `message`.
        ///
        /// - Throws: Nothing. If memory runs out, the result is the same as for a wrong key.
        func verifies(_ signature: [UInt8], of message: [UInt8]) throws(CredentialStoreError) -> Bool {
            let attributes: [String: Any] = [
                kSecAttrKeyType as String: kSecAttrKeyTypeRSA,
                kSecAttrKeyClass as String: kSecAttrKeyClassPublic,
            ]
            guard let key = SecKeyCreateWithData(data(der), attributes as CFDictionary, nil) else { return false }
            return SecKeyVerifySignature(
                key, .rsaSignatureMessagePKCS1v15SHA256, data(message), data(signature), nil)
        }

        private func data(_ bytes: [UInt8]) -> CFData { NSData(data: Data(bytes)) as CFData }
    }
#endif
