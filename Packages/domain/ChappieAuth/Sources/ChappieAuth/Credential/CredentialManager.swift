@_spi(ChappieInternals) public import ChappieCore
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
    /// The addresses of the service.
    @_spi(ChappieInternals) public let endpoints: ChappieEndpoints
    let tokens: TokenClient
    let clock: any ChappieClock
    let browserSignIn: BrowserSignInPorts?
    /// The system's time for work in the background, which the clients of this credential also ask for.
    @_spi(ChappieInternals) public let backgroundTime: any BackgroundTime
    let observer: (any ChappieObserver)?
    let status = StatusSubject(CredentialSnapshot())
    /// The service's answer about the workspace of the account.
    let workspace = KnownWorkspace()
    let stored: SlotStore
    private let logger: Mutex<Logger?>
    private let state = Mutex(State())
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
        /// The background time for a change that is in progress.
        var background: BackgroundHold?
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
    ///   - backgroundTime: Is asked for time during a sign-in, a renewal of tokens and a turn. Default: a system that
    ///     suspends no program.
    ///   - observer: Follows renewals, locks, sign-ins and sign-outs, for metrics and traces. Default none.
    public init(
        slot: CredentialSlot, store: any SharedCredentialStore, transport: any HTTPTransport,
        endpoints: ChappieEndpoints = .chatGPT, clock: any ChappieClock = SystemClock(),
        logger: Logger? = nil, browserSignIn: BrowserSignInPorts? = nil,
        backgroundTime: any BackgroundTime = UnlimitedBackgroundTime(), observer: (any ChappieObserver)? = nil
    ) {
        self.observer = observer
        self.slot = CredentialSlot(
            service: slot.service, account: slot.account, accessGroup: slot.accessGroup,
            issuer: endpoints.credentialIssuer)
        stored = SlotStore(
            slot: self.slot, store: store, origin: CredentialOrigin(endpoints),
            notes: NoteKeeper(of: self.slot, in: store.notes, clock: clock))
        self.logger = Mutex(logger)
        self.endpoints = endpoints
        cookies = BackendCookies(backend: endpoints.backend)
        self.clock = clock
        self.browserSignIn = browserSignIn
        self.backgroundTime = backgroundTime
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
        if await stored.notes.showAChange() { report(.storeMayHaveChanged) }
    }

    /// Reports that the backend accepted the token, or refused it although it was fresh.
    func backendAnswered(_ token: AccessToken, refusal: String?) {
        report(.backendAnswered(generation: token.generation, refusal: refusal))
    }

    // MARK: Signing in

    /// Asks the store whether it can save a credential, before the user has to do anything.
    func prepareToSave() async throws(ChappieAuthError) {
        if let error = await stored.prepareToSave() { throw .credentialStoreUnavailable(error) }
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

    // MARK: Ending

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

    func newWaiter() -> (Int, Promise<CredentialLifecycle.Answer>) {
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

    func report(_ input: CredentialLifecycle.Input) {
        let moment = CredentialLifecycle.Timestamp(now: clock.now, elapsed: clock.elapsed)
        let actions = state.withLock { state in
            let actions = state.lifecycle.handle(input, at: moment)
            // The status is set under the lock, so that watchers see the changes in the right order.
            status.set(state.lifecycle.snapshot)
            state.keeper = state.lifecycle.hasUnsavedTokens ? self : nil
            if !state.lifecycle.isBusy {
                state.background = nil
            } else if state.background == nil {
                state.background = backgroundTime.hold("storing a sign-in")
            }
            for case .keepTombstone(let tombstone) in actions { stored.notes.tombstoneChanged(to: tombstone) }
            return actions
        }
        let changesNote = actions.contains { if case .keepTombstone = $0 { true } else { false } }
        guard changesNote else { return actions.forEach(perform) }
        // The callers learn of a sign-out once its note is durable or could not be stored.
        stored.notes.carryOut { [self] in actions.forEach(perform) }
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
        case .renewalWasTakenOver(let reason): observer?.happened(.renewalTakenOver(reason.observed))
        case .renewalWasRefused(let rest):
            let reason = rest.refusal?.reason ?? ""
            onRenewalRefused.withLock(\.self)?(reason, rest.expiresAt)
        case .releaseLock(let job): _ = state.withLock { $0.holds.removeValue(forKey: job) }
        case .acquireLock(let job, let limit):
            start { [self] in
                switch await acquireLock(within: limit) {
                case .success(let hold):
                    state.withLock { $0.holds[job] = hold }
                    return .lockAnswered(job, nil)
                case .failure(let error): return .lockAnswered(job, error)
                }
            }
        case .readStore(let isDeleted): start { [stored] in await stored.read(isDeleted: isDeleted) }
        case .prepareToSave:
            let logger = logger.withLock { $0 }
            start { [self] in
                let error = observed(await stored.prepareToSave())
                if error != nil {
                    logger?.warning("The tokens were not renewed", metadata: ["reason": "the store can't save"])
                }
                return .storePrepared(error)
            }
        case .save(let credential, let isVerified):
            start { [self] in .storeChanged(observed(await stored.save(credential, verified: isVerified))) }
        case .delete: start { [self] in .storeChanged(observed(await stored.delete())) }
        case .refresh(let job, let refreshToken, let client, let reason):
            let logger = logger.withLock { $0 }
            logger?.debug("Renewing the tokens", metadata: ["reason": "\(reason.rawValue)"])
            start { [self] in
                let observation = observer?.began(.renewal(reason.observed), in: nil)
                do throws(ChappieAuthError) {
                    let answer = try await tokens.refresh(refreshToken, of: client)
                    observation?.ended(nil)
                    return .tokensRefreshed(job, .success(answer))
                } catch {
                    observation?.ended(error)
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
}
