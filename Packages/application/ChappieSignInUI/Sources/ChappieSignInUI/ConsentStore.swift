public import ChappieAuth

/// A memory of the slots whose users have agreed that data is sent to OpenAI. It contains no secret.
/// A custom user interface passes one to its ``ChappieSignInModel``. `CredentialSlot` is in the module ChappieAuth.
///
/// ```swift
/// final class Consents: ChappieConsentStore {
///     private let slots = Mutex<Set<CredentialSlot>>([])
///     func hasConsent(for slot: CredentialSlot) -> Bool { slots.withLock { $0.contains(slot) } }
///     func addConsent(for slot: CredentialSlot) { _ = slots.withLock { $0.insert(slot) } }
/// }
/// ```
public protocol ChappieConsentStore: Sendable {
    /// Returns whether the user of `slot` has agreed.
    func hasConsent(for slot: CredentialSlot) -> Bool

    /// Remembers that the user of `slot` has agreed. A sign-out does not forget it.
    func addConsent(for slot: CredentialSlot)
}
