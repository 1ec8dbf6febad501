public import ChappieAuth

/// Asks several sources, one after the other, and takes the first that is set up.
///
/// ```swift
/// let source = FirstPassphrase([PassphraseFile(), SystemdPassphrase()])
/// ```
public struct FirstPassphrase: PassphraseSource {
    private let sources: [any PassphraseSource]

    public init(_ sources: [any PassphraseSource]) { self.sources = sources }

    /// - Throws: what the first source throws that throws; those after it are not asked, since a source that is set up
    ///   and does not work is to be told, not passed over.
    public func passphrase(for purpose: PassphrasePurpose) async throws(CredentialStoreError) -> Secret? {
        for source in sources {
            if let secret = try await source.passphrase(for: purpose) { return secret }
        }
        return nil
    }
}
