public import ChappieAuth

/// Where the passphrase of an ``EncryptedFileCredentialStore`` comes from: a file, systemd, a terminal.
///
/// A complete fake:
/// ```swift
/// struct Spoken: PassphraseSource {
///     func passphrase(for purpose: PassphrasePurpose) -> Secret? { Secret("open sesame") }
/// }
/// ```
public protocol PassphraseSource: Sendable {
    /// The passphrase, 1 byte or more; `nil` when this source is not set up here (which is not an error).
    ///
    /// - Parameter purpose: What it is wanted for; a source that asks a person says so, and asks twice for a new one.
    /// - Throws: ``CredentialStoreError/noPassphrase(_:)`` when the source is set up and has none to give, or the person
    ///   refused; ``CredentialStoreError/unsafeFile(_:remedy:)`` when others could have read it.
    func passphrase(for purpose: PassphrasePurpose) async throws(CredentialStoreError) -> Secret?
}
