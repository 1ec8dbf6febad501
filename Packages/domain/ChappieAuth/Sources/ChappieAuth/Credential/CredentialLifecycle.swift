@_spi(ChappieInternals) import ChappieCore

/// A state machine for the life of one slot's credential. It takes past-tense inputs and returns actions.
///
/// The machine never waits, reads no clock and uses no store. ``CredentialManager`` carries out the actions and reports
/// each result as the next input. One job runs at a time: a load, a ``RenewalJob``, a ``SignOutJob`` or a ``SignInJob``.
/// The last three hold the lock that other processes respect, and read the store again before they change it. Each of
/// them is a machine, whose states are drawn in docs/STATES.md. This one serves the callers, chooses the next job, and
/// passes it the answers of the store and the server.
///
/// A sign-out counts from the moment it is reported. It ends a renewal that waits for another process or for the
/// server. Tokens that arrive after that are revoked.
struct CredentialLifecycle: Sendable {
    private enum Job: Sendable {
        /// Reads the store without the lock, and compares it with the credential in use.
        case load
        /// Carries out ``CredentialLifecycle/renewal``.
        case renewal
        /// Carries out ``CredentialLifecycle/signOut``.
        case signOut
        /// Carries out the first of ``CredentialLifecycle/signIns``.
        case signIn
    }

    /// The limit for a renewal's wait for the lock. Another process may hold the lock while it asks a server.
    private static let renewalLockPatience = Duration.seconds(45)
    /// The limit for the time that a sign-in or sign-out waits for the lock. After that it continues without the lock,
    /// because the user's decision has priority over a renewal.
    static let changeLockPatience = Duration.seconds(10)
    /// The time that a request waits for an early refresh. It is then sent with the token that is still valid.
    private static let earlyRefreshPatience = Duration.seconds(10)
    /// The time for which a token that is still valid is used after a failed early refresh, before the next attempt.
    private static let earlyRefreshRetry = Duration.seconds(30)
    /// The time that the process waits before it ends if the store has refused new tokens, which would be lost. The
    /// store is asked again after each pause.
    private static let unsavedPatience = Duration.seconds(20)
    private static let unsavedRetry = Duration.seconds(1)

    private var slot = SlotState()
    private var job: Job?
    /// The number of times in a row that the store has refused a hold of the lock.
    private var overtakes = 0
    /// Whether another process has changed the store since it was read.
    private var isStale = false
    /// The callers that wait for a credential.
    private var callers: [(waiter: Waiter, need: Need)] = []
    private var renewal: RenewalJob?
    private var signOut: SignOutJob?
    private var signIns: [SignInJob] = []
    /// The credentials that were being renewed when the user signed out. The tokens in the answers are revoked.
    private var lateTokens: [JobID: Credential] = [:]
    /// The callers that wait until the process may end. Until `savesUntil`, the machine tries to save unsaved tokens
    /// for them, with pauses between the attempts.
    private var settling: [(waiter: Waiter, savesUntil: Duration, isPausing: Bool)] = []
    /// Whether the process is about to end. This is true from ``Input/settlingAsked(_:)`` until the next caller asks.
    private var isEnding = false

    var snapshot: CredentialSnapshot { slot.snapshot }
    /// The credential in use, or the last credential if the server no longer accepts it. It is `nil` after a sign-out.
    var retained: Credential? { slot.retained }
    /// Whether the only copy of new tokens is in this value.
    var hasUnsavedTokens: Bool { slot.held?.replaces != nil }

    // MARK: Inputs

    /// Takes an input and returns the actions that follow from it.
    mutating func handle(_ input: Input, at moment: Timestamp) -> [Action] {
        slot.moment = moment
        switch input {
        case .asked(let need, let waiter):
            isEnding = false
            serve(waiter, need)
        case .backendAnswered(let generation, let refusal):
            if slot.held?.generation == generation { slot.changeHeld { $0.refusal = refusal } }
        case .patienceEnded(let waiter): patienceEnded(waiter)
        case .signedOut(let revoking, let waiter): signedOut(revoking: revoking, waiter)
        case .storeMayHaveChanged: if slot.held != nil { isStale = true }
        case .signOutOutlasted: if let signOut { slot.actions.append(.keepTombstone(signOut.tombstone)) }
        case .signInCompleted(let credential, let after, let waiter):
            let isCancelled = after.map { $0 != snapshot.signOuts } ?? false
            signIns.append(SignInJob(credential, isImport: after == nil, isCancelled: isCancelled, waiter))
            // The sign-in has priority over a renewal that only waits for another process. The renewal continues
            // afterwards.
            if isRenewalWaiting { job = nil }
        case .signInCancelled(let waiter):
            if let index = signIns.firstIndex(where: { $0.waiter == waiter }) { signIns[index].isCancelled = true }
        case .settlingAsked(let waiter):
            settling.append((waiter, moment.elapsed + Self.unsavedPatience, false))
            // The process may end as soon as it has the answer, in the middle of a renewal that begins only then.
            isEnding = true
            if isRenewalWaiting, !hasUnsavedTokens { endRenewal(.failure(.credentialStoreUnavailable(.cancelled))) }
        case .lockAnswered(let id, let error): lockAnswered(id, error)
        case .storeRead(let result, _):
            slot.isAccessDenied =
                switch result {
                case .failure(.denied), .failure(.noPassphrase), .failure(.wrongPassphrase): true
                default: false
                }
            advance(input)
        case .storePrepared(let error), .storeChanged(let error):
            if !beginsAgain(after: error) { advance(input) }
        case .tokensRefreshed(let id, let result):
            if job == .renewal, id == slot.lastJob {
                advance(input)
            } else if let credential = lateTokens.removeValue(forKey: id), case .success(let answer) = result {
                // The user signed out while the server was asked.
                slot.revoke(credential.refreshed(with: answer, at: moment.now))
            }
        case .revocationEnded: slot.revocations -= 1
        }
        startNextJob()
        answerSettling()
        slot.updateSnapshot()
        defer { slot.actions = [] }
        return slot.actions
    }

    /// Whether a token would be lost if the process ended or were suspended now.
    var isBusy: Bool { isChanging || isSaving }

    /// Whether a change of the store or an exchange with the server is in progress.
    private var isChanging: Bool {
        !(job == nil || job == .load) || signOut?.waiters.isEmpty == false || !signIns.isEmpty || slot.revocations > 0
            || !lateTokens.isEmpty
    }

    /// Whether the store is still to be asked to save new tokens. A user who has just refused access is not asked again.
    private var isSaving: Bool { hasUnsavedTokens && !slot.isAccessDenied }

    private mutating func answerSettling() {
        guard !isChanging else { return }
        let isSaving = isSaving
        let now = slot.moment.elapsed
        for (waiter, savesUntil, _) in settling where !isSaving || now >= savesUntil {
            slot.actions.append(.answer(waiter, .success(.settled)))
        }
        settling.removeAll { !isSaving || now >= $0.savesUntil }
    }

    private mutating func signedOut(revoking: Bool, _ waiter: Waiter) {
        let credential = slot.signOut()
        signOut = SignOutJob(of: credential, after: signOut, revoking: revoking, at: slot.moment.now, waiter)
        for index in signIns.indices { signIns[index].isCancelled = true }
        guard job == .renewal, let renewal else { return }
        switch renewal.state {
        case .waiting: endRenewal(.failure(.missingCredential))
        case .asking:
            if revoking { lateTokens[slot.lastJob] = credential }
            endRenewal(.failure(.missingCredential))
        default: break
        }
    }

    // MARK: Callers

    private mutating func answer(_ waiter: Waiter, with held: Held) {
        slot.actions.append(.answer(waiter, .success(.credential(held, isNew: slot.isNew(held)))))
    }

    /// Gives the waiter its result as soon as there is a saved credential.
    private mutating func serve(_ waiter: Waiter, _ need: Need) {
        if need == .reload { return callers.append((waiter, need)) }
        if case .mismatched(let failure, _) = slot.phase { return slot.refuse(waiter, failure) }
        guard let held = slot.held, held.replaces == nil, !isStale else { return callers.append((waiter, need)) }
        switch need {
        case .account, .reload: answer(waiter, with: held)
        // Newer tokens are already available, and a late 401 must not use them up.
        case .replacement(let generation) where generation != held.generation: answer(waiter, with: held)
        case .replacement:
            if let failure = held.renewalRefusal { return slot.refuse(waiter, failure) }
            renew(held, need, for: waiter)
        case .refresh, .export: renew(held, need, for: waiter)
        case .token: serveToken(waiter, held)
        }
    }

    private mutating func serveToken(_ waiter: Waiter, _ held: Held) {
        switch (slot.isNew(held) ? .fresh : held.credential.freshness(at: slot.moment.now), held.renewalRefusal) {
        case (.expired, let failure?): slot.refuse(waiter, failure)
        case (.expired, nil): renew(held, .token, for: waiter)
        case (.due, nil) where held.earlyRefreshPause.map { slot.moment.elapsed >= $0 } ?? true:
            slot.actions.append(.startPatience(waiter, Self.earlyRefreshPatience))
            renew(held, .token, for: waiter, isEarly: true)
        case (.due, _), (.fresh, _): answer(waiter, with: held)
        }
    }

    /// Queues a renewal for the waiter. A process that is about to end does not begin one, because the answer would be
    /// lost.
    private mutating func renew(_ held: Held, _ need: Need, for waiter: Waiter, isEarly: Bool = false) {
        if isEnding {
            if isEarly { return answer(waiter, with: held) }
            return slot.refuse(waiter, .credentialStoreUnavailable(.cancelled))
        }
        if renewal == nil { renewal = RenewalJob(of: held, need) }
        renewal?.waiters.append((waiter, need, isEarly))
    }

    private mutating func patienceEnded(_ waiter: Waiter) {
        if let index = settling.firstIndex(where: { $0.waiter == waiter }) {
            return settling[index].isPausing = false
        }
        guard let renewal, let index = renewal.waiters.firstIndex(where: { $0.waiter == waiter }) else { return }
        self.renewal?.waiters.remove(at: index)
        if let held = slot.held, held.generation == renewal.generation {
            answer(waiter, with: held)
        } else {
            serve(waiter, .account)
        }
    }

    // MARK: Jobs

    /// Begins the next job, unless a job is in progress. A sign-out has priority. If the store has refused a sign-out,
    /// it is repeated when a caller needs the credential, and by a sign-in.
    private mutating func startNextJob() {
        guard job == nil else { return }
        if let signOut, !signOut.waiters.isEmpty || signIns.isEmpty && !callers.isEmpty {
            begin(.signOut)
        } else if !signIns.isEmpty {
            begin(.signIn)
        } else if renewal != nil {
            begin(.renewal)
        } else if hasUnsavedTokens, let held = slot.held,
            !callers.isEmpty || settling.contains(where: { !$0.isPausing })
        {
            // Some tokens could not be saved before. This renewal saves them.
            for index in settling.indices where !settling[index].isPausing {
                settling[index].isPausing = true
                slot.actions.append(.startPatience(settling[index].waiter, Self.unsavedRetry))
            }
            renewal = RenewalJob(of: held, .account)
            begin(.renewal)
        } else if !callers.isEmpty {
            begin(.load)
        } else {
            releaseLock()
        }
    }

    private mutating func begin(_ job: Job) {
        slot.lastJob += 1
        self.job = job
        if job == .load {
            slot.actions.append(.readStore(isDeleted: false))
        } else if slot.lock != nil {
            advance(.lockAnswered(slot.lastJob, nil))
        } else {
            let patience = job == .renewal ? Self.renewalLockPatience : Self.changeLockPatience
            slot.actions.append(.acquireLock(slot.lastJob, within: patience))
        }
    }

    /// Whether a renewal is the job in progress, and only waits for another process.
    private var isRenewalWaiting: Bool {
        if job == .renewal, case .waiting = renewal?.state { true } else { false }
    }

    private mutating func lockAnswered(_ id: JobID, _ error: CredentialStoreError?) {
        if job != nil, id == slot.lastJob {
            if error == nil { slot.lock = (id, slot.moment.elapsed) }
            advance(.lockAnswered(id, error))
        } else if error == nil {
            slot.actions.append(.releaseLock(id))
        }
    }

    private mutating func releaseLock() {
        guard let lock = slot.lock else { return }
        slot.actions.append(.releaseLock(lock.job))
        slot.lock = nil
    }

    /// Queues the job again for a new hold of the lock, if the store has refused the old one. It does so at most twice.
    ///
    /// - Returns: Whether `error` was such a refusal, and the job is queued again.
    private mutating func beginsAgain(after error: CredentialStoreError?) -> Bool {
        guard error == .overtaken, overtakes < 2 else { return false }
        switch (job, renewal?.state, signIns.first?.state) {
        // A failure to save in the first two states has no consequence.
        case (.renewal, .marking, _), (.signIn, _, .puttingBack), (.load, _, _), (nil, _, _): return false
        case (.renewal, _, _): renewal?.state = .waiting
        case (.signOut, _, _): signOut?.state = .waiting
        case (.signIn, _, _): signIns[0].state = .waiting
        }
        releaseLock()
        job = nil
        overtakes += 1
        return true
    }

    /// Passes an input to the job in progress.
    private mutating func advance(_ input: Input) {
        switch job {
        case .load:
            guard case .storeRead(let result, let tombstone) = input else { return }
            isStale = false
            end(slot.load(result, tombstone, isReload: callers.contains { $0.need == .reload }, &signOut))
        case .renewal: if let result = renewal?.handle(input, in: &slot) { endRenewal(result) }
        case .signOut:
            guard let ending = signOut?.handle(input, in: &slot) else { return }
            if ending != .failed { signOut = nil }
            end(ending == .superseded ? nil : .failure(.missingCredential))
        case .signIn:
            let tombstone = signOut?.tombstone
            if let result = signIns[0].handle(input, after: tombstone, in: &slot) { endSignIn(result) }
        case nil: break
        }
    }

    private mutating func endRenewal(_ result: Result<Void, ChappieAuthError>) {
        guard let renewal else { return }
        self.renewal = nil
        // After a failure that has ended the sign-in, no credential is held.
        if case .failure(let failure) = result, let held = slot.held {
            let wasAskedFor = renewal.waiters.contains { $0.need == .refresh }
            let pause = slot.moment.elapsed + Self.earlyRefreshRetry
            slot.changeHeld {
                $0.earlyRefreshPause = pause
                if wasAskedFor, failure.requiresReauthentication, !held.credential.isAccessToken {
                    $0.failedRefresh = failure
                }
            }
        }
        for (waiter, _, isEarly) in renewal.waiters {
            switch result {
            // The token must still be the same, because a new token must not be used before it has been saved.
            case .failure(let failure) where !isEarly || slot.held?.generation != renewal.generation:
                slot.refuse(waiter, failure)
            default: serve(waiter, .account)
            }
        }
        end(result)
    }

    private mutating func endSignIn(_ result: Result<Void, ChappieAuthError>) {
        let signIn = signIns.removeFirst()
        if case .failure(let failure) = result {
            slot.refuse(signIn.waiter, failure)
            return end(nil)
        }
        // A sign-in does not revoke the credential that it replaces, because a revocation may end all of that user's
        // sign-ins, including those in other programs. An earlier sign-out asked for a revocation, but must not end the
        // new sign-in.
        var ended = signOut?.takeUnrevoked() ?? []
        signOut = nil
        if let previous = signIn.unrevoked, !ended.contains(where: { $0.refreshToken == previous.refreshToken }) {
            ended.append(previous)
        }
        for credential in ended where !credential.mayEnd(signIn.credential) { slot.revoke(credential) }
        slot.hold(signIn.credential, isNew: !signIn.isImport)
        slot.actions.append(.keepTombstone(nil))
        serve(signIn.waiter, .account)
        end(result)
    }

    /// Ends the job, with a result for the callers that wait for a credential. Without a result, they wait on.
    private mutating func end(_ result: Result<Void, ChappieAuthError>?) {
        job = nil
        overtakes = 0
        guard let result else { return }
        let callers = callers
        self.callers = []
        for (waiter, need) in callers {
            switch result {
            case .success: serve(waiter, need == .reload ? .account : need)
            case .failure(.missingCredential) where need == .refresh:
                if case .absent = slot.phase { slot.phase = .absent(isMissed: true) }
                slot.refuse(waiter, .missingRefreshToken)
            case .failure(let failure): slot.refuse(waiter, failure)
            }
        }
    }
}
