@_spi(ChappieInternals) import ChappieAuth

#if !canImport(CryptoKit)
    import COpenSSL
#endif

/// Derived keys that are kept for a while outside of this process, so that the next command need not derive them again.
///
/// Linux keeps them in the session keyring of the kernel (keyrings(7)), in a keyring of the name `chappie`, and drops
/// each 15 minutes after its last use. The other processes of this user in the same login session can read them there.
/// Where the kernel refuses, as in many containers, and on other systems, no key is kept.
///
/// A key's name is a digest of its salt, its parameters, its check value and the origin of its passphrase. After a change
/// of the passphrase, or of the file that contains it, an earlier key is not found.
enum KeptKeys {
    /// The time without use after which a key is dropped, in seconds.
    private static let patience = 15 * 60
    private static let ringName = "chappie"

    /// Returns the key that opens `file`, and renews its time.
    static func key(of file: CredentialFile, from origin: String) -> CredentialSealer.Key? {
        guard let name = name(file.salt, file.parameters, file.check, origin),
            let serial = search("user", name), var bytes = read(serial)
        else { return nil }
        defer { CryptoLibrary.wipe(&bytes) }
        guard bytes.count == CryptoLibrary.keyCount else { return nil }
        setTimeout(serial)
        return CredentialSealer.Key(Secret(bytes), of: file)
    }

    /// Keeps a key that has opened a file.
    static func keep(_ key: CredentialSealer.Key, from origin: String) {
        guard let name = name(key.salt, key.parameters, key.check, origin) else { return }
        key.encryption.withBytes { add(name, $0) }
    }

    private static func name(
        _ salt: [UInt8], _ parameters: ScryptParameters, _ check: [UInt8], _ origin: String
    ) -> String? {
        let cost = [parameters.costExponent, parameters.blockSize, parameters.parallelism].map(UInt8.init)
        let digest = try? CryptoLibrary.digest(of: salt + cost + check + Array(origin.utf8))
        return digest.map { "chappie:\(CredentialSlot.hexadecimal($0))" }
    }

    #if !canImport(CryptoKit)
        /// Drops all keys. Returns whether there were any.
        static func dropAll() -> Bool {
            guard let ring = search("keyring", ringName) else { return false }
            let count = control(KEYCTL_READ, ring)
            _ = control(KEYCTL_CLEAR, ring)
            return count > 0
        }

        /// The session keyring of this process, or the user's default one. It is not created, because a new one would
        /// end with this process.
        private static var session: Int? {
            let ring = control(KEYCTL_GET_KEYRING_ID, Int(KEY_SPEC_SESSION_KEYRING))
            return ring < 0 ? nil : ring
        }

        private static func search(_ type: String, _ name: String) -> Int? {
            guard let session else { return nil }
            let serial = type.withCString { type in
                name.withCString { name in
                    control(KEYCTL_SEARCH, session, UInt(bitPattern: type), UInt(bitPattern: name))
                }
            }
            return serial < 0 ? nil : serial
        }

        private static func read(_ serial: Int) -> [UInt8]? {
            var bytes = [UInt8](repeating: 0, count: CryptoLibrary.keyCount)
            let count = bytes.withUnsafeMutableBytes {
                control(KEYCTL_READ, serial, UInt(bitPattern: $0.baseAddress), UInt($0.count))
            }
            return count == bytes.count ? bytes : nil
        }

        private static func add(_ name: String, _ bytes: UnsafeBufferPointer<UInt8>) {
            guard let session else { return }
            let ring = search("keyring", ringName) ?? chappie_add_key("keyring", ringName, nil, 0, session)
            guard ring >= 0 else { return }
            let serial = chappie_add_key("user", name, bytes.baseAddress, bytes.count, ring)
            if serial >= 0 { setTimeout(serial) }
        }

        private static func setTimeout(_ serial: Int) {
            _ = control(KEYCTL_SET_TIMEOUT, serial, UInt(patience))
        }

        private static func control(_ operation: CInt, _ serial: Int, _ second: UInt = 0, _ third: UInt = 0) -> Int {
            chappie_keyctl(operation, serial, second, third)
        }
    #else
        static func dropAll() -> Bool { false }
        private static func search(_ type: String, _ name: String) -> Int? { nil }
        private static func read(_ serial: Int) -> [UInt8]? { nil }
        private static func add(_ name: String, _ bytes: UnsafeBufferPointer<UInt8>) {}
        private static func setTimeout(_ serial: Int) {}
    #endif
}
