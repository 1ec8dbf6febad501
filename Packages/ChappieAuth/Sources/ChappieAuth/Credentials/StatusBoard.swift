import FoundationEssentials

/// What is known about the slot's credential, for everyone who watches, in one order.
///
/// Signing out has to take effect at once, from any thread, while the manager's own work takes its time. So each
/// sign-out begins a new epoch here, and whatever was begun in an earlier epoch can't publish any more.
final class StatusBoard: Sendable {
    enum Status: Sendable, Hashable {
        /// The store has not been read yet.
        case unknown
        case signedOut
        case signedIn(ChappieAccountInfo, expiresAt: Date?)
        case reauthenticationRequired(String)
        /// The store could not be read.
        case unavailable(CredentialStoreError)
    }

    struct Snapshot: Sendable, Equatable {
        var status = Status.unknown
        /// Grows with every change; a watcher that has seen a later one ignores an earlier one.
        var sequence = 0
        /// How often somebody has signed out.
        var epoch = 0
    }

    private let current = Broadcast(Snapshot())

    var snapshot: Snapshot { current.value }
    var epoch: Int { current.value.epoch }

    /// Ends the epoch.
    func signOut() -> Snapshot {
        current.update { snapshot in
            snapshot = Snapshot(status: .signedOut, sequence: snapshot.sequence + 1, epoch: snapshot.epoch + 1)
            return snapshot
        }
    }

    /// Publishes what was found out in `epoch`; `nil` when that epoch is over. The same status again is no change.
    @discardableResult
    func publish(_ status: Status, in epoch: Int) -> Snapshot? {
        current.update { snapshot in
            guard snapshot.epoch == epoch else { return nil }
            if snapshot.status != status {
                snapshot = Snapshot(status: status, sequence: snapshot.sequence + 1, epoch: epoch)
            }
            return snapshot
        }
    }

    func updates() -> AsyncStream<Snapshot> { current.updates() }
}
