import ChappieAuth

/// Encrypts and decrypts the files of one store. Synchronous and slow: see ``ScryptParameters``.
struct CredentialSealer: Sendable {
    let parameters: ScryptParameters
    let ring: KeyRing

    /// The secret in `file`.
    ///
    /// - Parameters:
    ///   - slot: The digest of the slot that the file was read for.
    ///   - path: For the messages.
    /// - Throws: `wrongPassphrase`; `corrupt` when the file was changed or belongs to another slot.
    func open(
        _ file: CredentialFile, passphrase: Secret, slot: [UInt8], path: String
    ) throws(CredentialStoreError) -> Secret {
        let key = try key(of: file, passphrase: passphrase, path: path)
        guard
            let secret = try AESGCM.open(
                file.ciphertext, tag: file.tag, key: key.encryption, nonce: file.header.nonce,
                authenticating: file.header.bytes + slot)
        else {
            throw .corrupt("\(path) belongs to another account, or somebody has changed it")
        }
        return secret
    }

    /// `secret` as a file that takes the place of `earlier`, whose key it keeps unless that is weaker than today's.
    ///
    /// - Throws: `wrongPassphrase` when `passphrase` does not open `earlier`: a slip of the finger must not lock a
    ///   person out of what they have. `failed` when the secret is longer than 1 MiB.
    func seal(
        _ secret: Secret, passphrase: Secret, slot: [UInt8], replacing earlier: CredentialFile?, path: String
    ) throws(CredentialStoreError) -> CredentialFile {
        guard secret.count <= CredentialFile.secretLimit else {
            throw .failed(
                "a secret of \(secret.count) bytes is longer than the \(CredentialFile.secretLimit) it may have")
        }
        if let earlier {
            let key = try key(of: earlier, passphrase: passphrase, path: path)
            if !key.parameters.isWeaker(than: parameters) { return try seal(secret, with: key, slot: slot) }
        }
        return try sealAnew(secret, passphrase: passphrase, slot: slot)
    }

    /// `secret` as a file with a new salt and today's parameters.
    func sealAnew(
        _ secret: Secret, passphrase: Secret, slot: [UInt8]
    ) throws(CredentialStoreError) -> CredentialFile {
        let salt = try RandomBytes.make(CredentialFileHeader.saltCount)
        return try seal(secret, with: ring.key(for: passphrase, salt: salt, parameters: parameters), slot: slot)
    }

    private func seal(
        _ secret: Secret, with key: CredentialKey, slot: [UInt8]
    ) throws(CredentialStoreError) -> CredentialFile {
        let header = CredentialFileHeader(
            parameters: key.parameters, salt: key.salt, check: key.check,
            nonce: try RandomBytes.make(AESGCM.nonceCount), ciphertextCount: secret.count)
        let (ciphertext, tag) = try AESGCM.seal(
            secret, key: key.encryption, nonce: header.nonce, authenticating: header.bytes + slot)
        return CredentialFile(header: header, ciphertext: ciphertext, tag: tag)
    }

    private func key(
        of file: CredentialFile, passphrase: Secret, path: String
    ) throws(CredentialStoreError) -> CredentialKey {
        let key = try ring.key(for: passphrase, salt: file.header.salt, parameters: file.header.parameters)
        guard Libcrypto.areEqual(key.check, file.header.check) else { throw .wrongPassphrase(path) }
        return key
    }
}
