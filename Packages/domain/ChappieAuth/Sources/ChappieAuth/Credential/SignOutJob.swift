import ChappieCore

/// A sign-out that the store has not carried out yet, queued or in progress.
///
/// It is repeated until the store has carried it out, but never at the cost of a later sign-in.
struct SignOutJob: Sendable {
    enum State: Sendable {
        /// Another job is in progress, another process has the lock, or the store has refused the sign-out.
        case waiting
        /// The store is read, because it may have a later sign-in.
        case reading
        case deleting
    }

    /// The states that may follow each state. They are drawn in docs/STATES.md.
    private static let next = [
        "waiting": ["reading", "deleting"],
        "reading": ["deleting", "waiting"],
        "deleting": ["waiting"],
    ]

    /// The end of an attempt.
    enum Ending: Sendable {
        /// The slot has no credential of this service any more.
        case carriedOut
        /// The slot has a later sign-in, which callers may use.
        case superseded
        /// The store failed. The sign-out is repeated later.
        case failed
    }

    /// The tombstone, with the time of the sign-out and the accounts.
    private(set) var tombstone: Tombstone
    /// The credentials that were signed out and are to be revoked.
    private var credentials: [Credential] = []
    private(set) var waiters: [CredentialLifecycle.Waiter] = []
    /// Whether the store has failed to carry it out before.
    private var isRepeated = false
    var state = State.waiting { didSet { assert(isDrawn(oldValue, state, in: Self.next)) } }

    /// Creates the sign-out of a user, who may have signed out before.
    init(
        of credential: Credential?, after earlier: SignOutJob?, revoking: Bool, at now: Date,
        _ waiter: CredentialLifecycle.Waiter
    ) {
        var earlier = earlier
        credentials = (earlier?.takeUnrevoked() ?? []) + [credential].compactMap(\.self)
        tombstone = Tombstone(at: now, revokes: revoking, credentials)
        waiters = (earlier?.waiters ?? []) + [waiter]
        state = earlier?.state ?? .waiting
    }

    /// Creates the sign-out of an earlier process that the store did not carry out in time.
    init(obeying tombstone: Tombstone) {
        self.tombstone = tombstone
        isRepeated = true
    }

    /// Returns the credentials that are to be revoked. Later calls return none.
    mutating func takeUnrevoked() -> [Credential] {
        defer { credentials = [] }
        return tombstone.revokes ? credentials : []
    }

    /// Takes an input of the job in progress. Returns the end of the job.
    mutating func handle(_ input: CredentialLifecycle.Input, in slot: inout SlotState) -> Ending? {
        switch (state, input) {
        // A user who has just refused access is not asked for it again, because deleting needs no access. But if this
        // process has known the credential, another process may have signed in since then.
        case (.waiting, .lockAnswered) where slot.isAccessDenied && slot.lastGeneration == 0 && !isRepeated:
            return delete(in: &slot)
        case (.waiting, .lockAnswered):
            state = .reading
            slot.actions.append(.readStore(isDeleted: true))
            return nil
        case (.reading, .storeRead(let result, _)): return decide(result, in: &slot)
        case (.deleting, .storeChanged(let error)): return end(error, in: &slot)
        default: return nil
        }
    }

    private mutating func decide(
        _ result: Result<CredentialLifecycle.Stored, CredentialStoreError>, in slot: inout SlotState
    ) -> Ending? {
        switch result {
        case .success(let stored):
            guard let credential = stored.credential else { break }
            // Another process may have renewed the credential while this one waited for the lock.
            let isSignedOut =
                isRepeated
                ? stored.tombstone != nil && tombstone.means(credential) : tombstone.concerns(credential)
            if !isSignedOut {
                end(nil, in: &slot)
                return .superseded
            }
            if !credentials.contains(where: credential.hasSameTokens) {
                credentials.append(credential)
                tombstone.add(credential)
            }
        case .failure(.foreign): return end(nil, in: &slot)
        case .failure(.corrupt): break
        case .failure(let error):
            // The unread credential may be a later sign-in.
            if isRepeated || slot.isAccessDenied && slot.lastGeneration > 0 { return end(error, in: &slot) }
        }
        return delete(in: &slot)
    }

    private mutating func delete(in slot: inout SlotState) -> Ending? {
        state = .deleting
        slot.actions.append(.delete)
        return nil
    }

    /// Ends the attempt and answers the waiters.
    @discardableResult
    private mutating func end(_ error: CredentialStoreError?, in slot: inout SlotState) -> Ending {
        if error == nil {
            slot.actions.append(.keepTombstone(nil))
        } else if state == .deleting || !isRepeated {
            slot.actions.append(.keepTombstone(tombstone))
        }
        var unrevoked = error != nil && waiters.isEmpty ? [] : takeUnrevoked()
        if waiters.isEmpty {
            for credential in unrevoked { slot.revoke(credential) }
        }
        for waiter in waiters {
            if !unrevoked.isEmpty { slot.revocations += 1 }
            slot.actions.append(.answer(waiter, .success(.signedOut(error, revoke: unrevoked))))
            unrevoked = []
        }
        waiters = []
        isRepeated = true
        state = .waiting
        return error == nil ? .carriedOut : .failed
    }
}
