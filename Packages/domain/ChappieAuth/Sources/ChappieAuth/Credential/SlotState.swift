@_spi(ChappieInternals) import ChappieCore

/// The state of one slot as this process knows it. ``CredentialLifecycle`` and its jobs share it.
struct SlotState: Sendable {
    typealias Held = CredentialLifecycle.Held

    /// The state of the credential.
    enum Phase: Sendable {
        /// The store has not been read.
        case unknown
        /// The store could not be read. The next caller reads it again.
        case unavailable(CredentialStoreError)
        /// The store was empty. The next caller reads it again, because another process may sign in. `isMissed` is
        /// whether the user asked to renew the missing credential.
        case absent(isMissed: Bool = false)
        /// A credential is in use.
        case held(Held)
        /// The server no longer accepted the credential. The next caller reads the store again.
        case rejected(Credential, ChappieAuthError)
        /// The slot now belongs to another account, and no request may be sent in its name.
        case mismatched(ChappieAuthError, earlier: Credential)
    }

    /// The phases that may follow each phase. They are drawn in docs/STATES.md.
    private static let next = [
        "unknown": ["unavailable", "absent", "held"],
        "unavailable": ["absent", "held"],
        "absent": ["unavailable", "held"],
        "held": ["absent", "rejected", "mismatched"],
        "rejected": ["unavailable", "absent", "held"],
        "mismatched": ["absent", "held"],
    ]

    /// The time for which a token that has just arrived from the server is used, even if it has expired by this
    /// machine's clock. In that case the clock is wrong.
    private static let newTokenTrust = Duration.seconds(30)

    var phase = Phase.unknown { didSet { assert(isDrawn(oldValue, phase, in: Self.next)) } }
    private(set) var snapshot = CredentialSnapshot()
    /// The number of credentials and renewals that have been in use.
    private(set) var lastGeneration = 0
    /// The number of revocations in progress.
    var revocations = 0
    /// The number of the latest job. It is the job in progress, if there is one.
    var lastJob: CredentialLifecycle.JobID = 0
    /// The job that acquired the lock, and the time. Later jobs use the same lock, and the last of them releases it.
    var lock: (job: CredentialLifecycle.JobID, since: Duration)?
    /// Whether the user refused access when the store was last read.
    var isAccessDenied = false
    /// The time of the current input.
    var moment = CredentialLifecycle.Timestamp(now: Date(timeIntervalSince1970: 0), elapsed: .zero)
    /// The actions that follow from the current input.
    var actions: [CredentialLifecycle.Action] = []

    var held: Held? { if case .held(let held) = phase { held } else { nil } }
    /// The credential in use, or the last credential if the server no longer accepts it. It is `nil` after a sign-out.
    var retained: Credential? {
        switch phase {
        case .held(let held): held.credential
        case .rejected(let credential, _): credential
        default: nil
        }
    }

    /// Whether the lock was held for so long that another process may change the store without it.
    var isLockOld: Bool {
        lock.map { moment.elapsed - $0.since > CredentialLifecycle.changeLockPatience - .seconds(1) } ?? false
    }

    /// Returns whether the tokens have just arrived from the server.
    func isNew(_ held: Held) -> Bool {
        held.cameAt.map { moment.elapsed - $0 < Self.newTokenTrust } ?? false
    }

    // MARK: Actions

    mutating func refuse(_ waiter: CredentialLifecycle.Waiter, _ failure: ChappieAuthError) {
        actions.append(.answer(waiter, .failure(failure)))
    }

    mutating func revoke(_ credential: Credential) {
        revocations += 1
        actions.append(.revoke(credential))
    }

    // MARK: Changes

    /// Starts to use `credential`, which is in the store or will replace `replacing` there.
    mutating func hold(_ credential: Credential, replacing: Credential? = nil, isNew: Bool = false) {
        lastGeneration += 1
        phase = .held(
            .init(
                credential: credential, generation: lastGeneration, replaces: replacing,
                cameAt: isNew ? moment.elapsed : nil))
    }

    mutating func changeHeld(_ change: (inout Held) -> Void) {
        guard var held else { return }
        change(&held)
        phase = .held(held)
    }

    /// Starts to use the credential that another process has stored, unless it belongs to another account.
    ///
    /// - Returns: The failure if it does.
    mutating func take(_ stored: Credential, insteadOf held: Held) -> ChappieAuthError? {
        guard stored.info.isSameAccount(as: held.credential.info) else { return mismatch(held) }
        // A late 401 counts against an access token, which may be the same.
        if stored.accessToken != held.credential.accessToken {
            hold(stored)
        } else {
            changeHeld { held in
                held.credential = stored
                held.replaces = nil
            }
        }
        return nil
    }

    private mutating func mismatch(_ held: Held) -> ChappieAuthError {
        let failure = ChappieAuthError.reauthenticationRequired(
            "The stored sign-in now belongs to another account. Please sign in again to continue here.")
        phase = .mismatched(failure, earlier: held.credential)
        return failure
    }

    /// Continues with the rest of a credential that can't be renewed any more. An access token that is still valid is
    /// used until it expires.
    mutating func lose(_ held: Held, leaving rest: Credential, _ failure: ChappieAuthError) {
        if rest.isOver(at: moment.now) { return phase = .rejected(rest, failure) }
        changeHeld { $0.credential = rest }
        if held.credential.refreshToken != nil { actions.append(.renewalWasRefused(rest)) }
    }

    /// Stops using the credential, because the user has signed out. Returns the credential, if there was one.
    mutating func signOut() -> Credential? {
        defer { phase = .absent() }
        snapshot.signOuts += 1
        snapshot.sequence += 1
        if case .mismatched(_, let earlier) = phase { return earlier }
        return held?.credential
    }

    // MARK: Loading

    /// Compares the credential in use with the store's content, and uses what is stored.
    ///
    /// - Parameters:
    ///   - tombstone: The tombstone that accompanies a store that could not be read.
    ///   - isReload: Whether a caller asked for the stored credential, whatever its account.
    ///   - signOut: The sign-out to carry out. It may be one of an earlier process that the store did not carry out in
    ///     time.
    /// - Returns: The result for the callers, or `nil` if the sign-out answers them.
    mutating func load(
        _ result: Result<CredentialLifecycle.Stored, CredentialStoreError>, _ tombstone: Tombstone?, isReload: Bool,
        _ signOut: inout SignOutJob?
    ) -> Result<Void, ChappieAuthError>? {
        // The user has signed out during the read.
        guard signOut == nil else { return nil }
        let stored: CredentialLifecycle.Stored
        switch (result, phase) {
        case (.success(let value), _): stored = value
        // Another process has signed out.
        case (.failure, .held(let held)) where tombstone?.means(held.credential) == true:
            return obey(tombstone, &signOut)
        // The credential in use is sufficient while the store can't be read.
        case (.failure, .held), (.failure, .mismatched): return .success(())
        case (.failure(let error), _):
            phase = .unavailable(error)
            return .failure(.credentialStoreUnavailable(error))
        }
        if stored.tombstone != nil {
            if stored.credential != nil, stored.credentialInForce == nil { return obey(stored.tombstone, &signOut) }
            actions.append(.keepTombstone(nil))
        }
        switch (stored.credential, phase) {
        // The store may not have saved the fact that the refresh token is no longer valid.
        case (let credential, .rejected(let rejected, let failure))
        where credential.map { $0.accessToken == rejected.accessToken } ?? true:
            return .failure(failure)
        case (nil, _):
            phase = .absent()
            return .failure(.missingCredential)
        case (let credential?, .held(let held)) where credential.hasSameTokens(as: held.credential):
            if isReload {
                changeHeld { held in
                    held.renewalRefusal = nil
                    held.failedRefresh = nil
                }
            }
        case (let credential?, .held(let held))
        where !isReload && !credential.info.isSameAccount(as: held.credential.info):
            return .failure(mismatch(held))
        case (let credential?, _): hold(credential)
        }
        return .success(())
    }

    private mutating func obey(
        _ tombstone: Tombstone?, _ signOut: inout SignOutJob?
    ) -> Result<Void, ChappieAuthError>? {
        signOut = tombstone.map(SignOutJob.init(obeying:))
        phase = .absent()
        return nil
    }

    // MARK: The snapshot

    /// Publishes the state, if it has changed.
    mutating func updateSnapshot() {
        let status: CredentialSnapshot.Status =
            switch phase {
            case .unknown: .unknown
            case .unavailable(let error): .unavailable(error)
            case .absent(isMissed: false): .signedOut
            case .absent(isMissed: true): .reauthenticationRequired(.missingRefreshToken)
            case .held(let held): status(of: held)
            case .rejected(_, let failure), .mismatched(let failure, _): .reauthenticationRequired(failure)
            }
        let renewalRefusal = held?.credential.refusal?.reason
        guard snapshot.status != status || snapshot.renewalRefusal != renewalRefusal else { return }
        snapshot.status = status
        snapshot.renewalRefusal = renewalRefusal
        snapshot.grant = held?.credential.grant.flatMap(ChappieGrant.init(rawValue:))
        snapshot.isRenewable = held?.credential.refreshToken != nil
        snapshot.sequence += 1
    }

    private func status(of held: Held) -> CredentialSnapshot.Status {
        if let failure = held.failedRefresh { return .reauthenticationRequired(failure) }
        if let reason = held.refusal { return .reauthenticationRequired(.reauthenticationRequired(reason)) }
        if !isNew(held) {
            if held.credential.isOver(at: moment.now) { return .reauthenticationRequired(held.credential.ending) }
            if let failure = held.renewalRefusal, held.credential.freshness(at: moment.now) == .expired {
                return .reauthenticationRequired(failure)
            }
        }
        return .signedIn(held.credential.info, expiresAt: held.credential.expiresAt)
    }
}

/// Returns whether a state machine may go from one state to another by its table `next`, which docs/STATES.md draws.
func isDrawn<State>(_ old: State, _ new: State, in next: [String: [String]]) -> Bool {
    func name(_ state: State) -> String { Mirror(reflecting: state).children.first?.label ?? "\(state)" }
    return name(old) == name(new) || next[name(old)]?.contains(name(new)) == true
}
