public import ChappieCore

/// Where a credential is stored: one slot, one user's sign-in.
public struct CredentialSlot: Sendable, Hashable, Codable {
    /// The namespace, in reverse-DNS form. Default `com.chappie.sdk`.
    public let service: String
    /// The user of the host app. Default `default`.
    public let account: String
    /// Lets several programs share one item. Linux stores it as an attribute and does not enforce it.
    public let accessGroup: String?
    /// Names the issuer and the backend that the credential is for; `nil` for the default ones. A store must keep slots
    /// that differ only in this apart.
    public let issuer: String?

    /// Names a slot.
    public init(
        service: String = "com.chappie.sdk", account: String = "default", accessGroup: String? = nil,
        issuer: String? = nil
    ) {
        self.service = service
        self.account = account
        self.accessGroup = accessGroup
        self.issuer = issuer
    }
}

/// When a stored credential may be read.
///
/// On Linux both ask that the keyring's collection is unlocked, and the first additionally that the login session is
/// not locked, where there is one.
public enum ChappieKeychainAccessibility: String, Sendable, Hashable, Codable {
    /// Only while the device is unlocked; never moves to another device. The default.
    case whenUnlockedThisDeviceOnly
    /// Also in the background, once the device has been unlocked since it started.
    case afterFirstUnlockThisDeviceOnly
}

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

    /// Finds out whether ``save(_:in:)`` can work: before a sign-in asks the user for anything, and before a renewal uses
    /// up the refresh token. Unlocks what has to be unlocked and asks for a passphrase, if ``load(_:)`` has not done that
    /// already. Default: does nothing.
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

/// Why a credential store could not do what it was asked; each case is a different thing to tell the user.
public enum CredentialStoreError: Error, Sendable, Hashable {
    /// There is no such store here: no session bus, no keyring service, a missing library.
    case absent(String)
    /// The keyring is locked, and unlocking it was not possible without asking.
    case locked(String)
    /// The store refused: the user dismissed the prompt, or permissions forbid it.
    case denied(String)
    /// The store gave no answer within its deadline.
    case timedOut(Duration)
    /// The stored bytes are not a credential document.
    case corrupt(String)
    /// The store gave back other bytes than it was given.
    case notVerified
    /// Another process held the credential's lock all that time.
    case busy(Duration)
    /// The passphrase is not the one that the encrypted file at this path was made with. Nothing was changed.
    case wrongPassphrase(String)
    /// An encrypted file needs a passphrase, and none is to be had; why.
    case noPassphrase(String)
    /// A file or folder that others could read, change or swap; what is wrong with which, and what to do about it.
    case unsafeFile(String, remedy: String)
    /// The stored credential was given by another issuer, or is for another backend, than this program is set up for; the
    /// string says which. It is left alone.
    case foreign(String)
    /// Anything else, in the store's own words.
    case failed(String)
}

extension CredentialStoreError: ChappieError {
    /// A sentence for the user.
    public var errorDescription: String? {
        switch self {
        case .absent(let detail): "No keyring is available: \(detail)."
        case .locked(let detail): "The keyring is locked: \(detail)."
        case .denied(let detail): "The keyring refused access: \(detail)."
        case .timedOut(let limit): "The credential store did not answer within \(limit.components.seconds) s."
        case .corrupt(let detail): "The stored credential can't be read: \(detail)."
        case .notVerified: "The credential store accepted the credential but gave back something else."
        case .busy(let limit):
            "Another program has been changing this sign-in for more than \(limit.components.seconds) s."
        case .wrongPassphrase(let path): "The passphrase does not open \(path)."
        case .noPassphrase(let detail): "There is no passphrase for the encrypted credential file: \(detail)."
        case .unsafeFile(let reason, _): "This is not safe to use: \(reason)."
        case .foreign(let detail): "The stored credential belongs to another service: \(detail)."
        case .failed(let detail): "The credential store failed: \(detail)."
        }
    }

    /// The user's next step.
    public var recoverySuggestion: String? {
        switch self {
        case .absent:
            """
            Start a keyring service such as gnome-keyring in this login session, or choose an encrypted file: set \
            CHAPPIE_CREDENTIAL_STORE=file for the chappie program; in a program of your own, give the session and the \
            client `store: .encryptedFile(passphrase:)`.
            """
        case .locked: "Unlock the keyring (log in to the desktop, or open your password manager) and try again."
        case .denied: "Allow this program to use the keyring and try again."
        case .timedOut:
            "Look for an unanswered keyring prompt or a disk that doesn't answer, or restart the keyring service."
        case .corrupt: "Nothing was deleted. Sign in again to replace it."
        case .busy: "Try again in a moment; if it stays so, look for a program that hangs."
        case .wrongPassphrase:
            """
            Nothing was changed. Try again with the passphrase the file was made with. If it is lost, sign out, \
            which removes the file, and sign in again.
            """
        case .noPassphrase:
            """
            Name a file that holds it in CHAPPIE_PASSPHRASE_FILE, hand it over as the systemd credential \
            chappie-passphrase, or run the program in a terminal.
            """
        case .unsafeFile(_, let remedy): remedy
        case .foreign:
            "It was left alone. Check the configured addresses, or use another account name for this service."
        case .notVerified, .failed:
            "Check the keyring service, or the disk that the credential lies on, and try again."
        }
    }
}
