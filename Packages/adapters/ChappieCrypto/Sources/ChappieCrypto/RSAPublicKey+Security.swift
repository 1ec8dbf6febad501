// CryptoKit has no RSA.
#if canImport(Security)
    import ChappieAuth
    import ChappieCore
    import Security

    // No machine of the project has run this file: it is compiled against declarations that are written by hand.

    extension RSAPublicKey {
        /// Whether `signature` is of `message`.
        ///
        /// - Throws: Nothing: a lack of memory looks like a wrong key here.
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
