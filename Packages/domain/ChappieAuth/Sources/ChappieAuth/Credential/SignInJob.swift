import ChappieCore

/// A sign-in whose credential is to be stored, queued or in progress. The credential is used once it is stored.
struct SignInJob: Sendable {
    enum State: Sendable {
        /// Other jobs come first, or another process has the lock.
        case waiting
        /// The store is read, because its credential is put back if the sign-in fails.
        case reading
        case saving
        /// The sign-in failed or was cancelled. The store is read, because another process may have changed it.
        case reviewing(ChappieAuthError)
        case puttingBack(ChappieAuthError)
    }

    /// The states that may follow each state. They are drawn in docs/STATES.md.
    private static let next = [
        "waiting": ["reading"],
        "reading": ["saving"],
        "saving": ["reviewing", "waiting"],
        "reviewing": ["puttingBack"],
    ]

    let credential: Credential
    let waiter: CredentialLifecycle.Waiter
    let isImport: Bool
    /// Whether the sign-in was cancelled, or the user has signed out since it began.
    var isCancelled: Bool
    /// The store's content before the sign-in.
    private var previous: Result<Credential?, CredentialStoreError>?
    /// The previous credential, if the user has signed out of it before and asked to revoke it.
    private(set) var unrevoked: Credential?
    var state = State.waiting { didSet { assert(isDrawn(oldValue, state, in: Self.next)) } }

    init(_ credential: Credential, isImport: Bool, isCancelled: Bool, _ waiter: CredentialLifecycle.Waiter) {
        self.credential = credential
        self.isImport = isImport
        self.isCancelled = isCancelled
        self.waiter = waiter
    }

    /// Takes an input of the job in progress. Returns the result at the end of the job.
    ///
    /// - Parameter tombstone: The tombstone of a sign-out that the store has not carried out.
    mutating func handle(
        _ input: CredentialLifecycle.Input, after tombstone: Tombstone?, in slot: inout SlotState
    ) -> Result<Void, ChappieAuthError>? {
        switch (state, input) {
        case (.waiting, .lockAnswered): read(.reading, in: &slot)
        case (.reading, .storeRead(.failure(.foreign(let detail)), _)):
            return fail(.credentialStoreUnavailable(.foreign(detail)), in: &slot)
        case (.reading, .storeRead(let result, _)):
            if isCancelled { return fail(.cancelledSignIn, in: &slot) }
            if let stored = try? result.get(), let previous = stored.credential,
                let tombstone = tombstone ?? stored.tombstone, tombstone.revokes, tombstone.means(previous)
            {
                unrevoked = previous
            }
            previous = result.map(\.credential)
            state = .saving
            slot.actions.append(.save(credential, verified: true))
        case (.saving, .storeChanged(nil)) where !isCancelled: return .success(())
        case (.saving, .storeChanged(let error)):
            read(.reviewing(error.map(ChappieAuthError.credentialStoreUnavailable) ?? .cancelledSignIn), in: &slot)
        case (.reviewing(let failure), .storeRead(let result, _)):
            // A credential that another process has stored since then stays.
            if let now = try? result.get().credential, !now.hasSameTokens(as: credential) {
                return fail(failure, in: &slot)
            }
            switch previous {
            // A sign-out that is still to be carried out decides about the previous credential.
            case .success(let previous?) where tombstone == nil:
                slot.actions.append(.save(previous, verified: false))
            case _ where tombstone != nil, .success(nil): slot.actions.append(.delete)
            // Content that could not be read before stays.
            default: return fail(failure, in: &slot)
            }
            state = .puttingBack(failure)
        case (.puttingBack(let failure), .storeChanged): return fail(failure, in: &slot)
        default: break
        }
        return nil
    }

    private mutating func read(_ state: State, in slot: inout SlotState) {
        self.state = state
        slot.actions.append(.readStore(isDeleted: false))
    }

    private func fail(
        _ failure: ChappieAuthError, in slot: inout SlotState
    ) -> Result<Void, ChappieAuthError> {
        // The earlier sign-in stays, and must not end with the new one.
        let stays = try? previous?.get()
        if !isImport, stays.map(credential.mayEnd) != true { slot.revoke(credential) }
        return .failure(failure)
    }
}
