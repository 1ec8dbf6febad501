@_spi(ChappieInternals) import ChappieCore

/// The life of one slot's credential as a state machine: past-tense inputs go in, actions come out.
///
/// Nothing here waits, reads a clock or knows a store. ``CredentialManager`` carries out the actions and reports each
/// result as the next input, in any order that the world has. The rules:
/// - A refresh token works once. One renewal runs at a time, under the lock that other processes respect, and it reads the
///   store again before it asks the server and once more before it believes that a refresh token is dead.
/// - New tokens are used after they have been saved, and are never given up for a store that fails.
/// - A sign-out counts from the moment it is reported; results of earlier work are then revoked, not used. It is repeated
///   until the store has carried it out, but never at the cost of a later sign-in.
/// - Jobs touch the store one at a time, in the order in which they are ready to.
struct CredentialLifecycle: Sendable {
    /// The state of the credential.
    enum Phase: Sendable {
        /// The store has not been read, or could not be. Next: any.
        case unknown
        /// The store was empty. Read again at the next request: another process may sign in. Next: `held`, `rejected`.
        case absent
        /// A credential is in use. Next: any but `unknown`.
        case held(Held)
        /// The credential was of no more use. Next: `held`, when the store holds another one; `absent`.
        case rejected(Credential, CredentialFailure)
        /// The slot now belongs to another account; no request goes out under a changed name. Next: `held` by a new
        /// sign-in, `absent`.
        case mismatched(CredentialFailure)
    }

    /// How long a renewal waits for another process's, which asks a server.
    static let renewalLockPatience = Duration.seconds(45)
    /// How long a sign-in or sign-out does. It has the later word, so that it goes on without the lock after that.
    static let changeLockPatience = Duration.seconds(10)
    /// A request waits this long for an early refresh, and then goes out with the token that is still good.
    static let earlyRefreshPatience = Duration.seconds(10)
    /// After a failed early refresh a token that is still good is used this long before the next try.
    static let earlyRefreshRetry = Duration.seconds(30)
    /// For this long a token that has just come from the server is used even if this machine's clock says that it has
    /// ended: it is the clock that is wrong then.
    static let newTokenTrust = Duration.seconds(30)

    private(set) var snapshot = CredentialSnapshot()
    private var phase = Phase.unknown
    private var jobs: [JobID: Job] = [:]
    /// The jobs that are ready for the store; the first one has it.
    private var lane: [JobID] = []
    private var lastJob = 0
    private var lastGeneration = 0
    private var actions: [Action] = []
    private var moment = Moment(now: Date(timeIntervalSince1970: 0), elapsed: .zero)

    /// The sign-out that the store has not carried out yet.
    private var pendingSignOut: PendingSignOut?
    /// Whether tokens that arrive after the last sign-out are to be ended at the server too.
    private var revokesLateTokens = true
    /// Why the store could not be read the last time; `nil` when it could.
    private var readFailure: CredentialStoreError?
    /// No early refresh before this time, because one has just failed.
    private var earlyRefreshPause: Duration?
    private var tokensCameAt: Duration?
    /// The credential that the backend refused although it was fresh.
    private var refusedGeneration: Int?
    private var revocations = 0

    /// The callers that wait for a credential to be there, and the job that brings it.
    private var needs: [(waiter: Waiter, need: Need)] = []
    private var needsJob: JobID?
    private var renewalJob: JobID?
    private var renewalWaiters: [Waiter] = []
    /// Requests that would go out with the token of that generation if the renewal fails or takes long.
    private var earlyWaiters: [(waiter: Waiter, generation: Int)] = []
    private var settling: [Waiter] = []

    private enum Need { case account, token, refresh, export }

    private struct Job: Sendable {
        var kind: Kind
        var step: Step
        var lockedAt: Duration?
        /// The job that took the lock that this one works under; it is released after the last of them.
        var lock: JobID?

        enum Kind: Sendable {
            case load
            case saveAgain(generation: Int)
            case renewal(of: Held, RenewalMode)
            /// `nil` for one that makes up for an earlier one.
            case signOut(Waiter?)
            case signIn(Adoption)
        }

        enum Step: Sendable {
            case waitingForLock
            /// In the lane, or reading the store: the first thing that every job does there.
            case reading
            /// A renewal has asked the server with the refresh token of this credential.
            case asking(Held)
            /// In the lane with new tokens for this credential.
            case storing(Credential, insteadOf: Held)
            /// The lock was held for so long that the store is looked at before the tokens of this generation are saved.
            case checking(generation: Int)
            case saving(generation: Int)
            /// In the lane, or reading, because the server no longer takes the refresh token.
            case doubting(Held, CredentialFailure)
            case deleting(CredentialFailure?)
            /// A sign-in that did not come through looks at what the store holds now.
            case reviewing(CredentialFailure?)
            case puttingBack(CredentialFailure?)
        }
    }

    private enum RenewalMode: Sendable {
        /// The token is about to end: stored tokens will do if they last.
        case ifDue
        /// The backend refused the token: any other stored tokens will do.
        case afterRefusal
        /// The server is asked in any case.
        case always
        /// The store is read under the lock; the server is asked only when the token is due.
        case ifDueAfterReading
    }

    private struct Adoption: Sendable {
        let credential: Credential
        let waiter: Waiter
        let isImport: Bool
        /// The number of sign-outs when it began; a later one wins.
        let signOuts: Int
        var isCancelled = false
        /// The store's content before the sign-in.
        var previous: Result<Credential?, CredentialStoreError>?
        /// Whether that was to be forgotten without being revoked: another machine uses it.
        var sparesPrevious = false
    }

    private struct PendingSignOut: Sendable {
        /// When, and who was signed out.
        var tombstone: Tombstone
        /// Credentials that the sign-out took, and that are to be revoked.
        var credentials: [Credential] = []
        /// Whether the store has refused to carry it out before.
        var isRepeated = false
        /// Whether the tombstone is known to be readable for other processes, which remove it with a later sign-in.
        var isTombstoneKept = false

        mutating func remember(_ credential: Credential) {
            guard !credentials.contains(where: credential.hasSameTokens) else { return }
            credentials.append(credential)
        }
    }

    // MARK: Inputs

    /// Takes an input and tells what is to be done about it.
    mutating func handle(_ input: Input, at moment: Moment) -> [Action] {
        self.moment = moment
        switch input {
        case .requestNeedsToken(let waiter): serve(waiter, .token)
        case .accountAsked(let waiter): serve(waiter, .account)
        case .refreshAsked(let waiter): serve(waiter, .refresh)
        case .exportAsked(let waiter): serve(waiter, .export)
        case .tokenRefused(let generation, let waiter): renew(generation, .afterRefusal, for: waiter)
        case .freshTokenRefused(let generation, let reason):
            guard held?.generation == generation else { break }
            refusedGeneration = generation
            publish(.reauthenticationRequired(.reauthenticationRequired(reason)))
        case .tokenAccepted(let generation):
            guard refusedGeneration == generation, let held, held.generation == generation else { break }
            publishSignedIn(held.credential)
        case .patienceEnded(let waiter): patienceEnded(waiter)
        case .signedOut(let revoking, let waiter): signedOut(revoking: revoking, waiter)
        case .signOutOutlasted:
            if let pendingSignOut { actions.append(.writeTombstone(pendingSignOut.tombstone)) }
        case .tombstoneKept: pendingSignOut?.isTombstoneKept = true
        case .signInCompleted(let credential, let after, let waiter):
            let signOuts = after ?? snapshot.signOuts
            start(
                .signIn(
                    Adoption(credential: credential, waiter: waiter, isImport: after == nil, signOuts: signOuts)))
        case .signInCancelled(let waiter):
            for (id, job) in jobs {
                guard case .signIn(var adoption) = job.kind, adoption.waiter == waiter else { continue }
                adoption.isCancelled = true
                jobs[id]?.kind = .signIn(adoption)
            }
        case .settlingAsked(let waiter): settling.append(waiter)
        case .lockAnswered(let id, let error): lockAnswered(id, error)
        case .storeRead(let id, let result):
            if case .failure(let error) = result { readFailure = error } else { readFailure = nil }
            storeRead(id, result)
        case .storeSaved(let id, let error): storeSaved(id, error)
        case .storeDeleted(let id, let error): storeDeleted(id, error)
        case .tokensRefreshed(let id, let result): tokensRefreshed(id, result)
        case .revocationEnded: revocations -= 1
        }
        answerSettling()
        defer { actions = [] }
        return actions
    }

    // MARK: Callers

    private var held: Held? { if case .held(let held) = phase { held } else { nil } }

    private mutating func answer(_ waiter: Waiter, _ held: Held, isFromServer: Bool = false) {
        actions.append(.answer(waiter, .success(Answer(held: held, isFromServer: isFromServer))))
    }

    private mutating func refuse(_ waiter: Waiter, _ failure: CredentialFailure) {
        actions.append(.answer(waiter, .failure(failure)))
    }

    /// Gives the waiter what it needs as soon as there is a credential that has been saved.
    private mutating func serve(_ waiter: Waiter, _ need: Need) {
        if let held, held.isSaved { return serve(waiter, need, with: held) }
        if case .mismatched(let failure) = phase { return refuse(waiter, failure) }
        needs.append((waiter, need))
        guard needsJob == nil else { return }
        if pendingSignOut != nil {
            // The user has signed out: nothing goes out under the old name, whatever the store says about it.
            let running = jobs.first { if case .signOut = $0.value.kind { true } else { false } }
            needsJob = running?.key ?? start(.signOut(nil))
        } else if let held {
            needsJob = start(.saveAgain(generation: held.generation))
        } else {
            needsJob = start(.load)
        }
    }

    private mutating func serve(_ waiter: Waiter, _ need: Need, with held: Held) {
        switch need {
        case .account: answer(waiter, held)
        case .refresh: renew(held.generation, .always, for: waiter)
        case .export: renew(held.generation, .ifDueAfterReading, for: waiter)
        case .token:
            let isNew = tokensCameAt.map { moment.elapsed - $0 < Self.newTokenTrust } ?? false
            switch held.credential.freshness(at: moment.now) {
            case _ where isNew: answer(waiter, held)
            case .fresh: answer(waiter, held)
            case .due where earlyRefreshPause.map { moment.elapsed < $0 } ?? false: answer(waiter, held)
            case .due:
                earlyWaiters.append((waiter, held.generation))
                actions.append(.startPatience(waiter, Self.earlyRefreshPatience))
                if renewalJob == nil { renewalJob = start(.renewal(of: held, .ifDue)) }
            case .expired: renew(held.generation, .ifDue, for: waiter)
            }
        }
    }

    private mutating func serveAll(from id: JobID, _ result: Result<Held, CredentialFailure>) {
        guard needsJob == id else { return }
        needsJob = nil
        let served = needs
        needs = []
        for (waiter, need) in served {
            switch result {
            case .success(let held): serve(waiter, need, with: held)
            case .failure(.missingCredential) where need == .refresh:
                if case .absent = phase { publish(.reauthenticationRequired(.missingRefreshToken)) }
                refuse(waiter, .rejected(.missingRefreshToken, reason: "You are not signed in. Please sign in."))
            case .failure(let failure): refuse(waiter, failure)
            }
        }
    }

    private mutating func renew(_ generation: Int, _ mode: RenewalMode, for waiter: Waiter) {
        if renewalJob == nil {
            guard let held else { return refuse(waiter, .missingCredential) }
            // Newer tokens are there already: a late 401 must not use them up.
            guard held.generation == generation else { return serve(waiter, .account) }
            renewalJob = start(.renewal(of: held, mode))
        }
        renewalWaiters.append(waiter)
    }

    private mutating func patienceEnded(_ waiter: Waiter) {
        guard let index = earlyWaiters.firstIndex(where: { $0.waiter == waiter }) else { return }
        let generation = earlyWaiters.remove(at: index).generation
        if let held, held.generation == generation { answer(waiter, held) } else { serve(waiter, .account) }
    }

    private mutating func answerSettling() {
        let isBusy =
            revocations > 0
            || jobs.values.contains { job in
                switch (job.kind, job.step) {
                case (.load, _), (.renewal, .waitingForLock): false
                default: true
                }
            }
        guard !isBusy else { return }
        for waiter in settling { actions.append(.answer(waiter, .success(Answer()))) }
        settling = []
    }

    // MARK: Jobs

    @discardableResult
    private mutating func start(_ kind: Job.Kind) -> JobID {
        lastJob += 1
        let id = lastJob
        jobs[id] = Job(kind: kind, step: .waitingForLock)
        switch kind {
        case .load: enterLane(id, .reading)
        case .renewal: actions.append(.acquireLock(id, within: Self.renewalLockPatience))
        case .saveAgain, .signOut, .signIn:
            // A renewal of this process that has the lock looks at what has changed by itself.
            if let renewalJob, let lock = jobs[renewalJob]?.lock {
                jobs[id]?.lock = lock
                enterLane(id, .reading)
            } else {
                actions.append(.acquireLock(id, within: Self.changeLockPatience))
            }
        }
        return id
    }

    private mutating func lockAnswered(_ id: JobID, _ error: CredentialStoreError?) {
        guard let job = jobs[id] else { return }
        if let error, case .renewal = job.kind { return end(id, .failure(.store(error))) }
        if error == nil {
            jobs[id]?.lockedAt = moment.elapsed
            jobs[id]?.lock = id
        }
        enterLane(id, .reading)
    }

    private mutating func enterLane(_ id: JobID, _ step: Job.Step) {
        jobs[id]?.step = step
        lane.append(id)
        if lane.first == id { takeTurn(id) }
    }

    private mutating func leaveLane(_ id: JobID) {
        guard lane.first == id else { return }
        lane.removeFirst()
        if let next = lane.first { takeTurn(next) }
    }

    /// The store is the job's now.
    private mutating func takeTurn(_ id: JobID) {
        guard let job = jobs[id] else { return leaveLane(id) }
        switch (job.kind, job.step) {
        case (.load, _):
            // A sign-in may have finished while this waited for its turn.
            if let held { end(id, .success(Answer(held: held))) } else { actions.append(.readStore(id)) }
        case (.saveAgain(let generation), _):
            guard let held else { return end(id, .failure(.missingCredential)) }
            guard held.generation == generation, !held.isSaved else { return end(id, .success(Answer(held: held))) }
            actions.append(.readStore(id))
        case (.renewal(let original, _), .reading):
            guard let held else { return end(id, .failure(.missingCredential)) }
            // Tokens that the store did not take are newer than those it holds.
            if held.generation == original.generation, held.isSaved { return actions.append(.readStore(id)) }
            goOn(id, with: held)
        case (.renewal, .storing(let credential, let asked)): storeTokens(id, credential, insteadOf: asked)
        case (.signOut, _):
            guard let pendingSignOut else { return endSignOut(id, nil) }
            // A user who has just refused access is not asked for it again: deleting needs none.
            if pendingSignOut.isRepeated || !hasJustRefusedToBeRead {
                actions.append(.readStore(id))
            } else {
                delete(id)
            }
        case (.signIn(let adoption), _) where isOver(adoption): abandon(id)
        default: actions.append(.readStore(id))
        }
    }

    private var hasJustRefusedToBeRead: Bool {
        switch readFailure {
        case .denied, .noPassphrase, .wrongPassphrase: true
        default: false
        }
    }

    private mutating func delete(_ id: JobID, _ failure: CredentialFailure? = nil) {
        jobs[id]?.step = .deleting(failure)
        actions.append(.delete(id))
    }

    /// Ends a load, a save or a renewal.
    private mutating func end(_ id: JobID, _ result: Result<Answer, CredentialFailure>) {
        guard let job = remove(id) else { return }
        if case .renewal = job.kind { return endRenewal(result) }
        serveAll(from: id, result.flatMap { $0.held.map { .success($0) } ?? .failure(.missingCredential) })
    }

    private mutating func remove(_ id: JobID) -> Job? {
        guard let job = jobs.removeValue(forKey: id) else { return nil }
        if let lock = job.lock, !jobs.values.contains(where: { $0.lock == lock }) { actions.append(.releaseLock(lock)) }
        leaveLane(id)
        return job
    }

    // MARK: The store's answers

    private mutating func storeRead(_ id: JobID, _ result: Result<Stored, CredentialStoreError>) {
        guard let job = jobs[id] else { return }
        switch (job.kind, job.step) {
        case (.load, _): loaded(id, result)
        case (.saveAgain(let generation), _): reviewed(id, generation, result, savesWhatCanNotBeRead: false)
        case (.renewal(let original, _), .reading): reread(id, original, result.map(credential))
        case (.renewal, .checking(let generation)): reviewed(id, generation, result, savesWhatCanNotBeRead: true)
        case (.renewal, .doubting(let asked, let failure)): doubted(id, asked, failure, try? credential(result.get()))
        case (.renewal, _): break
        case (.signOut, _): readForSignOut(id, result)
        case (.signIn(let adoption), .reviewing(let failure)): putBack(id, adoption, failure, now: result)
        case (.signIn(let adoption), _): readForSignIn(id, adoption, result)
        }
    }

    private mutating func storeSaved(_ id: JobID, _ error: CredentialStoreError?) {
        guard let job = jobs[id] else { return }
        switch (job.kind, job.step) {
        case (.signIn(let adoption), .puttingBack(let failure)): fail(id, adoption, failure)
        case (.signIn(let adoption), _):
            if let error {
                review(id, .store(error))
            } else if isOver(adoption) {
                review(id, nil)
            } else {
                adopt(id, adoption)
            }
        case (_, .saving(let generation)):
            if let error { return end(id, .failure(.store(error))) }
            markSaved(generation)
            guard let held else { return end(id, .failure(.missingCredential)) }
            end(id, .success(Answer(held: held, isFromServer: true)))
        default: break
        }
    }

    private mutating func storeDeleted(_ id: JobID, _ error: CredentialStoreError?) {
        guard let job = jobs[id] else { return }
        switch (job.kind, job.step) {
        case (.signOut, _): deletedForSignOut(id, error)
        case (.signIn(let adoption), .puttingBack(let failure)): fail(id, adoption, failure)
        // Best effort: a rejected credential that stays is known as rejected here and will be rejected elsewhere.
        case (_, .deleting(let failure?)): end(id, .failure(failure))
        default: break
        }
    }

    /// The credential that counts as stored: one that a tombstone means is gone.
    private func credential(_ stored: Stored) -> Credential? {
        stored.credential.flatMap { credential in
            stored.tombstone?.means(credential) == true ? nil : credential
        }
    }

    // MARK: Loading

    private mutating func loaded(_ id: JobID, _ result: Result<Stored, CredentialStoreError>) {
        if pendingSignOut != nil { return end(id, .failure(.missingCredential)) }
        let stored: Stored
        switch result {
        case .failure(let error):
            publish(.unavailable(error))
            return end(id, .failure(.store(error)))
        case .success(let value): stored = value
        }
        if let tombstone = stored.tombstone {
            guard let credential = stored.credential, tombstone.means(credential) else {
                actions.append(.removeTombstone)
                return loaded(id, .success(Stored(credential: stored.credential)))
            }
            // An earlier process signed out, and the store did not carry it out in time.
            pendingSignOut = PendingSignOut(tombstone: tombstone, isRepeated: true, isTombstoneKept: true)
            phase = .absent
            publish(.signedOut)
            _ = remove(id)
            needsJob = start(.signOut(nil))
            return
        }
        switch (stored.credential, phase) {
        case (nil, .rejected(_, let failure)): end(id, .failure(failure))
        case (nil, _):
            phase = .absent
            publish(.signedOut)
            end(id, .failure(.missingCredential))
        case (let credential?, .rejected(let rejected, let failure)) where credential.hasSameTokens(as: rejected):
            end(id, .failure(failure))
        case (let credential?, _): end(id, .success(Answer(held: hold(credential, isSaved: true))))
        }
    }

    /// Takes `credential` into use.
    @discardableResult
    private mutating func hold(_ credential: Credential, isSaved: Bool, replacing: Credential? = nil) -> Held {
        lastGeneration += 1
        let held = Held(credential: credential, generation: lastGeneration, isSaved: isSaved, replaces: replacing)
        phase = .held(held)
        earlyRefreshPause = nil
        publishSignedIn(credential)
        return held
    }

    private mutating func markSaved(_ generation: Int) {
        guard var held, held.generation == generation else { return }
        held.isSaved = true
        held.replaces = nil
        phase = .held(held)
    }

    private mutating func publishSignedIn(_ credential: Credential) {
        refusedGeneration = nil
        publish(.signedIn(credential.info, expiresAt: credential.expiresAt))
    }

    private mutating func publish(_ status: CredentialSnapshot.Status) {
        guard snapshot.status != status else { return }
        snapshot.status = status
        snapshot.sequence += 1
    }

    private mutating func revoke(_ credential: Credential) {
        revocations += 1
        actions.append(.revoke(credential))
    }

    // MARK: Renewal

    private mutating func reread(_ id: JobID, _ original: Held, _ stored: Result<Credential?, CredentialStoreError>) {
        guard let held else { return end(id, .failure(.missingCredential)) }
        guard held.generation == original.generation else { return goOn(id, with: held) }
        switch stored {
        case .failure(let error): end(id, .failure(.store(error)))
        case .success(nil):
            phase = .absent
            publish(.signedOut)
            end(id, .failure(.missingCredential))
        case .success(let credential?):
            if credential.hasSameTokens(as: held.credential) { return goOn(id, with: held) }
            guard credential.info.isSameAccount(as: held.credential.info) else { return mismatch(id) }
            goOn(id, with: hold(credential, isSaved: true))
        }
    }

    /// Ends the renewal if the tokens at hand will do, and asks the server otherwise.
    private mutating func goOn(_ id: JobID, with held: Held) {
        guard let job = jobs[id], case .renewal(let original, let mode) = job.kind else { return }
        let isFresh = held.credential.freshness(at: moment.now) == .fresh
        let isOther = held.generation != original.generation
        let isEnough =
            switch mode {
            case .ifDue: isOther && isFresh
            case .afterRefusal: isOther
            case .always: false
            case .ifDueAfterReading: isFresh
            }
        if isEnough { return end(id, .success(Answer(held: held))) }
        guard let refreshToken = held.credential.refreshToken else {
            jobs[id]?.step = .doubting(
                held,
                .rejected(.missingRefreshToken, reason: "The sign-in can't be renewed. Please sign in again."))
            return actions.append(.readStore(id))
        }
        jobs[id]?.step = .asking(held)
        leaveLane(id)
        actions.append(.refresh(id, refreshToken))
    }

    private mutating func tokensRefreshed(_ id: JobID, _ result: Result<TokenAnswer, CredentialFailure>) {
        guard let job = jobs[id], case .asking(let asked) = job.step else { return }
        switch result {
        case .success(let answer):
            enterLane(id, .storing(asked.credential.refreshed(with: answer, at: moment.now), insteadOf: asked))
        case .failure(let failure) where failure.mayPass: end(id, .failure(failure))
        case .failure(let failure): enterLane(id, .doubting(asked, failure))
        }
    }

    /// Saves at once: a crash before that loses the sign-in. Only where the lock was held for so long that another
    /// process may have signed out or in without it, the store is looked at first.
    private mutating func storeTokens(_ id: JobID, _ credential: Credential, insteadOf asked: Held) {
        guard let held, held.generation == asked.generation else {
            // Signed out, or signed in anew, while the server was asked.
            if revokesLateTokens { revoke(credential) }
            return end(id, held.map { .success(Answer(held: $0)) } ?? .failure(.missingCredential))
        }
        tokensCameAt = moment.elapsed
        let new = hold(credential, isSaved: false, replacing: held.isSaved ? held.credential : held.replaces)
        if let lockedAt = jobs[id]?.lockedAt, moment.elapsed - lockedAt > Self.changeLockPatience - .seconds(1) {
            jobs[id]?.step = .checking(generation: new.generation)
            actions.append(.readStore(id))
        } else {
            save(id, new)
        }
    }

    private mutating func save(_ id: JobID, _ held: Held) {
        jobs[id]?.step = .saving(generation: held.generation)
        actions.append(.save(id, held.credential, verified: false))
    }

    /// Decides what becomes of tokens that the store does not have yet: they are saved if it still holds what they
    /// replace. A user who has signed out or in meanwhile has the later word.
    private mutating func reviewed(
        _ id: JobID, _ generation: Int, _ result: Result<Stored, CredentialStoreError>, savesWhatCanNotBeRead: Bool
    ) {
        guard let held, held.generation == generation else {
            return end(id, held.map { .success(Answer(held: $0)) } ?? .failure(.missingCredential))
        }
        let stored: Credential?
        switch result.map(credential) {
        case .failure where savesWhatCanNotBeRead: return save(id, held)
        case .failure(let error): return end(id, .failure(.store(error)))
        case .success(let value): stored = value
        }
        guard let stored else {
            phase = .absent
            publish(.signedOut)
            revoke(held.credential)
            return end(id, .failure(.missingCredential))
        }
        // A save that was given up may have been carried out all the same.
        if stored.hasSameTokens(as: held.credential) {
            markSaved(generation)
            return end(id, .success(Answer(held: self.held)))
        }
        if let replaced = held.replaces, stored.hasSameTokens(as: replaced) { return save(id, held) }
        revoke(held.credential)
        guard stored.info.isSameAccount(as: held.credential.info) else { return mismatch(id) }
        end(id, .success(Answer(held: hold(stored, isSaved: true))))
    }

    /// Gives up a credential that the server no longer takes, unless the store has a newer one by now: then another
    /// process was faster, and that one is used.
    private mutating func doubted(_ id: JobID, _ asked: Held, _ failure: CredentialFailure, _ stored: Credential?) {
        guard let held, held.generation == asked.generation else {
            return end(id, held.map { .success(Answer(held: $0)) } ?? .failure(.missingCredential))
        }
        if held.isSaved, let stored, stored.refreshToken != held.credential.refreshToken {
            guard stored.info.isSameAccount(as: held.credential.info) else { return mismatch(id) }
            return end(id, .success(Answer(held: hold(stored, isSaved: true))))
        }
        phase = .rejected(held.credential, failure)
        if case .rejected(let error, _) = failure { publish(.reauthenticationRequired(error)) }
        if stored != nil { delete(id, failure) } else { end(id, .failure(failure)) }
    }

    private mutating func mismatch(_ id: JobID) {
        let reason = "The stored sign-in now belongs to another account. Please sign in again to go on here."
        let failure = CredentialFailure.rejected(.reauthenticationRequired(reason), reason: reason)
        phase = .mismatched(failure)
        publish(.reauthenticationRequired(.reauthenticationRequired(reason)))
        end(id, .failure(failure))
    }

    private mutating func endRenewal(_ result: Result<Answer, CredentialFailure>) {
        renewalJob = nil
        let waiters = renewalWaiters
        let early = earlyWaiters
        renewalWaiters = []
        earlyWaiters = []
        if case .failure(let failure) = result, failure.mayPass {
            earlyRefreshPause = moment.elapsed + Self.earlyRefreshRetry
        }
        for waiter in waiters { actions.append(.answer(waiter, result)) }
        for (waiter, generation) in early {
            // Only while it is still the same token: a new one is not to be used before it has been saved.
            if case .failure(let failure) = result, failure.mayPass, let held, held.generation == generation {
                answer(waiter, held)
            } else {
                actions.append(.answer(waiter, result))
            }
        }
    }

    // MARK: Signing out

    private mutating func signedOut(revoking: Bool, _ waiter: Waiter) {
        var credentials = takeUnrevoked()
        if let held { credentials.append(held.credential) }
        revokesLateTokens = revoking
        pendingSignOut = PendingSignOut(
            tombstone: Tombstone(at: moment.now, revokes: revoking, credentials), credentials: credentials)
        phase = .absent
        snapshot.signOuts += 1
        snapshot.sequence += 1
        snapshot.status = .signedOut
        start(.signOut(waiter))
    }

    private mutating func readForSignOut(_ id: JobID, _ result: Result<Stored, CredentialStoreError>) {
        guard var pending = pendingSignOut else { return endSignOut(id, nil) }
        switch result {
        case .success(let stored):
            guard let credential = stored.credential else { break }
            let isOvertaken = pending.isTombstoneKept && stored.tombstone == nil
            if pending.isRepeated, isOvertaken || !pending.tombstone.means(credential) {
                // A later sign-in has the slot: there is nothing left to make up for.
                if needsJob == id { needsJob = start(.load) }
                return completeSignOut(id)
            }
            // It may be newer than what is known here: another process may have renewed it.
            pending.remember(credential)
            pendingSignOut = pending
        case .failure(.foreign): return completeSignOut(id)
        case .failure(.corrupt): break
        case .failure(let error): if pending.isRepeated { return endSignOut(id, error) }
        }
        delete(id)
    }

    private mutating func deletedForSignOut(_ id: JobID, _ error: CredentialStoreError?) {
        guard let error else { return completeSignOut(id) }
        guard var pending = pendingSignOut else { return endSignOut(id, error) }
        if !pending.isRepeated {
            let tombstone = pending.tombstone
            pending.tombstone = Tombstone(at: tombstone.at, revokes: tombstone.revokes, pending.credentials)
        }
        pending.isRepeated = true
        pendingSignOut = pending
        actions.append(.writeTombstone(pending.tombstone))
        endSignOut(id, error)
    }

    private mutating func completeSignOut(_ id: JobID) {
        let credentials = takeUnrevoked()
        pendingSignOut = nil
        actions.append(.removeTombstone)
        endSignOut(id, nil, revoking: credentials)
    }

    private mutating func takeUnrevoked() -> [Credential] {
        guard let pending = pendingSignOut else { return [] }
        pendingSignOut?.credentials = []
        return pending.tombstone.revokes ? pending.credentials : []
    }

    private mutating func endSignOut(_ id: JobID, _ error: CredentialStoreError?, revoking: [Credential]? = nil) {
        guard let job = jobs[id], case .signOut(let waiter) = job.kind else { return }
        let credentials = revoking ?? (waiter == nil ? [] : takeUnrevoked())
        if let waiter {
            if !credentials.isEmpty { revocations += 1 }
            actions.append(.answerSignOut(waiter, error, revoke: credentials))
        } else {
            for credential in credentials { revoke(credential) }
        }
        _ = remove(id)
        serveAll(from: id, .failure(.missingCredential))
    }

    // MARK: Signing in

    private func isOver(_ adoption: Adoption) -> Bool {
        adoption.isCancelled || adoption.signOuts != snapshot.signOuts
    }

    private mutating func readForSignIn(
        _ id: JobID, _ adoption: Adoption, _ stored: Result<Stored, CredentialStoreError>
    ) {
        if case .failure(let error) = stored, case .foreign = error { return fail(id, adoption, .store(error)) }
        if isOver(adoption) { return abandon(id) }
        var adoption = adoption
        adoption.previous = stored.map(\.credential)
        if case .success(let stored) = stored, let previous = stored.credential,
            let tombstone = pendingSignOut?.tombstone ?? stored.tombstone
        {
            adoption.sparesPrevious = !tombstone.revokes && tombstone.means(previous)
        }
        jobs[id]?.kind = .signIn(adoption)
        jobs[id]?.step = .saving(generation: 0)
        actions.append(.save(id, adoption.credential, verified: true))
    }

    /// Makes the credential the slot's own: it has been saved, read back and compared.
    private mutating func adopt(_ id: JobID, _ adoption: Adoption) {
        let new = adoption.credential
        var replaced = takeUnrevoked()
        pendingSignOut = nil
        if case .success(let stored)? = adoption.previous {
            if let stored, !adoption.sparesPrevious { replaced.append(stored) }
        } else if let held {
            replaced.append(held.credential)
        }
        for (index, credential) in replaced.enumerated() where credential.refreshToken != new.refreshToken {
            let isFirst = !replaced[..<index].contains { $0.refreshToken == credential.refreshToken }
            if isFirst { revoke(credential) }
        }
        if !adoption.isImport { tokensCameAt = moment.elapsed }
        let held = hold(new, isSaved: true)
        actions.append(.removeTombstone)
        answer(adoption.waiter, held)
        _ = remove(id)
    }

    /// Looks at the store before it is put back: another process may have written to it.
    private mutating func review(_ id: JobID, _ failure: CredentialFailure?) {
        jobs[id]?.step = .reviewing(failure)
        actions.append(.readStore(id))
    }

    /// Makes the store what it was before a save that has failed or was overtaken. What could not be read before, and what
    /// another process has stored since, is left alone.
    private mutating func putBack(
        _ id: JobID, _ adoption: Adoption, _ failure: CredentialFailure?,
        now: Result<Stored, CredentialStoreError>
    ) {
        jobs[id]?.step = .puttingBack(failure)
        if case .success(let now) = now, let found = now.credential, !found.hasSameTokens(as: adoption.credential) {
            // A sign-out that is still to be carried out judges it by itself.
            return fail(id, adoption, failure)
        }
        if pendingSignOut != nil { return actions.append(.delete(id)) }
        guard case .success(let previous)? = adoption.previous else { return fail(id, adoption, failure) }
        if let previous {
            actions.append(.save(id, previous, verified: false))
        } else {
            actions.append(.delete(id))
        }
    }

    private mutating func abandon(_ id: JobID) {
        guard let job = jobs[id], case .signIn(let adoption) = job.kind else { return }
        fail(id, adoption, nil)
    }

    /// - Parameter failure: `nil` when the sign-in was cancelled, or overtaken by a sign-out.
    private mutating func fail(_ id: JobID, _ adoption: Adoption, _ failure: CredentialFailure?) {
        if !adoption.isImport { revoke(adoption.credential) }
        refuse(adoption.waiter, failure ?? .cancelled)
        _ = remove(id)
    }
}
