@_spi(ChappieInternals) public import ChappieCore
import Dispatch
public import Logging
import Synchronization

/// A manager of one slot's credential, which loads it, renews it, and authorizes requests with it.
///
/// Use one manager per slot and store in a process, shared by the session and every client of that slot. Two managers
/// would each try to use up the same single-use refresh token. The store's lock keeps other processes out.
/// `CredentialLifecycle` makes all decisions. The manager carries them out.
public final class CredentialManager: Sendable {
    /// The slot in which the credential is stored, only for this issuer and backend.
    public let slot: CredentialSlot
    let endpoints: ChappieEndpoints
    let tokens: TokenClient
    let clock: any ChappieClock
    let browserSignIn: BrowserSignInPorts?
    let status = StatusSubject(CredentialSnapshot())
    /// The service's answer about the workspace of the account.
    let workspace = KnownWorkspace()
    private let origin: CredentialOrigin
    private let store: any SharedCredentialStore
    private let logger: Mutex<Logger?>
    private let state = Mutex(State())
    private let notes: NoteKeeper
    /// The cookies of the backend's edge, kept until the next sign-out.
    let cookies: BackendCookies
    private let onRenewalRefused = Mutex<(@Sendable (String, Date?) -> Void)?>(nil)

    private struct State {
        var lifecycle = CredentialLifecycle()
        var lastWaiter = 0
        var waiting: [Int: (promise: Promise<CredentialLifecycle.Answer>, timer: Task<Void, Never>?)] = [:]
        var holds: [Int: CredentialLockHold] = [:]
        /// The manager itself, while it has the only copy of new tokens.
        var keeper: CredentialManager?
        /// The task that delivers the last pages to a browser that has returned.
        var farewell: Task<Void, Never>?
        /// The task that completes a sign-in that the user has approved.
        var exchange: Task<Void, Never>?
    }

    /// - Parameters:
    ///   - slot: The slot of the credential. The manager sets its ``CredentialSlot/issuer`` from `endpoints`.
    ///   - store: The keyring, an encrypted file or another ``SharedCredentialStore``. ``LocalCredentialStore`` makes
    ///     one from a plain store. It is read at the first use, not here.
    ///   - transport: Carries the requests to the issuer.
    ///   - endpoints: The issuer and the backend of the credential. Default `.chatGPT`.
    ///   - clock: The clock that decides when a token is due.
    ///   - logger: Receives the reason for each renewal at level `debug` and the reason for a failure at `warning`, but
    ///     never a token. Default none.
    ///   - browserSignIn: The parts for ``ChappieGrant/browser`` and ``ChappieGrant/continueWithChatGPT(appName:)``,
    ///     which require it.
    public init(
        slot: CredentialSlot, store: any SharedCredentialStore, transport: any HTTPTransport,
        endpoints: ChappieEndpoints = .chatGPT, clock: any ChappieClock = SystemClock(),
        logger: Logger? = nil, browserSignIn: BrowserSignInPorts? = nil
    ) {
        origin = CredentialOrigin(endpoints)
        self.slot = CredentialSlot(
            service: slot.service, account: slot.account, accessGroup: slot.accessGroup,
            issuer: endpoints.credentialIssuer)
        self.store = store
        notes = NoteKeeper(of: self.slot, in: store.notes, clock: clock)
        self.logger = Mutex(logger)
        self.endpoints = endpoints
        cookies = BackendCookies(backend: endpoints.backend)
        self.clock = clock
        self.browserSignIn = browserSignIn
        tokens = TokenClient(endpoints: endpoints, issuer: IssuerClient(transport: transport, clock: clock))
    }

    /// Whether the token endpoint has refused the refresh token of the credential in use.
    var isRenewalRefused: Bool { status.value.renewalRefusal != nil }

    /// Sets the function that is called when the token endpoint has refused the refresh token while the access token is
    /// still valid. Its arguments are the reason, as a sentence, and the time when the access token expires. It is
    /// called once for a sign-in.
    @_spi(ChappieInternals)
    public func onRenewalRefused(_ tell: @escaping @Sendable (String, Date?) -> Void) {
        onRenewalRefused.withLock { $0 = tell }
    }

    /// Replaces the logger of an existing manager.
    @_spi(ChappieInternals)
    public func log(to logger: Logger) { self.logger.withLock { $0 = logger } }

    // MARK: Requests

    /// A stream with one element for each sign-out, for each loss of the credential, and for each replacement by
    /// another account. Connections that were authorized before should then be closed.
    @_spi(ChappieInternals)
    public var signOuts: AsyncStream<Void> {
        status.changes { earlier, now in now.isLoss(after: earlier) ? () : nil }
    }

    /// Returns the account that is signed in, if any. It reads the store at the first call, and never uses the network.
    ///
    /// - Throws: ``ChappieAuthError``: `credentialStoreUnavailable` or `reauthenticationRequired`, and
    ///   `CancellationError`. An empty slot is not an error.
    public func accountInfo() async throws -> ChappieAccountInfo? {
        do {
            return try await accessToken(.account).account
        } catch ChappieAuthError.missingCredential {
            return nil
        }
    }

    /// Returns the current token for requests.
    ///
    /// - Throws: ``ChappieAuthError``, and `CancellationError`.
    func accessToken(_ need: CredentialLifecycle.Need) async throws -> AccessToken {
        do {
            return try await ask(need)
        } catch let error as ChappieAuthError {
            throw error.ofRequest
        }
    }

    /// Returns the current token for the session, which shows the token endpoint's own error.
    ///
    /// - Throws: ``ChappieAuthError``, and `CancellationError`. A cancelled caller stops waiting, and the work
    ///   continues.
    @discardableResult
    func ask(_ need: CredentialLifecycle.Need) async throws -> AccessToken {
        await lookForChanges()
        let answer = try await answer { .asked(need, $0) }
        guard case .credential(let held, let isNew) = answer else { throw ChappieAuthError.missingCredential }
        return AccessToken(credential: held.credential, generation: held.generation, isNew: isNew)
    }

    /// Checks for a sign-out, a sign-in or a renewal by another process, which has left a mark.
    private func lookForChanges() async {
        switch status.value.status {
        case .unknown, .signedOut, .unavailable: return  // The store is read anyway.
        case .signedIn, .reauthenticationRequired: break
        }
        if await notes.showAChange() { report(.storeMayHaveChanged) }
    }

    /// The shortest time between two renewals after a change of plan.
    private static let planRenewalPause: TimeInterval = 3600

    /// Renews tokens that name another plan than the service does. Without a renewal, they name the old plan for days.
    ///
    /// It does so at most once an hour. The time of the last renewal counts, even if another process made it. If a
    /// renewal fails, the sign-in keeps its current tokens.
    ///
    /// - Returns: Whether the tokens are new.
    /// - Throws: `CancellationError`.
    @_spi(ChappieInternals) public func renewAfterPlanChange() async throws -> Bool {
        do {
            let access = try await ask(.account)
            let (renewed, began) = (access.credential.lastRefresh, access.credential.beganAt)
            let isRecent = renewed.map { abs(clock.now.timeIntervalSince($0)) < Self.planRenewalPause } ?? false
            guard access.credential.refreshToken != nil, !isRecent || renewed == began else { return false }
            return try await ask(.refresh).generation != access.generation
        } catch is CancellationError {
            throw CancellationError()
        } catch {
            return false
        }
    }

    /// Reports that the backend accepted the token, or refused it although it was fresh.
    func backendAnswered(_ token: AccessToken, refusal: String?) {
        report(.backendAnswered(generation: token.generation, refusal: refusal))
    }

    // MARK: Signing in and out

    /// Asks the store whether it can save a credential, before the user has to do anything.
    func prepareToSave() async throws(ChappieAuthError) {
        do {
            try await store.prepareToSave(in: slot)
        } catch {
            throw .credentialStoreUnavailable(error)
        }
        // A credential of another service would not be replaced at the end either.
        if case .unavailable(.foreign(let detail)) = status.value.status {
            throw .credentialStoreUnavailable(.foreign(detail))
        }
    }

    /// Returns the grant with a browser, for an app with this name.
    ///
    /// - Throws: ``ChappieAuthError/unknown(_:)`` if the program was composed without the required parts.
    func browserAuthorization(as appName: String) async throws(ChappieAuthError) -> BrowserAuthorization {
        guard let ports = browserSignIn, let registrations = ports.registrations, endpoints.usesPlan else {
            throw .unknown("This program has no sign-in by browser: its composition or its endpoints lack it.")
        }
        return BrowserAuthorization(
            appName: appName, ports: ports, registrations: registrations, slot: slot, tokens: tokens,
            earlier: await retainedCredential(),
            leave: { [weak self] task in self?.state.withLock { $0.farewell = task } })
    }

    /// Returns the browser sign-in for the client that also has the device code.
    ///
    /// - Throws: ``ChappieAuthError/unknown(_:)`` if the program was composed without the required parts.
    func clientAuthorization() throws(ChappieAuthError) -> ClientAuthorization {
        guard let ports = browserSignIn, !endpoints.usesPlan else {
            throw .unknown("This program has no sign-in by browser: its composition or its endpoints lack it.")
        }
        return ClientAuthorization(
            endpoints: endpoints, ports: ports, clock: clock,
            leave: { [weak self] task in self?.state.withLock { $0.farewell = task } })
    }

    /// Lets ``settle(within:)`` wait for the end of a sign-in that the user has approved.
    func settleAfter(_ exchange: Task<Void, Never>) { state.withLock { $0.exchange = exchange } }

    /// Returns the credential of an earlier sign-in, even if the server does not accept it any more. Returns `nil`
    /// after a sign-out, or if the store can't be read.
    func retainedCredential() async -> Credential? {
        _ = try? await ask(.account)
        return state.withLock { $0.lifecycle.retained }
    }

    /// Saves a newly granted credential, reads it back, compares it, and then starts to use it. If a step fails, the
    /// earlier credential stays. The earlier credential is never revoked.
    ///
    /// - Parameter after: The number of sign-outs when the sign-in began, because a later sign-out wins. It is `nil`
    ///   for an import.
    /// - Throws: ``ChappieAuthError``, and `CancellationError` if the task was cancelled.
    func adopt(_ credential: Credential, after signOuts: Int?) async throws {
        let (waiter, promise) = newWaiter()
        report(.signInCompleted(credential, after: signOuts, waiter))
        _ = try await withTaskCancellationHandler {
            try await promise.value()
        } onCancel: {
            report(.signInCancelled(waiter))
        }
    }

    /// Deletes the slot's credential: immediately in this process, then in the store, then at the server (best effort,
    /// at most 10 s). Sessions of this manager become `signedOut`. This also works if the stored credential can't be
    /// read. The server then revokes the credential that this process knows, if any.
    ///
    /// - Throws: ``CredentialStoreError`` if the stored credential could not be deleted. It then counts as deleted
    ///   until it can be deleted. An empty slot and a server that can't be reached are not errors.
    public func signOut() async throws(CredentialStoreError) { try await signOut(revoking: true) }

    private func signOut(revoking: Bool) async throws(CredentialStoreError) {
        do {
            try await beginSignOut(revoking: revoking).finish()
        } catch ChappieAuthError.credentialStoreUnavailable(let error) {
            throw error
        } catch {}
    }

    /// Signs out immediately, for every thread. The store and the server follow in the background.
    func beginSignOut(revoking: Bool = true) -> SignOut {
        let (waiter, stored) = newWaiter()
        let revoked = Promise<Void>()
        report(.signedOut(revoking: revoking, waiter))
        let snapshot = status.value
        Task.detached { [self] in
            guard case .signedOut(let error, let credentials) = try? await stored.value() else { return }
            var failure: (any Error)? = error.map(ChappieAuthError.credentialStoreUnavailable)
            for credential in credentials {
                do {
                    try await tokens.revoke(credential)
                } catch {
                    failure = failure ?? error
                }
            }
            if !credentials.isEmpty { report(.revocationEnded) }
            revoked.fulfil(failure.map { .failure($0) } ?? .success(()))
        }
        return SignOut(snapshot: snapshot, manager: self, stored: stored, revoked: revoked)
    }

    /// A sign-out in progress.
    struct SignOut: Sendable {
        let snapshot: CredentialSnapshot
        fileprivate let manager: CredentialManager
        fileprivate let stored: Promise<CredentialLifecycle.Answer>
        fileprivate let revoked: Promise<Void>

        /// Waits until the store and the server have finished.
        ///
        /// - Throws: ``ChappieAuthError``: `credentialStoreUnavailable` if the credential could not be deleted (the
        ///   server is asked to revoke it anyway), or another error if only the server failed.
        func finish() async throws {
            // The store's part can't be cancelled, because the caller may then report "signed out".
            _ = await uncancelled { [stored] in try? await stored.value() }
            try await revoked.value()
        }

        /// Blocks the calling thread until the credential is deleted from the store, for at most `limit`. After that
        /// the credential is marked as deleted, so that the sign-out outlives a process that ends now.
        func waitUntilGone(within limit: Duration) {
            let isGone = blocking(within: limit) { [stored] in _ = try? await stored.value() }
            guard !isGone else { return }
            manager.report(.signOutOutlasted)
            _ = blocking(within: limit) { [manager] in await manager.notes.finish(within: limit) }
        }
    }

    // MARK: Moving a credential

    /// Returns the slot's credential as a document, for ``importCredential(_:)`` on another machine. If the credential
    /// is due, it is first renewed.
    ///
    /// The copy and the original can't both be used. A refresh token works once, and the service ends the entire
    /// sign-in when it is used a second time. The caller must warn the user, keep the document secret, and stop using
    /// the original.
    ///
    /// - Throws: ``ChappieAuthError``, and `CancellationError`.
    @_spi(ChappieInternals) public func exportCredential() async throws -> Secret {
        try await accessToken(.export).credential.serialized()
    }

    /// Deletes the slot's credential in this process and in the store, and does not revoke it at the server. This is
    /// for the original after an export.
    ///
    /// - Throws: ``CredentialStoreError``. The credential is then still stored, and counts as deleted until it can be
    ///   deleted.
    public func forgetWithoutRevoking() async throws(CredentialStoreError) { try await signOut(revoking: false) }

    /// Saves an exported credential, reads it back, compares it, and then starts to use it. It replaces an earlier
    /// credential. If a step fails, the earlier credential stays. Neither credential is revoked.
    ///
    /// - Returns: The account of the credential.
    /// - Throws: ``CredentialStoreError``: `.corrupt` if `document` is not from `chappie auth export`, or `.foreign` if
    ///   it is for another issuer or backend.
    public func importCredential(_ document: Secret) async throws(CredentialStoreError) -> ChappieAccountInfo {
        let credential = try Credential(serialized: document, for: origin).imported(at: clock.now)
        // The store may ask the user, which must not happen while other processes wait for the lock.
        try await store.prepareToSave(in: slot)
        let work = Task { try await adopt(credential, after: nil) }
        do {
            try await work.value
        } catch ChappieAuthError.credentialStoreUnavailable(let error) {
            throw error
        } catch {
            throw .failed("the import did not succeed")
        }
        if let registrations = browserSignIn?.registrations, let clientID = credential.issuedClientID,
            case .continueWithChatGPT(let appName) = endpoints.grant
        {
            // This is best effort. As long as the credential is stored, the next sign-in finds the client id in it.
            let registration = ChappieClientRegistration(
                clientID: clientID, subject: credential.info.userID, email: credential.info.email, appName: appName)
            try? await registrations.save(registration, for: slot)
        }
        return credential.info
    }

    /// Waits until no refresh, change of the store or revocation is in progress, for at most `limit`, which is the time
    /// that a token endpoint and a store may take. It also waits until a browser that has returned has its last page,
    /// for at most 1.5 s. It almost always returns immediately. Call it before a process ends, because a refresh whose
    /// answer is not stored has used up the refresh token for nothing. A renewal that still waits for another process
    /// is given up.
    public func settle(within limit: Duration = .seconds(75)) async {
        if let exchange = state.withLock(\.exchange) {
            _ = try? await withDeadline(limit, clock: clock, late: CancellationError()) { await exchange.value }
        }
        await state.withLock(\.farewell)?.value
        let (waiter, promise) = newWaiter()
        report(.settlingAsked(waiter))
        guard !promise.isFulfilled else { return }
        _ = try? await withDeadline(limit, clock: clock, late: CancellationError()) { try await promise.value() }
    }

    // MARK: Carrying out

    private func newWaiter() -> (Int, Promise<CredentialLifecycle.Answer>) {
        let promise = Promise<CredentialLifecycle.Answer>()
        return state.withLock { state in
            state.lastWaiter += 1
            state.waiting[state.lastWaiter] = (promise, nil)
            return (state.lastWaiter, promise)
        }
    }

    private func answer(to input: (Int) -> CredentialLifecycle.Input) async throws -> CredentialLifecycle.Answer {
        let (waiter, promise) = newWaiter()
        report(input(waiter))
        return try await promise.value()
    }

    private func report(_ input: CredentialLifecycle.Input) {
        let moment = CredentialLifecycle.Timestamp(now: clock.now, elapsed: clock.elapsed)
        let actions = state.withLock { state in
            let actions = state.lifecycle.handle(input, at: moment)
            // The status is set under the lock, so that watchers see the changes in the right order.
            status.set(state.lifecycle.snapshot)
            state.keeper = state.lifecycle.hasUnsavedTokens ? self : nil
            for case .keepTombstone(let tombstone) in actions { notes.tombstoneChanged(to: tombstone) }
            return actions
        }
        let changesNote = actions.contains { if case .keepTombstone = $0 { true } else { false } }
        guard changesNote else { return actions.forEach(perform) }
        // The callers learn of a sign-out once its note is durable or could not be stored.
        notes.carryOut { [self] in actions.forEach(perform) }
    }

    private func perform(_ action: CredentialLifecycle.Action) {
        switch action {
        case .answer(let waiter, let result):
            let waiting = state.withLock { $0.waiting.removeValue(forKey: waiter) }
            waiting?.timer?.cancel()
            waiting?.promise.fulfil(result.mapError { $0 })
        case .startPatience(let waiter, let limit):
            state.withLock { state in
                state.waiting[waiter]?.timer = Task.detached { [clock, weak self] in
                    do {
                        try await clock.sleep(for: limit)
                    } catch {
                        return
                    }
                    self?.report(.patienceEnded(waiter))
                }
            }
        case .keepTombstone: break
        case .renewalWasRefused(let rest):
            let reason = rest.refusal?.reason ?? ""
            onRenewalRefused.withLock(\.self)?(reason, rest.expiresAt)
        case .releaseLock(let job): _ = state.withLock { $0.holds.removeValue(forKey: job) }
        case .acquireLock(let job, let limit):
            start { [self] in
                let failure = await storeFailure { () throws(CredentialStoreError) in
                    let hold = try await store.lock.acquire(slot, within: limit)
                    state.withLock { $0.holds[job] = hold }
                }
                return .lockAnswered(job, failure)
            }
        case .readStore(let isDeleted): start { [self] in await read(isDeleted: isDeleted) }
        case .prepareToSave:
            let logger = logger.withLock { $0 }
            start { [self] in
                let error = await storeFailure { () throws(CredentialStoreError) in
                    try await store.prepareToSave(in: slot)
                }
                if error != nil {
                    logger?.warning("The tokens were not renewed", metadata: ["reason": "the store can't save"])
                }
                return .storePrepared(error)
            }
        case .save(let credential, let isVerified):
            start { [self] in
                let error = await save(credential, verified: isVerified)
                await notes.announceChange()
                return .storeChanged(error)
            }
        case .delete:
            start { [self] in
                let error = await storeFailure { () throws(CredentialStoreError) in try await store.delete(slot) }
                await notes.announceChange()
                return .storeChanged(error)
            }
        case .refresh(let job, let refreshToken, let client, let reason):
            let logger = logger.withLock { $0 }
            logger?.debug("Renewing the tokens", metadata: ["reason": "\(reason.rawValue)"])
            start { [self] in
                do throws(ChappieAuthError) {
                    return .tokensRefreshed(job, .success(try await tokens.refresh(refreshToken, of: client)))
                } catch {
                    logger?.warning("The tokens were not renewed", metadata: ["reason": "\(error.logWords)"])
                    return .tokensRefreshed(job, .failure(error))
                }
            }
        case .revoke(let credential):
            start { [self] in
                try? await tokens.revoke(credential)
                return .revocationEnded
            }
        }
    }

    /// Runs `work` in a separate task and reports its result. The work must not stop half-way because the request that
    /// needed it was cancelled.
    private func start(_ work: @escaping @Sendable () async -> CredentialLifecycle.Input) {
        Task.detached { [self] in report(await work()) }
    }

    private func storeFailure(
        of work: () async throws(CredentialStoreError) -> Void
    ) async -> CredentialStoreError? {
        do {
            try await work()
            return nil
        } catch {
            return error
        }
    }

    private func read(isDeleted: Bool) async -> CredentialLifecycle.Input {
        let noted: (mark: [UInt8]?, tombstone: Tombstone?)
        do throws(CredentialStoreError) {
            noted = try await notes.read()
        } catch {
            return .storeRead(.failure(error))
        }
        do throws(CredentialStoreError) {
            let document = try await isDeleted ? store.loadForDeletion(slot) : store.load(slot)
            let credential = try document.map { document throws(CredentialStoreError) in
                try Credential(serialized: document, for: origin)
            }
            notes.storeWasRead(after: noted.mark)
            return .storeRead(.success(.init(credential: credential, tombstone: noted.tombstone)))
        } catch {
            return .storeRead(.failure(error), tombstone: noted.tombstone)
        }
    }

    /// Saves `credential` and, if `verified`, reads it back.
    ///
    /// - Returns: The failure, if any. If the credential can't be read back at that moment, for example because the
    ///   screen has just been locked, the store has accepted it, and this is not a failure.
    private func save(_ credential: Credential, verified: Bool) async -> CredentialStoreError? {
        let document = credential.serialized()
        do {
            try await store.save(document, in: slot)
        } catch {
            return error
        }
        guard verified else { return nil }
        do {
            return try await store.load(slot) == document ? nil : .notVerified
        } catch {
            return nil
        }
    }
}

/// A token with which requests may be sent.
struct AccessToken: Sendable {
    let credential: Credential
    let generation: Int
    /// Whether the token has just arrived from the server.
    let isNew: Bool

    var account: ChappieAccountInfo { credential.info }
}

/// Blocks the calling thread until `work` has ended, for at most `limit`. Returns whether it has ended.
///
/// The work runs on the global executor's threads and doesn't need the caller's thread, so the two can't wait for each
/// other.
func blocking(within limit: Duration, _ work: @escaping @Sendable () async -> Void) -> Bool {
    let done = DispatchSemaphore(value: 0)
    Task.detached(priority: .userInitiated) {
        await work()
        done.signal()
    }
    let milliseconds = min(max(limit.inSeconds * 1000, 0), 3_600_000)
    return done.wait(timeout: .now() + .milliseconds(Int(milliseconds))) == .success
}
