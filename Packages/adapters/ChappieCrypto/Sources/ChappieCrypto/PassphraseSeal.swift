public import ChappieAuth

/// A secret under a passphrase, as bytes that another file can hold: the form of a credential's file.
@_spi(ChappieInternals) public struct PassphraseSeal: Sendable {
    private let place: CredentialPlace
    private let name: String

    /// - Parameters:
    ///   - purpose: the secret opens for the same purpose alone.
    ///   - name: of the file, for messages.
    public init(for purpose: CredentialSlot, in name: String) throws(CredentialStoreError) {
        place = try CredentialPlace(purpose, in: "")
        self.name = name
    }

    /// Slow, since scrypt is.
    public func seal(_ secret: Secret, under passphrase: Secret) throws(CredentialStoreError) -> [UInt8] {
        try CredentialSealer(parameters: .default)
            .seal(secret, for: place, replacing: nil, passphrase: passphrase).bytes()
    }

    /// Slow, since scrypt is.
    ///
    /// - Throws: `wrongPassphrase`; `corrupt`.
    public func open(_ bytes: [UInt8], under passphrase: Secret) throws(CredentialStoreError) -> Secret {
        let file = try CredentialFile(bytes, path: name)
        do throws(CredentialStoreError) {
            return try CredentialSealer(parameters: .default).open(file, at: place, passphrase: passphrase)
        } catch .wrongPassphrase {
            throw .wrongPassphrase(name)
        } catch .corrupt {
            throw .corrupt("\(name) was changed on purpose")
        }
    }
}
