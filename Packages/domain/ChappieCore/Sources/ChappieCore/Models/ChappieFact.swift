/// A single fact that a ``ChappieObserver`` receives. New cases may be added, so switch with a `default`.
///
/// A `change` is 1 or -1, so that an observer that adds them up has the current number.
public enum ChappieFact: Sendable, Hashable {
    // MARK: Turns

    /// A turn waits in the queue of its client, or waits no longer.
    case turnsWaiting(change: Int)
    /// A connection to the backend was opened or closed.
    case connectionsOpen(ChappieTransportEvent.Kind, change: Int)
    /// The user got a notice.
    case notice(ChappieNotice.Kind)
    /// The service has reported the used part of a window of the plan. 1 is all of it.
    case planUsed(ChappieObservedWindow, fraction: Double)
    /// A request was refused because a limit of the plan was reached.
    case planLimitReached

    // MARK: Tools

    /// A call waits for the user's approval, or waits no longer.
    case approvalsWaiting(change: Int)
    /// The user has answered a question about a call.
    case approvalDecided(ChappieObservedDecision)

    // MARK: Credentials

    /// Another process had renewed the tokens, so that they were not renewed here.
    case renewalTakenOver(ChappieRenewalReason)
    /// The wait for the lock of a credential has ended. `isHeld` is whether the lock is held now.
    case lockAwaited(Duration, isHeld: Bool)
    /// A change of a credential was refused because another machine has taken it over.
    case credentialOvertaken
    /// A sign-in has ended.
    case signInEnded(ChappieObservedGrant, ChappieObservedOutcome)
    /// A sign-out has ended.
    case signOutEnded(ChappieObservedOutcome)

    // MARK: Stores

    /// An append was refused, because another process had added records to the thread.
    case threadConflict(ChappieThreadStoreKind)
    /// A statement has waited for a connection to PostgreSQL.
    case postgresPoolAwaited(Duration)
    /// A connection to PostgreSQL is used or open, or no longer is.
    case postgresConnections(ChappieObservedConnection, change: Int)
    /// A transaction in PostgreSQL is carried out again.
    case postgresRetried(ChappiePostgresRetryReason)
}

/// A window of the plan.
public enum ChappieObservedWindow: String, Sendable, Hashable, CaseIterable {
    /// The first window that the backend reports, which is the short one if there are two.
    case primary
    /// The second window.
    case secondary
}

/// The user's answer to a question about a call.
public enum ChappieObservedDecision: String, Sendable, Hashable, CaseIterable {
    /// The call was allowed.
    case allowed
    /// The call was allowed with other arguments.
    case edited
    /// The call was denied.
    case denied
    /// The user has answered the call instead of the tool.
    case answered
    /// The user answers later.
    case deferred
    /// The program has no handler that asks the user.
    case unasked = "none"
}

/// The reason for a renewal of tokens.
public enum ChappieRenewalReason: String, Sendable, Hashable, CaseIterable {
    /// The access token ends soon.
    case due
    /// The access token has ended.
    case ended
    /// The backend refused the access token.
    case refused
    /// The program asked for it.
    case asked
    /// The credential is exported.
    case exported
}

/// The way in which a user signed in.
public enum ChappieObservedGrant: String, Sendable, Hashable, CaseIterable {
    /// A device code.
    case device
    /// A browser on this machine.
    case browser
    /// An access token of a workspace.
    case accessToken = "access_token"
    /// A credential of another machine.
    case `import`
}

/// The result of a sign-in or a sign-out.
public enum ChappieObservedOutcome: String, Sendable, Hashable, CaseIterable {
    /// It was completed.
    case succeeded
    /// It failed.
    case failed
    /// The user or the program cancelled it.
    case cancelled
}

/// The kind of a store of threads.
public enum ChappieThreadStoreKind: String, Sendable, Hashable, CaseIterable {
    /// The memory of the process.
    case memory
    /// A file of this machine.
    case file
    /// PostgreSQL.
    case postgres
    /// A store of the program.
    case other
}

/// The state of a connection in a pool.
public enum ChappieObservedConnection: String, Sendable, Hashable, CaseIterable {
    /// A statement uses it.
    case used
    /// It is open, whether a statement uses it or not.
    case open
}

/// The reason why a transaction in PostgreSQL is carried out again.
public enum ChappiePostgresRetryReason: String, Sendable, Hashable, CaseIterable {
    /// The connection was lost before the transaction was carried out.
    case lost
    /// Another transaction was in the way.
    case contended
    /// The connection was lost during the commit, so that the outcome was unknown.
    case uncertain
    /// The server could not be reached.
    case unreachable
}
