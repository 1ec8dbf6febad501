#if !canImport(CryptoKit)
    import COpenSSL
    import ChappieAuth

    // None of these functions leaves an error in the thread's queue for the next user of libcrypto.
    extension CryptoLibrary {
        static let name = "libcrypto"

        /// Whether libcrypto is initialised. It does no clean-up at exit, because a thread may still derive a key when
        /// the program ends.
        private static let isReady = chappie_openssl_init() == 1

        private static func finished(_ isDone: Bool) -> Bool {
            if !isDone { ERR_clear_error() }
            return isDone
        }

        static func fillRandomly(_ bytes: inout [UInt8]) -> Bool {
            finished(isReady && RAND_bytes(&bytes, CInt(bytes.count)) == 1)
        }

        static func hash(_ input: [UInt8], into digest: inout [UInt8]) -> Bool {
            finished(isReady && EVP_Digest(input, input.count, &digest, nil, EVP_sha256(), nil) == 1)
        }

        static func stretch(
            _ passphrase: Secret, _ salt: [UInt8], _ parameters: ScryptParameters, into derived: inout [UInt8]
        ) -> Bool {
            passphrase.withBytes { passphrase in
                // With a null passphrase, libcrypto would only check the parameters.
                withUnsafeBytes(of: 0 as UInt8) { nothing in
                    finished(
                        isReady
                            && EVP_PBE_scrypt(
                                (UnsafeRawPointer(passphrase.baseAddress) ?? nothing.baseAddress)?
                                    .assumingMemoryBound(to: CChar.self), passphrase.count, salt, salt.count,
                                UInt64(parameters.cost), UInt64(parameters.blockSize), UInt64(parameters.parallelism),
                                UInt64(parameters.workspace), &derived, derived.count) == 1
                    )
                }
            }
        }

        /// Encrypts or decrypts `input`. Returns whether the tag is right, or `nil` if libcrypto failed.
        static func run(
            _ direction: Direction, _ input: UnsafeBufferPointer<UInt8>, into output: inout [UInt8], _ key: Secret,
            _ nonce: [UInt8], _ header: [UInt8], _ tag: inout [UInt8]
        ) -> Bool? {
            guard isReady, let context = EVP_CIPHER_CTX_new() else { return nil }
            defer { EVP_CIPHER_CTX_free(context) }
            let isEncrypting = direction == .encrypting
            let hasKey = key.withBytes {
                EVP_CipherInit_ex(context, EVP_aes_256_gcm(), nil, $0.baseAddress, nonce, isEncrypting ? 1 : 0) == 1
            }
            var written: CInt = 0
            let isUnderway =
                hasKey
                && (isEncrypting || EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, CInt(tagCount), &tag) == 1)
                && EVP_CipherUpdate(context, nil, &written, header, CInt(header.count)) == 1
                && (input.isEmpty
                    || EVP_CipherUpdate(context, &output, &written, input.baseAddress, CInt(input.count)) == 1)
            guard finished(isUnderway) else { return nil }
            // GCM is a stream mode. Its final step adds no bytes and checks the tag.
            var rest = [UInt8](repeating: 0, count: tagCount)
            let isRight = finished(EVP_CipherFinal_ex(context, &rest, &written) == 1)
            guard isEncrypting else { return isRight }
            return finished(
                isRight && EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, CInt(tagCount), &tag) == 1)
        }

        static func wipe(_ memory: UnsafeMutableRawBufferPointer) { OPENSSL_cleanse(memory.baseAddress, memory.count) }

        /// An HMAC-SHA256 function for many messages with one key.
        final class KeyedHash {
            private let context: OpaquePointer

            /// Creates a hash. Returns `nil` if libcrypto failed.
            init?(_ key: Secret) {
                let algorithm = isReady ? EVP_MAC_fetch(nil, "HMAC", nil) : nil
                defer { EVP_MAC_free(algorithm) }
                let context = algorithm.flatMap { EVP_MAC_CTX_new($0) }
                var name = Array("digest".utf8CString)
                var digest = Array("SHA256".utf8CString)
                // The parameter contains pointers to its name and to its value.
                let isDone = name.withUnsafeMutableBufferPointer { name in
                    digest.withUnsafeMutableBufferPointer { digest in
                        let parameters = [
                            OSSL_PARAM_construct_utf8_string(name.baseAddress, digest.baseAddress, 0),
                            OSSL_PARAM_construct_end(),
                        ]
                        return context != nil
                            && key.withBytes { EVP_MAC_init(context, $0.baseAddress, $0.count, parameters) == 1 }
                    }
                }
                guard finished(isDone), let context else {
                    EVP_MAC_CTX_free(context)
                    return nil
                }
                self.context = context
            }

            deinit { EVP_MAC_CTX_free(context) }

            /// Returns the code of `message`, or `nil` if libcrypto failed.
            func code(of message: [UInt8]) -> [UInt8]? {
                var code = [UInt8](repeating: 0, count: digestCount)
                var count = 0
                // Without a new key, libcrypto starts again with the current key.
                let isDone =
                    EVP_MAC_init(context, nil, 0, nil) == 1 && EVP_MAC_update(context, message, message.count) == 1
                    && EVP_MAC_final(context, &code, &count, code.count) == 1
                return finished(isDone) ? code : nil
            }
        }
    }
#endif
