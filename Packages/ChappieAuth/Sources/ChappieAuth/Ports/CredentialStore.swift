/// Keeps one secret per slot: the OS keyring, an encrypted file, or memory.
///
/// A store never falls back to another place and never keeps a copy.
///
/// A complete fake:
/// ```swift
/// actor Memory: CredentialStore {
///     private var secrets: [CredentialSlot: Secret] = [:]
///     func load(_ slot: CredentialSlot) -> Secret? { secrets[slot] }
///     func save(_ secret: Secret, in slot: CredentialSlot) { secrets[slot] = secret }
///     func delete(_ slot: CredentialSlot) { secrets[slot] = nil }
/// }
/// ```
public protocol CredentialStore: Sendable {
    /// The secret in `slot`; `nil` when there is none (which is not an error).
    ///
    /// - Throws: ``CredentialStoreError``. Never waits past the store's own deadline.
    func load(_ slot: CredentialSlot) async throws(CredentialStoreError) -> Secret?

    /// Finds out whether ``save(_:in:)`` can work, before a sign-in asks the person for anything: unlocks what has to be
    /// unlocked, asks for a passphrase. Default: does nothing.
    ///
    /// - Throws: ``CredentialStoreError``; what is stored is as it was.
    func prepareToSave(in slot: CredentialSlot) async throws(CredentialStoreError)

    /// Replaces the secret in `slot`; returns once it has been written, read back and compared.
    ///
    /// - Throws: ``CredentialStoreError``; the earlier secret is then still there, or nothing is known to be lost.
    func save(_ secret: Secret, in slot: CredentialSlot) async throws(CredentialStoreError)

    /// Removes the secret in `slot`; an empty slot is not an error.
    ///
    /// - Throws: ``CredentialStoreError``.
    func delete(_ slot: CredentialSlot) async throws(CredentialStoreError)
}

extension CredentialStore {
    /// Does nothing: for stores that are always ready.
    public func prepareToSave(in slot: CredentialSlot) async throws(CredentialStoreError) {}
}
