@_spi(ChappieInternals) public import ChappieCore
import Dispatch
public import Logging
import Synchronization

/// Manages the credential of one slot: loads it, renews it, and authorizes requests with it.
///
/// Use one manager per slot and store in a process, shared by the session and every client of that slot. Two managers
/// would each try to use up the same single-use refresh token. The store's lock keeps other processes out.
/// `CredentialLifecycle` makes all decisions; the manager carries them out.
public final class CredentialManager: Sendable {
    /// The slot in which the credential is stored, for this issuer and backend alone.
    public let slot: CredentialSlot
    let endpoints: ChappieEndpoints
    let tokens: TokenClient
    let clock: any ChappieClock
    let browserSignIn: BrowserSignInPorts?
    let status = StatusSubject(CredentialSnapshot())
    /// The answer about the workspace of the account that has asked.
    let workspace = KnownWorkspace()
    private let origin: CredentialOrigin
    private let store: any SharedCredentialStore
    private let logger: Mutex<Logger?>
    private let state = Mutex(State())
    private let notes: NoteKeeper
    /// Of the backend's edge, until the next sign-out.
    let cookies: BackendCookies
    private let onRenewalRefused = Mutex<(@Sendable (String, Date?) -> Void)?>(nil)

    private struct State {
        var lifecycle = CredentialLifecycle()
        var lastWaiter = 0
        var waiting: [Int: (promise: Promise<CredentialLifecycle.Answer>, timer: Task<Void, Never>?)] = [:]
        var holds: [Int: CredentialLockHold] = [:]
        /// The manager itself, while it has the only copy of new tokens.
        var keeper: CredentialManager?
        /// The last pages of a browser that has come back.
        var farewell: Task<Void, Never>?
        /// The end of a sign-in that its user has approved.
        var exchange: Task<Void, Never>?
    }

    /// - Parameters:
    ///   - slot: The manager sets its ``CredentialSlot/issuer`` from `endpoints`.
    ///   - store: The keyring, an encrypted file or another ``SharedCredentialStore``; ``LocalCredentialStore`` makes one
    ///     of a plain store. Read at the first use, not here.
    ///   - transport: Carries the requests to the issuer.
    ///   - endpoints: The issuer and the backend of the credential. Default `.chatGPT`.
    ///   - clock: Decides when a token is due.
    ///   - logger: Gets the reason for each renewal at level `debug`, and the reason for a failure at `warning`; never
    ///     a token. Default none.
    ///   - browserSignIn: Needed by ``ChappieGrant/browser`` and ``ChappieGrant/continueWithChatGPT(appName:)``.
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
        cookies = BackendCookies(backend: endpoints.profile.backend)
        self.clock = clock
        self.browserSignIn = browserSignIn
        tokens = TokenClient(endpoints: endpoints, issuer: IssuerClient(transport: transport, clock: clock))
    }

    /// Whether the token endpoint has refused the refresh token of the credential in use.
    var isRenewalRefused: Bool { status.value.renewalRefusal != nil }

    /// Sets the function that is called when the token endpoint has refused the refresh token while the access token is
    /// still good: with the reason, as a sentence, and the end of the access token. It is called once for a sign-in.
    @_spi(ChappieInternals)
    public func onRenewalRefused(_ tell: @escaping @Sendable (String, Date?) -> Void) {
        onRenewalRefused.withLock { $0 = tell }
    }

    /// Replaces the logger of an existing manager.
    @_spi(ChappieInternals)
    public func log(to logger: Logger) { self.logger.withLock { $0 = logger } }

    // MARK: Requests

    /// One element at each sign-out, at each loss of the credential, and when another account replaces it. Connections
    /// that were authorized before should be closed then.
    @_spi(ChappieInternals)
    public var signOuts: AsyncStream<Void> {
        status.changes { earlier, now in now.isLoss(after: earlier) ? () : nil }
    }

    /// The account that is signed in, if any. Reads the store at the first call, never the network.
    ///
    /// - Throws: ``ChappieAuthError``: `credentialStoreUnavailable`, `reauthenticationRequired`; `CancellationError`.
    ///   An empty slot is not an error.
    public func accountInfo() async throws -> ChappieAccountInfo? {
        do {
            return try await accessToken(.account).account
        } catch ChappieAuthError.missingCredential {
            return nil
        }
    }

    /// The present token for requests.
    ///
    /// - Throws: ``ChappieAuthError``; `CancellationError`.
    func accessToken(_ need: CredentialLifecycle.Need) async throws -> AccessToken {
        do {
            return try await ask(need)
        } catch let error as ChappieAuthError {
            throw error.ofRequest
        }
    }

    /// The same for the session, which shows the token endpoint's own error.
    ///
    /// - Throws: ``ChappieAuthError``; `CancellationError`: a cancelled caller stops waiting, and the work continues.
    @discardableResult
    func ask(_ need: CredentialLifecycle.Need) async throws -> AccessToken {
        await lookForChanges()
        let answer = try await answer { .asked(need, $0) }
        guard case .credential(let held, let isNew) = answer else { throw ChappieAuthError.missingCredential }
        return AccessToken(credential: held.credential, generation: held.generation, isNew: isNew)
    }

    /// Notices a sign-out, a sign-in or a renewal by another process, which has left a mark.
    private func lookForChanges() async {
        switch status.value.status {
        case .unknown, .signedOut, .unavailable: return  // The store is read anyway.
        case .signedIn, .reauthenticationRequired: break
        }
        if await notes.showAChange() { report(.storeMayHaveChanged) }
    }

    /// The shortest time between two renewals after a change of plan.
    private static let planRenewalPause: TimeInterval = 3600

    /// Renews the tokens, which name another plan than the service does: they name the old one for days.
    ///
    /// It does so at most once an hour. The time of the last renewal counts, also if another process made it. A renewal
    /// that fails leaves the sign-in to its present tokens.
    ///
    /// - Returns: whether the tokens are new.
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

    /// The backend accepted the token, or refused it although it was fresh.
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

    /// The grant with a browser, for an app of this name.
    ///
    /// - Throws: ``ChappieAuthError/unknown(_:)`` if the program was put together without its parts.
    func browserAuthorization(as appName: String) async throws(ChappieAuthError) -> BrowserAuthorization {
        guard let ports = browserSignIn, let registrations = ports.registrations,
            let openID = endpoints.profile.openID
        else {
            throw .unknown("This program has no sign-in by browser: its composition or its endpoints lack it.")
        }
        return BrowserAuthorization(
            appName: appName, openID: openID, ports: ports, registrations: registrations, slot: slot, tokens: tokens,
            earlier: await retainedCredential(),
            leave: { [weak self] task in self?.state.withLock { $0.farewell = task } })
    }

    /// The browser sign-in of the device code's client.
    ///
    /// - Throws: ``ChappieAuthError/unknown(_:)`` if the program was put together without its parts.
    func clientAuthorization() throws(ChappieAuthError) -> ClientAuthorization {
        guard let ports = browserSignIn, endpoints.profile.openID == nil else {
            throw .unknown("This program has no sign-in by browser: its composition or its endpoints lack it.")
        }
        return ClientAuthorization(
            endpoints: endpoints, ports: ports, clock: clock,
            leave: { [weak self] task in self?.state.withLock { $0.farewell = task } })
    }

    /// Lets ``settle(within:)`` wait for the end of a sign-in that its user has approved.
    func settleAfter(_ exchange: Task<Void, Never>) { state.withLock { $0.exchange = exchange } }

    /// The credential of an earlier sign-in, even if the server does not accept it any more; `nil` after a sign-out,
    /// or if the store can't be read.
    func retainedCredential() async -> Credential? {
        _ = try? await ask(.account)
        return state.withLock { $0.lifecycle.retained }
    }

    /// Takes a newly granted credential into use after it has been saved, read back and compared. If a step fails, the
    /// earlier credential stays. It is not revoked in any case.
    ///
    /// - Parameter after: The number of sign-outs when the sign-in began; a later sign-out wins. `nil` for an import.
    /// - Throws: ``ChappieAuthError``; `CancellationError` if the task was cancelled.
    func adopt(_ credential: Credential, after signOuts: Int?) async throws {
        let (waiter, promise) = newWaiter()
        report(.signInCompleted(credential, after: signOuts, waiter))
        _ = try await withTaskCancellationHandler {
            try await promise.value()
        } onCancel: {
            report(.signInCancelled(waiter))
        }
    }

    /// Deletes the slot's credential: at once in this process, then in the store, then at the server (best effort, 10 s
    /// at most). Sessions of this manager become `signedOut`. Works also if the stored credential can't be read; the
    /// server then revokes the credential that this process knows, if any.
    ///
    /// - Throws: ``CredentialStoreError`` if the stored credential could not be deleted. It then counts as deleted
    ///   until it can be. An empty slot is not an error, nor is a server that can't be reached.
    public func signOut() async throws(CredentialStoreError) { try await signOut(revoking: true) }

    private func signOut(revoking: Bool) async throws(CredentialStoreError) {
        do {
            try await beginSignOut(revoking: revoking).finish()
        } catch ChappieAuthError.credentialStoreUnavailable(let error) {
            throw error
        } catch {}
    }

    /// Signs out at once, for every thread. The store and the server follow in the background.
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

        /// - Throws: ``ChappieAuthError``: `credentialStoreUnavailable` if the credential could not be deleted (the server
        ///   is asked to revoke it anyway), another one if only the server failed.
        func finish() async throws {
            // The store's part can't be cancelled, because the caller may report "signed out" next.
            _ = await uncancelled { [stored] in try? await stored.value() }
            try await revoked.value()
        }

        /// Blocks the calling thread until the credential is deleted from the store, `limit` at most. After that it is
        /// marked as deleted, so that the sign-out outlives a process that ends now.
        func waitUntilGone(within limit: Duration) {
            let isGone = blocking(within: limit) { [stored] in _ = try? await stored.value() }
            guard !isGone else { return }
            manager.report(.signOutOutlasted)
            _ = blocking(within: limit) { [manager] in await manager.notes.finish(within: limit) }
        }
    }

    // MARK: Moving a credential

    /// The slot's credential as a document, for ``importCredential(_:)`` on another machine. It is renewed first if it
    /// is due.
    ///
    /// The copy and the original can't both be used: a refresh token works once, and the service ends the whole sign-in
    /// when it is used a second time. The caller must warn the user, keep the document secret, and stop using the
    /// original.
    ///
    /// - Throws: ``ChappieAuthError``; `CancellationError`.
    @_spi(ChappieInternals) public func exportCredential() async throws -> Secret {
        try await accessToken(.export).credential.serialized()
    }

    /// Deletes the slot's credential in this process and in the store, and does not revoke it at the server: for the
    /// original after an export.
    ///
    /// - Throws: ``CredentialStoreError``; the credential is then still stored, and counts as deleted until it can be.
    public func forgetWithoutRevoking() async throws(CredentialStoreError) { try await signOut(revoking: false) }

    /// Takes an exported credential into use after it has been saved, read back and compared. An earlier credential is
    /// replaced. If a step fails, it stays. Neither is revoked.
    ///
    /// - Returns: The account of the credential.
    /// - Throws: ``CredentialStoreError``: `.corrupt` if `document` is not from `chappie auth export`, `.foreign` if
    ///   it is for another issuer or backend.
    public func importCredential(_ document: Secret) async throws(CredentialStoreError) -> ChappieAccountInfo {
        let credential = try Credential(serialized: document, for: origin).imported(at: clock.now)
        // The store may ask the user: not while other processes wait for the lock.
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
            // Best effort: as long as the credential is stored, the next sign-in finds the client id in it.
            let registration = ChappieClientRegistration(
                clientID: clientID, subject: credential.info.userID, email: credential.info.email, appName: appName)
            try? await registrations.save(registration, for: slot)
        }
        return credential.info
    }

    /// Waits until no refresh, change of the store or revocation is in progress, for `limit` at most (the time that a
    /// token endpoint and a store may take; it almost always returns at once), and until a browser that has come back
    /// has its last page, for 1.5 s at most. Call it before a process ends: a refresh whose answer is not stored has used
    /// up the refresh token for nothing. A renewal that still waits for another process is given up.
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
            // Set under the lock, so that watchers see the changes in the right order.
            status.set(state.lifecycle.snapshot)
            state.keeper = state.lifecycle.hasUnsavedTokens ? self : nil
            for case .keepTombstone(let tombstone) in actions { notes.tombstoneChanged(to: tombstone) }
            return actions
        }
        let changesNote = actions.contains { if case .keepTombstone = $0 { true } else { false } }
        guard changesNote else { return actions.forEach(perform) }
        // The callers learn of a sign-out once its note is durable, or can't be.
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

    /// The store, the lock and the server are called in separate tasks: the work must not stop half-way because the
    /// request that needed it was cancelled.
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

    /// - Returns: The failure. If the store can't be read back at that moment (the screen has just been locked), it has
    ///   accepted the credential, and this is not a failure.
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
    /// Whether the token has just come from the server.
    let isNew: Bool

    var account: ChappieAccountInfo { credential.info }
}

/// Blocks the calling thread until `work` has ended, `limit` at most. Returns whether it has ended.
///
/// The work runs on the global executor's threads and needs no thread of the caller's, so the two can't wait for each
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
