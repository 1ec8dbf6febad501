import ChappieCore

/// The state of the slot's credential, which the manager publishes to every watcher.
struct CredentialSnapshot: Sendable, Equatable {
    enum Status: Sendable, Hashable {
        /// The store has not been read yet.
        case unknown
        case signedOut
        case signedIn(ChappieAccountInfo, expiresAt: Date?)
        case reauthenticationRequired(ChappieAuthError)
        /// The store could not be read.
        case unavailable(CredentialStoreError)
    }

    var status = Status.unknown
    /// The reason why the credential in use can't be renewed any more, as a sentence, or `nil` if the service has not
    /// refused its refresh token.
    var renewalRefusal: String?
    /// The grant of the credential in use.
    var grant: ChappieGrant?
    /// Whether the credential in use has a refresh token.
    var isRenewable = false
    /// A number that grows with every change. A watcher ignores a snapshot that is earlier than its latest.
    var sequence = 0
    /// The number of times the user has signed out.
    var signOuts = 0

    /// Returns whether the credential that was in use at `earlier` is not in use any more.
    func isLoss(after earlier: CredentialSnapshot) -> Bool {
        if signOuts != earlier.signOuts { return true }
        guard case .signedIn(let account, _) = earlier.status else { return false }
        switch status {
        case .signedIn(let new, _): return !new.isSameAccount(as: account)
        case .signedOut, .reauthenticationRequired: return true
        case .unknown, .unavailable: return false
        }
    }
}
