import ChappieAuth

/// What scrypt makes of a passphrase and a salt.
struct CredentialKey: Sendable {
    let parameters: ScryptParameters
    let salt: [UInt8]
    let encryption: Secret
    /// Stands in the file's header, in the open.
    let check: [UInt8]

    /// Slow: see ``ScryptParameters``.
    init(_ passphrase: Secret, salt: [UInt8], parameters: ScryptParameters) throws(CredentialStoreError) {
        var derived = try Scrypt.derive(
            AESGCM.keyCount + CredentialFileHeader.checkCount, from: passphrase, salt: salt, parameters: parameters)
        defer { Libcrypto.wipe(&derived) }
        self.parameters = parameters
        self.salt = salt
        encryption = Secret(Array(derived.prefix(AESGCM.keyCount)))
        check = Array(derived.suffix(CredentialFileHeader.checkCount))
    }
}
