public import FoundationEssentials

/// Why a credential store could not do what it was asked; each case is a different thing to tell a person.
public enum CredentialStoreError: Error, Sendable, Hashable {
    /// There is no such store here: no session bus, no keyring service, a missing library.
    case absent(String)
    /// The keyring is locked, and unlocking it was not possible without asking.
    case locked(String)
    /// The store refused: the person dismissed the prompt, or permissions forbid it.
    case denied(String)
    /// The store gave no answer within its deadline.
    case timedOut(Duration)
    /// What was stored can't be read as what was written.
    case corrupt(String)
    /// What was read back after writing is not what was written.
    case notVerified
    /// Another process held the credential's lock all that time.
    case busy(Duration)
    /// The passphrase is not the one that the encrypted file at this path was made with. Nothing was changed.
    case wrongPassphrase(String)
    /// An encrypted file needs a passphrase, and none is to be had; why.
    case noPassphrase(String)
    /// A file or folder that others could read, change or swap; what is wrong with which, and what to do about it.
    case unsafeFile(String, remedy: String)
    /// Anything else, in the store's own words.
    case failed(String)
}

extension CredentialStoreError: LocalizedError {
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
        case .failed(let detail): "The credential store failed: \(detail)."
        }
    }

    public var recoverySuggestion: String? {
        switch self {
        case .absent: "Start a keyring service such as gnome-keyring in this login session, or choose another store."
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
        case .notVerified, .failed:
            "Check the keyring service, or the disk that the credential lies on, and try again."
        }
    }
}
