// Apple's platforms have CryptoKit and no OpenSSL. Tests/AppleCrypto compiles and runs this file over swift-crypto,
// which has CryptoKit's interface (https://developer.apple.com/documentation/cryptokit).
#if canImport(CryptoKit)
    import ChappieAuth
    @_spi(ChappieInternals) import ChappieCore
    import CryptoKit

    #if canImport(Darwin)
        import Darwin
    #else
        import Glibc
    #endif

    extension CryptoLibrary {
        static let name = "CryptoKit"

        static func fillRandomly(_ bytes: inout [UInt8]) -> Bool {
            bytes = SystemEntropy().bytes(bytes.count)
            return true
        }

        static func hash(_ input: [UInt8], into digest: inout [UInt8]) -> Bool {
            digest = Array(SHA256.hash(data: input))
            return true
        }

        static func stretch(
            _ passphrase: Secret, _ salt: [UInt8], _ parameters: ScryptParameters, into derived: inout [UInt8]
        ) -> Bool {
            derived = Scrypt(parameters).bytes(derived.count, from: symmetric(passphrase), salt: salt)
            return true
        }

        /// Encrypts or decrypts `input`. Returns whether the tag is right, or `nil` if CryptoKit failed.
        static func run(
            _ direction: Direction, _ input: UnsafeBufferPointer<UInt8>, into output: inout [UInt8], _ key: Secret,
            _ nonce: [UInt8], _ header: [UInt8], _ tag: inout [UInt8]
        ) -> Bool? {
            let key = symmetric(key)
            do {
                let nonce = try AES.GCM.Nonce(data: nonce)
                switch direction {
                case .encrypting:
                    let box = try AES.GCM.seal(input, using: key, nonce: nonce, authenticating: header)
                    output = Array(box.ciphertext)
                    tag = Array(box.tag)
                case .decrypting:
                    let box = try AES.GCM.SealedBox(nonce: nonce, ciphertext: input, tag: tag)
                    // If the sizes are right, only a wrong tag makes this fail. The error that is thrown varies.
                    guard var plaintext = try? AES.GCM.open(box, using: key, authenticating: header) else {
                        return false
                    }
                    output = Array(plaintext)
                    plaintext.withUnsafeMutableBytes { wipe($0) }
                }
                return true
            } catch {
                return nil
            }
        }

        /// Overwrites `memory` with zeros. It is not inlined, because the compiler must not see that the bytes are not
        /// read again.
        @inline(never)
        static func wipe(_ memory: UnsafeMutableRawBufferPointer) {
            guard let start = memory.baseAddress else { return }
            memset(start, 0, memory.count)
        }

        private static func symmetric(_ secret: Secret) -> SymmetricKey { secret.withBytes { SymmetricKey(data: $0) } }

        /// An HMAC-SHA256 function for many messages with one key.
        struct KeyedHash {
            private let start: HMAC<SHA256>

            /// Creates a hash. The result is never `nil`. The initialiser is failable because libcrypto's may fail.
            init?(_ key: Secret) { start = HMAC(key: symmetric(key)) }

            func code(of message: [UInt8]) -> [UInt8]? {
                var hash = start
                hash.update(data: message)
                return Array(hash.finalize())
            }
        }
    }
#endif
