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
        case reauthenticationRequired(ChappieAuthError)
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

    /// An element each time that the credential in use goes away, or is another account's from then on.
    func losses() -> AsyncStream<Void> {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let updates = updates()
        let task = Task {
            var last: Snapshot?
            for await snapshot in updates {
                if let last, snapshot.isLoss(after: last) { continuation.yield() }
                last = snapshot
            }
            continuation.finish()
        }
        continuation.onTermination = { _ in task.cancel() }
        return stream
    }
}

extension StatusBoard.Snapshot {
    fileprivate func isLoss(after earlier: StatusBoard.Snapshot) -> Bool {
        if epoch != earlier.epoch { return true }
        guard case .signedIn(let account, _) = earlier.status else { return false }
        switch status {
        case .signedIn(let new, _): return !new.isSameAccount(as: account)
        case .signedOut, .reauthenticationRequired: return true
        case .unknown, .unavailable: return false
        }
    }
}
