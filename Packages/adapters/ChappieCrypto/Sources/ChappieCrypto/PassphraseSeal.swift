public import ChappieAuth

/// A passphrase-protected form of a secret, as bytes that another file can contain. They have the format of a
/// credential's file.
@_spi(ChappieInternals) public struct PassphraseSeal: Sendable {
    private let place: CredentialPlace
    private let name: String

    /// Creates a seal.
    ///
    /// - Parameters:
    ///   - purpose: The purpose of the secret. The secret can only be opened for the same purpose.
    ///   - name: The name of the file, for messages.
    public init(for purpose: CredentialSlot, in name: String) throws(CredentialStoreError) {
        place = try CredentialPlace(purpose, in: "")
        self.name = name
    }

    /// Encrypts `secret` under `passphrase`. This is slow because scrypt is slow.
    public func seal(_ secret: Secret, under passphrase: Secret) throws(CredentialStoreError) -> [UInt8] {
        try CredentialSealer(parameters: .default)
            .seal(secret, for: place, replacing: nil, with: .passphrase(passphrase)).bytes()
    }

    /// Decrypts a sealed secret. This is slow because scrypt is slow.
    ///
    /// - Throws: `wrongPassphrase`, `corrupt`, `tooNew`.
    public func open(_ bytes: [UInt8], under passphrase: Secret) throws(CredentialStoreError) -> Secret {
        let file = try CredentialFile(bytes, path: name)
        do throws(CredentialStoreError) {
            return try CredentialSealer(parameters: .default).open(file, at: place, with: .passphrase(passphrase))
        } catch .wrongPassphrase {
            throw .wrongPassphrase(name)
        } catch .corrupt {
            throw .corrupt("\(name) was changed on purpose")
        }
    }
}
