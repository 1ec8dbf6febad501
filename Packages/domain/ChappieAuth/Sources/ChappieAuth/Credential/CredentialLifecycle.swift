@_spi(ChappieInternals) import ChappieCore

/// A state machine for the life of one slot's credential. It takes past-tense inputs and returns actions.
///
/// The machine never waits, reads no clock and uses no store. ``CredentialManager`` carries out the actions and reports
/// each result as the next input. The rules:
/// - One job runs at a time: a load, a renewal, a sign-out or a sign-in. A renewal, a sign-out and a sign-in hold the
///   lock that other processes respect, and read the store again before they change it.
/// - A refresh token works once. Before the server is asked, the store is read and must be able to save. Before a
///   refresh token counts as invalid, the store is read once more. New tokens are used only after they have been saved,
///   and are never discarded because a store fails.
/// - A refused renewal deletes nothing. The stored credential loses its refresh token and keeps the reason. Its access
///   token is used until it expires or until the backend refuses it.
/// - A sign-out counts from the moment it is reported. It ends a renewal that waits for another process or for the
///   server. Tokens that arrive after that are revoked. The sign-out is repeated until the store has carried it out,
///   but never at the cost of a later sign-in.
struct CredentialLifecycle: Sendable {
    /// The state of the credential.
    private enum Phase: Sendable {
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

        var name: String {
            switch self {
            case .unknown: "unknown"
            case .unavailable: "unavailable"
            case .absent: "absent"
            case .held: "held"
            case .rejected: "rejected"
            case .mismatched: "mismatched"
            }
        }
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

    private static func isDrawn(_ old: String, _ new: String) -> Bool {
        old == new || next[old]?.contains(new) == true
    }

    /// The job that is in progress.
    private struct Job: Sendable {
        let id: JobID
        let kind: Kind
        var step: Step
        /// The number of times that the store refused this job's hold of the lock.
        var overtakes = 0

        enum Kind: Sendable {
            case load
            /// The job that carries out ``CredentialLifecycle/renewal``.
            case renewal
            /// The job that carries out ``CredentialLifecycle/signOut``.
            case signOut
            /// The job that carries out the first of ``CredentialLifecycle/signIns``.
            case signIn
        }

        enum Step: Sendable {
            case locking
            case reading
            /// A renewal asks the store whether it can save, before it uses up the refresh token.
            case preparing
            /// A renewal has asked the server.
            case asking
            /// The lock was held for so long that a renewal reads the store before it saves.
            case checking
            case saving
            /// A renewal reads the store once more, because the server no longer accepts the refresh token.
            case doubting(ChappieAuthError)
            /// A renewal saves the credential without its refresh token.
            case marking(ChappieAuthError)
            case deleting
            /// A sign-in that failed or was cancelled reads the store's current content.
            case reviewing(ChappieAuthError?)
            case puttingBack(ChappieAuthError?)
        }
    }

    /// A renewal of the credential of one generation, queued or in progress.
    private struct Renewal: Sendable {
        let generation: Int
        /// The need of the first waiter, which decides which tokens are sufficient.
        let need: Need
        /// The callers that wait for the renewal. `isEarly` is whether the request is sent with the current token if
        /// the renewal fails or takes long.
        var waiters: [(waiter: Waiter, need: Need, isEarly: Bool)] = []
    }

    /// A sign-out that the store has not carried out yet.
    private struct SignOut: Sendable {
        /// The tombstone, with the time of the sign-out and the accounts.
        var tombstone: Tombstone
        /// The credentials that were signed out and are to be revoked.
        var credentials: [Credential] = []
        var waiters: [Waiter] = []
        /// Whether the store has failed to carry it out before.
        var isRepeated = false
    }

    private struct SignIn: Sendable {
        let credential: Credential
        let waiter: Waiter
        let isImport: Bool
        /// The number of sign-outs when it began. A later sign-out wins.
        let signOuts: Int
        var isCancelled = false
        /// The store's content before the sign-in.
        var previous: Result<Credential?, CredentialStoreError>?
        /// Whether the user has signed out of the previous credential before, and asked to revoke it.
        var revokesPrevious = false
    }

    /// The limit for a renewal's wait for the lock. Another process may hold the lock while it asks a server.
    static let renewalLockPatience = Duration.seconds(45)
    /// The limit for the time that a sign-in or sign-out waits for the lock. After that it continues without the lock,
    /// because the user's decision has priority over a renewal.
    static let changeLockPatience = Duration.seconds(10)
    /// The time that a request waits for an early refresh. It is then sent with the token that is still valid.
    static let earlyRefreshPatience = Duration.seconds(10)
    /// The time for which a token that is still valid is used after a failed early refresh, before the next attempt.
    static let earlyRefreshRetry = Duration.seconds(30)
    /// The time for which a token that has just arrived from the server is used, even if it has expired by this
    /// machine's clock. In that case the clock is wrong.
    static let newTokenTrust = Duration.seconds(30)
    /// The time that the process waits before it ends if the store has refused new tokens, which would be lost. The
    /// store is asked again after each pause.
    static let unsavedPatience = Duration.seconds(20)
    static let unsavedRetry = Duration.seconds(1)

    private(set) var snapshot = CredentialSnapshot()
    private var phase = Phase.unknown {
        didSet { assert(Self.isDrawn(oldValue.name, phase.name), "\(oldValue.name) to \(phase.name)") }
    }
    private var job: Job?
    private var lastJob = 0
    private var lastGeneration = 0
    private var actions: [Action] = []
    private var moment = Timestamp(now: Date(timeIntervalSince1970: 0), elapsed: .zero)

    /// The job that acquired the lock, and the time. Later jobs use the same lock, and the last of them releases it.
    private var lock: (job: JobID, since: Duration)?
    /// Whether the user refused access when the store was last read.
    private var isAccessDenied = false
    /// Whether another process has changed the store since it was read.
    private var isStale = false
    /// The callers that wait for a credential.
    private var callers: [(waiter: Waiter, need: Need)] = []
    private var renewal: Renewal?
    private var signOut: SignOut?
    private var signIns: [SignIn] = []
    /// The credentials that were being renewed when the user signed out. The tokens in the answers are revoked.
    private var lateTokens: [JobID: Credential] = [:]
    private var revocations = 0
    /// The callers that wait until the process may end. Until `savesUntil`, the machine tries to save unsaved tokens
    /// for them, with pauses between the attempts.
    private var settling: [(waiter: Waiter, savesUntil: Duration, isPausing: Bool)] = []
    /// Whether the process is about to end. This is true from ``Input/settlingAsked(_:)`` until the next caller asks.
    private var isEnding = false

    /// Whether the only copy of new tokens is in this value.
    var hasUnsavedTokens: Bool { held?.replaces != nil }
    /// The credential in use, or the last credential if the server no longer accepts it. It is `nil` after a sign-out.
    var retained: Credential? {
        switch phase {
        case .held(let held): held.credential
        case .rejected(let credential, _): credential
        default: nil
        }
    }
    private var held: Held? { if case .held(let held) = phase { held } else { nil } }

    // MARK: Inputs

    /// Takes an input and returns the actions that follow from it.
    mutating func handle(_ input: Input, at moment: Timestamp) -> [Action] {
        self.moment = moment
        switch input {
        case .asked(let need, let waiter):
            isEnding = false
            serve(waiter, need)
        case .backendAnswered(let generation, let refusal):
            changeHeld { held in
                if held.generation == generation { held.refusal = refusal }
            }
        case .patienceEnded(let waiter): patienceEnded(waiter)
        case .signedOut(let revoking, let waiter): signedOut(revoking: revoking, waiter)
        case .storeMayHaveChanged: if held != nil { isStale = true }
        case .signOutOutlasted: if let signOut { actions.append(.keepTombstone(signOut.tombstone)) }
        case .signInCompleted(let credential, let after, let waiter):
            signIns.append(
                SignIn(
                    credential: credential, waiter: waiter, isImport: after == nil,
                    signOuts: after ?? snapshot.signOuts))
            // The sign-in has priority over a renewal that only waits for another process. The renewal continues
            // afterwards.
            if case .renewal = job?.kind, case .locking = job?.step { job = nil }
        case .signInCancelled(let waiter):
            if let index = signIns.firstIndex(where: { $0.waiter == waiter }) { signIns[index].isCancelled = true }
        case .settlingAsked(let waiter):
            settling.append((waiter, moment.elapsed + Self.unsavedPatience, false))
            // The process may end as soon as it has the answer, in the middle of a renewal that begins only then.
            isEnding = true
            if case .renewal = job?.kind, case .locking = job?.step, !hasUnsavedTokens {
                endRenewal(.failure(.credentialStoreUnavailable(.cancelled)))
            }
        case .lockAnswered(let id, let error): lockAnswered(id, error)
        case .storeRead(let result, let tombstone): storeRead(result, tombstone)
        case .storePrepared(let error): storePrepared(error)
        case .storeChanged(let error): storeChanged(error)
        case .tokensRefreshed(let id, let result): tokensRefreshed(id, result)
        case .revocationEnded: revocations -= 1
        }
        startNextJob()
        answerSettling()
        updateSnapshot()
        defer { actions = [] }
        return actions
    }

    private mutating func answerSettling() {
        let isIdle =
            switch (job?.kind, job?.step) {
            case (nil, _), (.load, _): true
            default: false
            }
        guard isIdle, signOut?.waiters.isEmpty ?? true, signIns.isEmpty, revocations == 0, lateTokens.isEmpty else {
            return
        }
        // A user who has just refused access is not asked again.
        let isSaving = hasUnsavedTokens && !isAccessDenied
        for (waiter, savesUntil, _) in settling where !isSaving || moment.elapsed >= savesUntil {
            actions.append(.answer(waiter, .success(.settled)))
        }
        settling.removeAll { !isSaving || moment.elapsed >= $0.savesUntil }
    }

    private mutating func updateSnapshot() {
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

    // MARK: Callers

    private mutating func answer(_ waiter: Waiter, with held: Held) {
        actions.append(.answer(waiter, .success(.credential(held, isNew: isNew(held)))))
    }

    private mutating func refuse(_ waiter: Waiter, _ failure: ChappieAuthError) {
        actions.append(.answer(waiter, .failure(failure)))
    }

    private func isNew(_ held: Held) -> Bool {
        held.cameAt.map { moment.elapsed - $0 < Self.newTokenTrust } ?? false
    }

    /// Gives the waiter its result as soon as there is a saved credential.
    private mutating func serve(_ waiter: Waiter, _ need: Need) {
        if need == .reload { return callers.append((waiter, need)) }
        if case .mismatched(let failure, _) = phase { return refuse(waiter, failure) }
        guard let held, held.replaces == nil, !isStale else { return callers.append((waiter, need)) }
        switch need {
        case .account, .reload: answer(waiter, with: held)
        // Newer tokens are already available, and a late 401 must not use them up.
        case .replacement(let generation) where generation != held.generation: answer(waiter, with: held)
        case .replacement:
            if let failure = held.renewalRefusal { return refuse(waiter, failure) }
            renew(held, need, for: waiter)
        case .refresh, .export: renew(held, need, for: waiter)
        case .token:
            switch held.credential.freshness(at: moment.now) {
            case _ where isNew(held), .fresh: answer(waiter, with: held)
            case .due where held.renewalRefusal != nil: answer(waiter, with: held)
            case .expired where held.renewalRefusal != nil:
                if let failure = held.renewalRefusal { refuse(waiter, failure) }
            case .due where held.earlyRefreshPause.map { moment.elapsed < $0 } ?? false: answer(waiter, with: held)
            case .due:
                actions.append(.startPatience(waiter, Self.earlyRefreshPatience))
                renew(held, need, for: waiter, isEarly: true)
            case .expired: renew(held, need, for: waiter)
            }
        }
    }

    /// Queues a renewal for the waiter. A process that is about to end does not begin one, because the answer would be
    /// lost.
    private mutating func renew(_ held: Held, _ need: Need, for waiter: Waiter, isEarly: Bool = false) {
        if isEnding {
            if isEarly { return answer(waiter, with: held) }
            return refuse(waiter, .credentialStoreUnavailable(.cancelled))
        }
        if renewal == nil { renewal = Renewal(generation: held.generation, need: need) }
        renewal?.waiters.append((waiter, need, isEarly))
    }

    private mutating func patienceEnded(_ waiter: Waiter) {
        if let index = settling.firstIndex(where: { $0.waiter == waiter }) {
            return settling[index].isPausing = false
        }
        guard let renewal, let index = renewal.waiters.firstIndex(where: { $0.waiter == waiter }) else { return }
        self.renewal?.waiters.remove(at: index)
        if let held, held.generation == renewal.generation {
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
            begin(.signOut, waitingForLock: Self.changeLockPatience)
        } else if !signIns.isEmpty {
            begin(.signIn, waitingForLock: Self.changeLockPatience)
        } else if renewal != nil {
            begin(.renewal, waitingForLock: Self.renewalLockPatience)
        } else if let held, held.replaces != nil, !callers.isEmpty || settling.contains(where: { !$0.isPausing }) {
            // Some tokens could not be saved before. This renewal saves them.
            for index in settling.indices where !settling[index].isPausing {
                settling[index].isPausing = true
                actions.append(.startPatience(settling[index].waiter, Self.unsavedRetry))
            }
            renewal = Renewal(generation: held.generation, need: .account)
            begin(.renewal, waitingForLock: Self.renewalLockPatience)
        } else if !callers.isEmpty {
            lastJob += 1
            job = Job(id: lastJob, kind: .load, step: .reading)
            actions.append(.readStore(isDeleted: false))
        } else if let lock {
            actions.append(.releaseLock(lock.job))
            self.lock = nil
        }
    }

    private mutating func begin(_ kind: Job.Kind, waitingForLock patience: Duration) {
        lastJob += 1
        job = Job(id: lastJob, kind: kind, step: .locking)
        if lock == nil { actions.append(.acquireLock(lastJob, within: patience)) } else { firstStep() }
    }

    /// Begins the job again with a new hold of the lock if the store has refused the old one. It does so at most twice.
    ///
    /// - Returns: Whether `error` was such a refusal, and the job continues.
    private mutating func beginsAgain(after error: CredentialStoreError?) -> Bool {
        guard error == .overtaken, let job, job.overtakes < 2 else { return false }
        if let lock { actions.append(.releaseLock(lock.job)) }
        lock = nil
        let patience = if case .renewal = job.kind { Self.renewalLockPatience } else { Self.changeLockPatience }
        begin(job.kind, waitingForLock: patience)
        self.job?.overtakes = job.overtakes + 1
        return true
    }

    private mutating func lockAnswered(_ id: JobID, _ error: CredentialStoreError?) {
        guard let job, job.id == id else {
            if error == nil { actions.append(.releaseLock(id)) }
            return
        }
        if let error, case .renewal = job.kind { return endRenewal(.failure(.credentialStoreUnavailable(error))) }
        if error == nil { lock = (id, moment.elapsed) }
        firstStep()
    }

    private mutating func firstStep() {
        // A user who has just refused access is not asked for it again, because deleting needs no access. But if this
        // process has known the credential, another process may have signed in since then.
        if case .signOut = job?.kind, isAccessDenied, lastGeneration == 0, signOut?.isRepeated == false {
            delete()
        } else {
            read(.reading)
        }
    }

    private mutating func read(_ step: Job.Step) {
        job?.step = step
        let isSignOut = if case .signOut = job?.kind { true } else { false }
        actions.append(.readStore(isDeleted: isSignOut))
    }

    private mutating func save(_ credential: Credential, _ step: Job.Step = .saving, verified: Bool = false) {
        job?.step = step
        actions.append(.save(credential, verified: verified))
    }

    private mutating func delete() {
        job?.step = .deleting
        actions.append(.delete)
    }

    /// Ends the job, with a result for the callers that wait for a credential.
    private mutating func end(_ result: Result<Void, ChappieAuthError>) {
        job = nil
        let callers = callers
        self.callers = []
        for (waiter, need) in callers {
            switch result {
            case .success: serve(waiter, need == .reload ? .account : need)
            case .failure(.missingCredential) where need == .refresh:
                if case .absent = phase { phase = .absent(isMissed: true) }
                refuse(waiter, .missingRefreshToken)
            case .failure(let failure): refuse(waiter, failure)
            }
        }
    }

    private mutating func storeRead(_ result: Result<Stored, CredentialStoreError>, _ tombstone: Tombstone?) {
        isAccessDenied =
            switch result {
            case .failure(.denied), .failure(.noPassphrase), .failure(.wrongPassphrase): true
            default: false
            }
        switch (job?.kind, job?.step) {
        case (.load, _): loaded(result, tombstone)
        case (.renewal, .doubting(let failure)): doubted(failure, try? result.get().credentialInForce)
        case (.renewal, let step): readForRenewal(result.map(\.credentialInForce), step)
        case (.signOut, _): readForSignOut(result)
        case (.signIn, .reviewing(let failure)): putBack(failure, now: try? result.get().credential)
        case (.signIn, _): readForSignIn(result)
        case (nil, _): break
        }
    }

    private mutating func storeChanged(_ error: CredentialStoreError?) {
        if beginsAgain(after: error) { return }
        switch (job?.kind, job?.step) {
        // This is best effort. This process knows that the refresh token is no longer valid, and other processes will
        // find out.
        case (.renewal, .marking(let failure)): endRenewal(.failure(failure))
        case (.renewal, _):
            if let error { return endRenewal(.failure(.credentialStoreUnavailable(error))) }
            changeHeld { $0.replaces = nil }
            endRenewal(.success(()))
        case (.signOut, _): deletedForSignOut(error)
        case (.signIn, .puttingBack(let failure)): failSignIn(failure)
        case (.signIn, _):
            if error != nil || isOver(signIns[0]) {
                read(.reviewing(error.map(ChappieAuthError.credentialStoreUnavailable)))
            } else {
                adopt()
            }
        case (.load, _), (nil, _): break
        }
    }

    // MARK: Loading

    /// - Parameter tombstone: The tombstone that accompanies a store that could not be read.
    private mutating func loaded(_ result: Result<Stored, CredentialStoreError>, _ tombstone: Tombstone?) {
        isStale = false
        // The user has signed out during the read. The sign-out answers the callers.
        guard signOut == nil else { return job = nil }
        let stored: Stored
        switch result {
        case .failure(let error):
            // Another process has signed out.
            if let tombstone, let held, tombstone.means(held.credential) { return obey(tombstone) }
            // The credential in use is sufficient while the store can't be read.
            switch phase {
            case .held, .mismatched: return end(.success(()))
            default: break
            }
            phase = .unavailable(error)
            return end(.failure(.credentialStoreUnavailable(error)))
        case .success(let value): stored = value
        }
        if let tombstone = stored.tombstone {
            if stored.credential != nil, stored.credentialInForce == nil {
                return obey(tombstone)
            }
            actions.append(.keepTombstone(nil))
        }
        let isReload = callers.contains { $0.need == .reload }
        switch (stored.credential, phase) {
        // The store may not have saved the fact that the refresh token is no longer valid.
        case (let credential, .rejected(let rejected, let failure))
        where credential.map { $0.accessToken == rejected.accessToken } ?? true:
            end(.failure(failure))
        case (let credential?, .held(let held)) where credential.hasSameTokens(as: held.credential):
            if isReload {
                changeHeld { held in
                    held.renewalRefusal = nil
                    held.failedRefresh = nil
                }
            }
            end(.success(()))
        case (let credential?, .held(let held))
        where !isReload && !credential.info.isSameAccount(as: held.credential.info):
            end(.failure(mismatch(held)))
        case (let credential?, _):
            hold(credential)
            end(.success(()))
        case (nil, _):
            phase = .absent()
            end(.failure(.missingCredential))
        }
    }

    /// Continues the sign-out of an earlier process that the store did not carry out in time.
    private mutating func obey(_ tombstone: Tombstone) {
        signOut = SignOut(tombstone: tombstone, isRepeated: true)
        phase = .absent()
        job = nil
    }

    /// Starts to use `credential`, which is in the store or will replace `replacing` there.
    private mutating func hold(_ credential: Credential, replacing: Credential? = nil, isNew: Bool = false) {
        lastGeneration += 1
        phase = .held(
            Held(
                credential: credential, generation: lastGeneration, replaces: replacing,
                cameAt: isNew ? moment.elapsed : nil))
    }

    private mutating func changeHeld(_ change: (inout Held) -> Void) {
        guard var held else { return }
        change(&held)
        phase = .held(held)
    }

    private mutating func revoke(_ credential: Credential) {
        revocations += 1
        actions.append(.revoke(credential))
    }

    // MARK: Renewal

    /// Compares the credential in use with the store. Another process may have renewed it, and a sign-out or sign-in
    /// that happened since then wins. Tokens that are not stored yet are saved if the store still has the credential
    /// that they replace.
    private mutating func readForRenewal(_ stored: Result<Credential?, CredentialStoreError>, _ step: Job.Step?) {
        guard let held else { return endRenewal(.failure(.missingCredential)) }
        switch stored {
        case .failure(let error):
            if case .checking = step {
                save(held.credential)
            } else {
                endRenewal(.failure(.credentialStoreUnavailable(error)))
            }
        // A save that was abandoned may have been carried out anyway.
        case .success(let stored?) where stored.hasSameTokens(as: held.credential):
            changeHeld { $0.replaces = nil }
            askIfNeeded()
        case .success(let stored?) where held.replaces.map(stored.hasSameTokens) ?? false: save(held.credential)
        case .success(let stored):
            if held.replaces != nil, stored.map(held.credential.mayEnd) != true { revoke(held.credential) }
            guard let stored else {
                phase = .absent()
                return endRenewal(.failure(.missingCredential))
            }
            if take(stored, insteadOf: held) { askIfNeeded() }
        }
    }

    /// Starts to use the credential that another process has stored. If it belongs to another account, the renewal
    /// ends. Returns whether the credential is used.
    private mutating func take(_ stored: Credential, insteadOf held: Held) -> Bool {
        if stored.info.isSameAccount(as: held.credential.info) {
            // A late 401 counts against an access token, which may be the same.
            if stored.accessToken != held.credential.accessToken {
                hold(stored)
            } else {
                changeHeld { held in
                    held.credential = stored
                    held.replaces = nil
                }
            }
            return true
        }
        endRenewal(.failure(mismatch(held)))
        return false
    }

    private mutating func mismatch(_ held: Held) -> ChappieAuthError {
        let reason = "The stored sign-in now belongs to another account. Please sign in again to continue here."
        let failure = ChappieAuthError.reauthenticationRequired(reason)
        phase = .mismatched(failure, earlier: held.credential)
        return failure
    }

    /// Ends the renewal if the current tokens are sufficient. Otherwise asks the server, once the store can save the
    /// answer.
    private mutating func askIfNeeded() {
        guard let held, let renewal else { return }
        let isFresh = held.credential.freshness(at: moment.now) == .fresh
        let isOther = held.generation != renewal.generation
        let isEnough =
            switch renewal.need {
            case .account: true
            case .token: isOther && isFresh
            case .replacement: isOther
            case .reload: true
            case .refresh: false
            case .export: isFresh
            }
        if isEnough { return endRenewal(.success(())) }
        guard held.credential.refreshToken != nil else {
            return held.credential.isAccessToken ? accessTokenIsRefused(renewal.need) : cannotRenew(held, renewal.need)
        }
        if let date = held.credential.earliestRenewal(after: moment.now) {
            switch renewal.need {
            // The server would consider an early renewal a misuse, and end the sign-in.
            case .replacement:
                changeHeld { $0.refusal = ChappieAuthError.renewableLater(date).errorDescription }
                return endRenewal(.failure(.renewableLater(date)))
            case .refresh: return endRenewal(.failure(.renewableLater(date)))
            case .account, .token, .export, .reload: break
            }
        }
        job?.step = .preparing
        actions.append(.prepareToSave)
    }

    /// Ends a renewal of an access token, which is never renewed. The token stays stored, because a refusal may come
    /// from a proxy on the way.
    private mutating func accessTokenIsRefused(_ need: Need) {
        let isAsked = need == .refresh
        let reason =
            isAsked
            ? "An access token can't be renewed."
            : "The access token has ended, or it was revoked. It can't be renewed."
        if !isAsked { changeHeld { $0.refusal = reason } }
        endRenewal(.failure(.reauthenticationRequired(reason + " Its owner can make a new one in ChatGPT.")))
    }

    private mutating func storePrepared(_ error: CredentialStoreError?) {
        // The user has signed out since then.
        guard let held, let refreshToken = held.credential.refreshToken, let renewal, let id = job?.id else {
            return endRenewal(.failure(.missingCredential))
        }
        if beginsAgain(after: error) { return }
        // If the store can't save, the answer and the refresh token would be lost with this process.
        if let error { return endRenewal(.failure(.credentialStoreUnavailable(error))) }
        let reason: RenewalReason =
            switch renewal.need {
            case .account, .token, .reload: held.credential.freshness(at: moment.now) == .expired ? .ended : .due
            case .replacement: .refused
            case .refresh: .asked
            case .export: .exported
            }
        job?.step = .asking
        actions.append(.refresh(id, refreshToken, of: held.credential.issuedClientID, because: reason))
    }

    private mutating func tokensRefreshed(_ id: JobID, _ result: Result<TokenResponse, ChappieAuthError>) {
        guard let held, job?.id == id else {
            // The user signed out while the server was asked.
            if let credential = lateTokens.removeValue(forKey: id), case .success(let answer) = result {
                revoke(credential.refreshed(with: answer, at: moment.now))
            }
            return
        }
        switch result {
        case .success(let answer) where !held.credential.isOwn(answer):
            let reason =
                "The service answered the renewal of your sign-in with another account's tokens. They are not used."
            let failure = ChappieAuthError.reauthenticationRequired(reason)
            lose(
                held.credential.unrenewable(because: reason, refused: isForRefusal, aside: answer), failure,
                isStored: true)
        case .success(let answer):
            let new = held.credential.refreshed(with: answer, at: moment.now)
            hold(new, replacing: held.credential, isNew: true)
            // The tokens are saved immediately, because a crash before the save loses the sign-in. If the lock was held
            // for so long that another process may have signed out or in without it, this first reads the store.
            let isLockOld = lock.map { moment.elapsed - $0.since > Self.changeLockPatience - .seconds(1) } ?? false
            if isLockOld { read(.checking) } else { save(new) }
        case .failure(let failure):
            guard let issuerError = failure.issuerError else { return endRenewal(.failure(failure)) }
            if issuerError.endsTheGrant { return read(.doubting(failure)) }
            guard issuerError.isRefusal else { return endRenewal(.failure(failure)) }
            // The error code is unknown here, so the refresh token may be accepted again later.
            let refusal = ChappieAuthError.reauthenticationRequired(issuerError.reason)
            let isForRefusal = isForRefusal
            changeHeld { held in
                held.renewalRefusal = refusal
                if isForRefusal { held.refusal = issuerError.reason }
            }
            endRenewal(.failure(refusal))
        }
    }

    /// Whether the renewal is for a request whose access token the backend has refused.
    private var isForRefusal: Bool { if case .replacement = renewal?.need { true } else { false } }

    /// Ends a renewal of a credential that has no refresh token.
    private mutating func cannotRenew(_ held: Held, _ need: Need) {
        let failure = held.credential.ending
        switch need {
        case .replacement:
            let reason = failure.errorDescription ?? ""
            lose(held.credential.unrenewable(because: reason, refused: true), failure, isStored: true)
        case .refresh: endRenewal(.failure(failure))
        case .account, .token, .export, .reload: lose(held.credential, failure, isStored: false)
        }
    }

    /// Gives up the refresh token, unless the store has a newer one. In that case another process was faster, and its
    /// credential is used.
    private mutating func doubted(_ failure: ChappieAuthError, _ stored: Credential?) {
        guard let held else { return endRenewal(.failure(.missingCredential)) }
        guard let stored, stored.refreshToken != held.credential.refreshToken else {
            let reason = failure.issuerError?.reason ?? failure.errorDescription ?? ""
            return lose(
                held.credential.unrenewable(because: reason, refused: isForRefusal), failure, isStored: stored != nil)
        }
        guard take(stored, insteadOf: held) else { return }
        // If there is no refresh token, another process has also learned of the refusal.
        if stored.refreshToken != nil { endRenewal(.success(())) } else { askIfNeeded() }
    }

    /// Ends a renewal that failed permanently, and continues with the rest of the credential. An access token that is
    /// still valid is used until it expires.
    private mutating func lose(_ rest: Credential, _ failure: ChappieAuthError, isStored: Bool) {
        let wasRenewable = held?.credential.refreshToken != nil
        if rest.isOver(at: moment.now) {
            phase = .rejected(rest, failure)
        } else {
            changeHeld { $0.credential = rest }
            if wasRenewable { actions.append(.renewalWasRefused(rest)) }
        }
        if isStored { save(rest, .marking(failure)) } else { endRenewal(.failure(failure)) }
    }

    private mutating func endRenewal(_ result: Result<Void, ChappieAuthError>) {
        guard let renewal else { return }
        self.renewal = nil
        // After a failure that has ended the sign-in, no credential is held.
        let pause = moment.elapsed + Self.earlyRefreshRetry
        if case .failure(let failure) = result {
            let wasAskedFor =
                failure.requiresReauthentication && held?.credential.isAccessToken == false
                && renewal.waiters.contains { $0.need == .refresh }
            changeHeld { held in
                held.earlyRefreshPause = pause
                if wasAskedFor { held.failedRefresh = failure }
            }
        }
        for (waiter, _, isEarly) in renewal.waiters {
            switch result {
            case .success: serve(waiter, .account)
            // The token must still be the same, because a new token must not be used before it has been saved.
            case .failure where isEarly && held?.generation == renewal.generation:
                serve(waiter, .account)
            case .failure(let failure): refuse(waiter, failure)
            }
        }
        end(result)
    }

    // MARK: Signing out

    private mutating func signedOut(revoking: Bool, _ waiter: Waiter) {
        let asked: Credential? =
            switch phase {
            case .held(let held): held.credential
            case .mismatched(_, let earlier): earlier
            default: nil
            }
        let credentials = takeUnrevoked() + [asked].compactMap(\.self)
        signOut = SignOut(
            tombstone: Tombstone(at: moment.now, revokes: revoking, credentials), credentials: credentials,
            waiters: (signOut?.waiters ?? []) + [waiter])
        phase = .absent()
        snapshot.signOuts += 1
        snapshot.sequence += 1
        switch (job?.kind, job?.step) {
        case (.renewal, .locking): endRenewal(.failure(.missingCredential))
        case (.renewal, .asking):
            if revoking, let id = job?.id { lateTokens[id] = asked }
            endRenewal(.failure(.missingCredential))
        default: break
        }
    }

    private mutating func readForSignOut(_ result: Result<Stored, CredentialStoreError>) {
        guard let signOut else { return job = nil }
        switch result {
        case .success(let stored):
            guard let credential = stored.credential else { break }
            // Whether it is another sign-in. Another process may have renewed the credential while this one waited for
            // the lock.
            let isOther =
                signOut.isRepeated
                ? stored.tombstone == nil || !signOut.tombstone.means(credential)
                : !signOut.tombstone.concerns(credential)
            if isOther {
                // The slot has a later sign-in. The sign-out has nothing left to do, and the callers may use that
                // sign-in.
                endSignOut(nil)
                return job = nil
            }
            // It may be newer than the credential known here, because another process may have renewed it.
            if !signOut.credentials.contains(where: credential.hasSameTokens) {
                self.signOut?.credentials.append(credential)
                self.signOut?.tombstone.add(credential)
            }
        case .failure(.foreign):
            endSignOut(nil)
            return end(.failure(.missingCredential))
        case .failure(let error):
            if case .corrupt = error { break }
            if signOut.isRepeated {
                endSignOut(error)
                return end(.failure(.missingCredential))
            }
            // The unread credential may be a later sign-in.
            if isAccessDenied, lastGeneration > 0 { return deletedForSignOut(error) }
        }
        delete()
    }

    private mutating func deletedForSignOut(_ error: CredentialStoreError?) {
        if error != nil, let signOut { actions.append(.keepTombstone(signOut.tombstone)) }
        endSignOut(error)
        end(.failure(.missingCredential))
    }

    /// Ends the current attempt at the sign-out, and answers its waiters.
    ///
    /// - Parameter error: The store's failure, if any. The sign-out is then repeated later.
    private mutating func endSignOut(_ error: CredentialStoreError?) {
        guard let waiters = signOut?.waiters else { return }
        var credentials = error != nil && waiters.isEmpty ? [] : takeUnrevoked()
        signOut?.waiters = []
        signOut?.isRepeated = true
        if error == nil {
            signOut = nil
            actions.append(.keepTombstone(nil))
        }
        for waiter in waiters {
            if !credentials.isEmpty { revocations += 1 }
            actions.append(.answer(waiter, .success(.signedOut(error, revoke: credentials))))
            credentials = []
        }
        for credential in credentials { revoke(credential) }
    }

    private mutating func takeUnrevoked() -> [Credential] {
        guard let taken = signOut else { return [] }
        signOut?.credentials = []
        return taken.tombstone.revokes ? taken.credentials : []
    }

    // MARK: Signing in

    private func isOver(_ signIn: SignIn) -> Bool { signIn.isCancelled || signIn.signOuts != snapshot.signOuts }

    private mutating func readForSignIn(_ result: Result<Stored, CredentialStoreError>) {
        if case .failure(let error) = result, case .foreign = error {
            return failSignIn(.credentialStoreUnavailable(error))
        }
        if isOver(signIns[0]) { return failSignIn(nil) }
        if let stored = try? result.get(), let previous = stored.credential,
            let tombstone = signOut?.tombstone ?? stored.tombstone
        {
            signIns[0].revokesPrevious = tombstone.revokes && tombstone.means(previous)
        }
        signIns[0].previous = result.map(\.credential)
        save(signIns[0].credential, verified: true)
    }

    /// Starts to use the credential of the sign-in, which has been saved, read back and compared.
    private mutating func adopt() {
        let signIn = signIns.removeFirst()
        // A sign-in does not revoke the credential that it replaces, because a revocation may end all of that user's
        // sign-ins, including those in other programs. An earlier sign-out asked for a revocation, but must not end the
        // new sign-in.
        var ended = takeUnrevoked()
        signOut = nil
        if signIn.revokesPrevious, case .success(let previous?) = signIn.previous { ended.append(previous) }
        for (index, credential) in ended.enumerated() where !credential.mayEnd(signIn.credential) {
            let isFirst = !ended[..<index].contains { $0.refreshToken == credential.refreshToken }
            if isFirst { revoke(credential) }
        }
        hold(signIn.credential, isNew: !signIn.isImport)
        actions.append(.keepTombstone(nil))
        serve(signIn.waiter, .account)
        end(.success(()))
    }

    /// Restores the store's content after a save that failed or was overtaken. Content that could not be read before
    /// stays, and so does a credential that another process has stored since then.
    private mutating func putBack(_ failure: ChappieAuthError?, now: Credential?) {
        let signIn = signIns[0]
        // A sign-out that is still to be carried out decides about this credential.
        if let now, !now.hasSameTokens(as: signIn.credential) { return failSignIn(failure) }
        switch signIn.previous {
        case .success(let previous?) where signOut == nil: save(previous, .puttingBack(failure))
        case _ where signOut != nil, .success(nil):
            job?.step = .puttingBack(failure)
            actions.append(.delete)
        default: failSignIn(failure)
        }
    }

    /// Ends the first sign-in without success.
    ///
    /// - Parameter failure: The failure, or `nil` if the sign-in was cancelled or overtaken by a sign-out.
    private mutating func failSignIn(_ failure: ChappieAuthError?) {
        let signIn = signIns.removeFirst()
        // The earlier sign-in stays, and must not end with the new one.
        let stays = try? signIn.previous?.get()
        if !signIn.isImport, stays.map(signIn.credential.mayEnd) != true { revoke(signIn.credential) }
        refuse(signIn.waiter, failure ?? .cancelledSignIn)
        job = nil
    }
}
