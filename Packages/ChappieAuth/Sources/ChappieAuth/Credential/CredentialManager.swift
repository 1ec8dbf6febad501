@_spi(ChappieInternals) public import ChappieCore
import Dispatch
public import Logging
import Synchronization

/// Looks after the credential of one slot: loads it, renews it, and lets requests use it.
///
/// One manager per slot and store in a process, shared by the session and every client of that slot; two managers would
/// each try to use up the same single-use refresh token. Other processes are kept out by a ``CredentialLock``. All
/// decisions are `CredentialLifecycle`'s; this carries them out.
public final class CredentialManager: Sendable {
    /// Where the credential is stored: the slot given, for this issuer and backend alone.
    public let slot: CredentialSlot
    let endpoints: ChappieEndpoints
    let tokens: TokenClient
    let clock: any ChappieClock
    let status = StatusSubject(CredentialSnapshot())
    private let origin: CredentialOrigin
    private let store: any CredentialStore
    private let lock: any CredentialLock
    private let logger: Mutex<Logger?>
    private let state = Mutex(State())
    /// The tombstone that the lock could not keep; held while one is written, removed or read.
    private let unkeptTombstone = Mutex<Tombstone?>(nil)

    private struct State {
        var lifecycle = CredentialLifecycle()
        var lastWaiter = 0
        var waiting: [Int: (promise: Promise<CredentialLifecycle.Answer>, timer: Task<Void, Never>?)] = [:]
        var holds: [Int: CredentialLockHold] = [:]
        /// The last change of the tombstone that is not carried out yet.
        var tombstoneChange: Tombstone??
    }

    /// - Parameters:
    ///   - slot: its ``CredentialSlot/issuer`` is set from `endpoints`.
    ///   - store: the keyring, or another ``CredentialStore``. Read at the first use, not here.
    ///   - transport: carries the requests to the issuer.
    ///   - endpoints: whose credential it is. Default `.chatGPT`.
    ///   - lock: a ``FileCredentialLock``, or ``NoCredentialLock`` for a store that no other process can see.
    ///   - clock: tells when a token is due.
    ///   - logger: told at level `debug` why tokens are renewed, and at `warning` why that failed; never a token. Default
    ///     none.
    public init(
        slot: CredentialSlot, store: any CredentialStore, transport: any HTTPTransport,
        endpoints: ChappieEndpoints = .chatGPT, lock: any CredentialLock, clock: any ChappieClock = SystemClock(),
        logger: Logger? = nil
    ) {
        origin = CredentialOrigin(endpoints)
        self.slot = CredentialSlot(
            service: slot.service, account: slot.account, accessGroup: slot.accessGroup,
            issuer: endpoints.credentialIssuer)
        self.store = store
        self.lock = lock
        self.logger = Mutex(logger)
        self.endpoints = endpoints
        self.clock = clock
        tokens = TokenClient(endpoints: endpoints, issuer: IssuerClient(transport: transport, clock: clock))
    }

    /// Takes another logger, for a manager that is there already: the one given last is told.
    @_spi(ChappieInternals)
    public func log(to logger: Logger) { self.logger.withLock { $0 = logger } }

    // MARK: Requests

    /// Puts the credential into requests for the backend, and renews it when it has to be.
    @_spi(ChappieInternals)
    public var authorization: Authorization { Authorization(manager: self, account: nil) }

    /// The same for requests of one account: they are not sent any more once another account has signed in.
    @_spi(ChappieInternals)
    public func authorization(onlyFor account: ChappieAccountInfo) -> Authorization {
        Authorization(manager: self, account: account)
    }

    /// One element at each sign-out, at each loss of the credential, and when another account's replaces it: connections
    /// that were authorized before are to be closed then.
    @_spi(ChappieInternals)
    public var signOuts: AsyncStream<Void> {
        status.changes { earlier, now in now.isLoss(after: earlier) ? () : nil }
    }

    /// The account that is signed in, if any. Reads the store at the first call, never the network.
    ///
    /// - Throws: ``AuthorizationError/store(_:)``, ``AuthorizationError/reauthenticationRequired(_:)``;
    ///   `CancellationError`. Not an error: an empty slot.
    public func accountInfo() async throws -> ChappieAccountInfo? {
        do { return try await accessToken(.account).account } catch AuthorizationError.missingCredential { return nil }
    }

    /// The right to send requests.
    ///
    /// - Throws: ``AuthorizationError``; `CancellationError`.
    func accessToken(_ need: CredentialLifecycle.Need) async throws -> AccessToken {
        do { return try await ask(need) } catch let failure as CredentialFailure { throw failure.authorizationError }
    }

    /// The same, when the public error is another one.
    ///
    /// - Throws: ``CredentialFailure``; `CancellationError`: a caller that is cancelled stops waiting, and the work goes on.
    @discardableResult
    func ask(_ need: CredentialLifecycle.Need) async throws -> AccessToken {
        let answer = try await answer { .asked(need, $0) }
        guard case .credential(let held, let isNew) = answer else { throw CredentialFailure.missingCredential }
        return AccessToken(credential: held.credential, generation: held.generation, isNew: isNew)
    }

    /// The backend took the token, or refused it although it was fresh.
    func backendAnswered(_ token: AccessToken, refusal: String?) {
        report(.backendAnswered(generation: token.generation, refusal: refusal))
    }

    // MARK: Signing in and out

    /// Asks the store whether it can keep a credential, before the user is asked for anything.
    func prepareToSave() async throws(CredentialFailure) {
        do { try await store.prepareToSave(in: slot) } catch { throw .store(error) }
        // Another service's credential would not be replaced in the end either.
        if case .unavailable(.foreign(let detail)) = status.value.status { throw .store(.foreign(detail)) }
    }

    /// Makes a freshly granted credential the slot's own: saved, read back, compared, and only then in use. The one before
    /// stays if anything fails, and is revoked if nothing does.
    ///
    /// - Parameter after: the number of sign-outs when the sign-in began; a later one wins. `nil` for an import.
    /// - Throws: ``CredentialFailure``; `CancellationError` when the task was cancelled.
    func adopt(_ credential: Credential, after signOuts: Int?) async throws {
        let (waiter, promise) = newWaiter()
        report(.signInCompleted(credential, after: signOuts, waiter))
        _ = try await withTaskCancellationHandler {
            try await promise.value()
        } onCancel: {
            report(.signInCancelled(waiter))
        }
    }

    /// Forgets the slot's credential: at once in this process, then in the store, then at the server (best effort, 10 s
    /// at most). Sessions of this manager become `signedOut`. Works also when the stored credential can't be read; the
    /// server is then told of what this process knows, if anything.
    ///
    /// - Throws: ``CredentialStoreError`` when the stored credential could not be deleted. It then counts as deleted
    ///   until it can be. Not an error: an empty slot, and a server that could not be told.
    public func signOut() async throws(CredentialStoreError) { try await signOut(revoking: true) }

    private func signOut(revoking: Bool) async throws(CredentialStoreError) {
        do { try await beginSignOut(revoking: revoking).finish() } catch CredentialFailure.store(let error) {
            throw error
        } catch {}
    }

    /// Signs out as of now, for every thread; the rest goes on by itself.
    func beginSignOut(revoking: Bool = true) -> SignOut {
        let (waiter, stored) = newWaiter()
        let revoked = Promise<Void>()
        report(.signedOut(revoking: revoking, waiter))
        let snapshot = status.value
        Task.detached { [self] in
            guard case .signedOut(let error, let credentials) = try? await stored.value() else { return }
            var failure: (any Error)? = error.map(CredentialFailure.store)
            for credential in credentials {
                do { try await tokens.revoke(credential) } catch { failure = failure ?? error }
            }
            if !credentials.isEmpty { report(.revocationEnded) }
            revoked.fulfil(failure.map { .failure($0) } ?? .success(()))
        }
        return SignOut(snapshot: snapshot, manager: self, stored: stored, revoked: revoked)
    }

    /// A sign-out that is under way.
    struct SignOut: Sendable {
        let snapshot: CredentialSnapshot
        fileprivate let manager: CredentialManager
        fileprivate let stored: Promise<CredentialLifecycle.Answer>
        fileprivate let revoked: Promise<Void>

        /// - Throws: ``CredentialFailure/store(_:)`` when the credential could not be deleted (the server is told all the
        ///   same); ``ChappieAuthError`` when only the server could not be told.
        func finish() async throws {
            // The store's part can't be cancelled: the caller may say "signed out" next.
            _ = await Task.detached { [stored] in try? await stored.value() }.value
            try await revoked.value()
        }

        /// Blocks the calling thread until the credential is gone from the store, `limit` at most; after that it is marked
        /// as gone, so that a process that ends now has signed out.
        func waitUntilGone(within limit: Duration) {
            let isGone = blocking(within: limit) { [stored] in _ = try? await stored.value() }
            if !isGone { manager.report(.signOutOutlasted) }
        }
    }

    // MARK: Moving a credential

    /// The slot's credential as a document, for ``importCredential(_:)`` on another machine; renewed first when it is due.
    ///
    /// The copy and the original can't both be used: a refresh token works once, and the service ends the whole sign-in
    /// when it comes a second time. The caller must say so, keep the document from others, and stop using the original.
    ///
    /// - Throws: ``AuthorizationError``; `CancellationError`.
    public func exportCredential() async throws -> Secret { try await accessToken(.export).credential.serialized() }

    /// Forgets the slot's credential in this process and in the store, and leaves it alone at the server: for the original
    /// after an export.
    ///
    /// - Throws: ``CredentialStoreError``; the credential is then still stored, and counts as deleted until it can be.
    public func forgetWithoutRevoking() async throws(CredentialStoreError) { try await signOut(revoking: false) }

    /// Makes an exported credential the slot's own: saved, read back, compared, and only then in use. One that was there
    /// before is revoked; if anything fails it stays, and the imported one is left alone.
    ///
    /// - Returns: whose it is.
    /// - Throws: ``CredentialStoreError``: `.corrupt` when `document` is not what ``exportCredential()`` gives, `.foreign`
    ///   when it is for another issuer or backend.
    public func importCredential(_ document: Secret) async throws(CredentialStoreError) -> ChappieAccountInfo {
        let credential = try Credential(serialized: document, for: origin)
        let work = Task { try await adopt(credential, after: nil) }
        do { try await work.value } catch CredentialFailure.store(let error) { throw error } catch {
            throw .failed("the import did not come through")
        }
        return credential.info
    }

    /// Waits until no refresh, change of the store or revocation is under way, for `limit` at most (what a token endpoint
    /// and a store may take; almost always it is no time at all). Call it before a process ends: a refresh whose answer is
    /// not stored has used up the refresh token for nothing. A renewal that only waits for another process is left alone.
    public func settle(within limit: Duration = .seconds(75)) async {
        let (waiter, promise) = newWaiter()
        report(.settlingAsked(waiter))
        guard !promise.isFulfilled else { return }
        await withTaskGroup(of: Void.self) { group in
            group.addTask { _ = try? await promise.value() }
            group.addTask { [clock] in try? await clock.sleep(for: limit) }
            await group.next()
            group.cancelAll()
        }
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
        let moment = CredentialLifecycle.Moment(now: clock.now, elapsed: clock.elapsed)
        let actions = state.withLock { state in
            let actions = state.lifecycle.handle(input, at: moment)
            // Under the lock, so that watchers see changes in the order in which they were made.
            status.set(state.lifecycle.snapshot)
            for case .keepTombstone(let tombstone) in actions { state.tombstoneChange = .some(tombstone) }
            return actions
        }
        for action in actions { perform(action) }
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
                    do { try await clock.sleep(for: limit) } catch { return }
                    self?.report(.patienceEnded(waiter))
                }
            }
        case .keepTombstone: _ = tombstone()
        case .releaseLock(let job): _ = state.withLock { $0.holds.removeValue(forKey: job) }
        case .acquireLock(let job, let limit):
            start { [self] in
                let failure = await storeFailure { () throws(CredentialStoreError) in
                    let hold = try await lock.acquire(slot, within: limit)
                    state.withLock { $0.holds[job] = hold }
                }
                return .lockAnswered(job, failure)
            }
        case .readStore: start { [self] in .storeRead(await read()) }
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
            start { [self] in .storeChanged(await save(credential, verified: isVerified)) }
        case .delete:
            start { [self] in
                .storeChanged(await storeFailure { () throws(CredentialStoreError) in try await store.delete(slot) })
            }
        case .refresh(let job, let refreshToken, let reason):
            let logger = logger.withLock { $0 }
            logger?.debug("Renewing the tokens", metadata: ["reason": "\(reason.rawValue)"])
            start { [self] in
                let result = await tokens.refresh(refreshToken)
                if case .failure(let failure) = result {
                    logger?.warning("The tokens were not renewed", metadata: ["reason": "\(failure.logWords)"])
                }
                return .tokensRefreshed(job, result)
            }
        case .revoke(let credential):
            start { [self] in
                try? await tokens.revoke(credential)
                return .revocationEnded
            }
        }
    }

    /// The store, the lock and the server are called in tasks of their own: they must not be interrupted half-way because
    /// the request that happened to need them was cancelled.
    private func start(_ work: @escaping @Sendable () async -> CredentialLifecycle.Input) {
        Task.detached { [self] in report(await work()) }
    }

    private func storeFailure(
        of work: () async throws(CredentialStoreError) -> Void
    ) async -> CredentialStoreError? {
        do { try await work() } catch { return error }
        return nil
    }

    /// The tombstone, after the last change of it has been carried out. Two threads may get here in another order than the
    /// changes were decided in, and a tombstone that is written after its removal would end the next sign-in.
    private func tombstone() -> Tombstone? {
        unkeptTombstone.withLock { unkept in
            let change = state.withLock { state in
                defer { state.tombstoneChange = nil }
                return state.tombstoneChange
            }
            if let change {
                lock.setNote(change?.serialized(), for: slot)
                unkept = lock.note(for: slot) == nil ? change : nil
            }
            return lock.note(for: slot).flatMap(Tombstone.init(serialized:)) ?? unkept
        }
    }

    private func read() async -> Result<CredentialLifecycle.Stored, CredentialStoreError> {
        let tombstone = tombstone()
        do throws(CredentialStoreError) {
            guard let document = try await store.load(slot) else { return .success(.init(tombstone: tombstone)) }
            return .success(.init(credential: try Credential(serialized: document, for: origin), tombstone: tombstone))
        } catch {
            return .failure(error)
        }
    }

    /// - Returns: why it could not. A store that can't be read back at that moment (the screen has just been locked) has
    ///   taken the credential all the same.
    private func save(_ credential: Credential, verified: Bool) async -> CredentialStoreError? {
        let document = credential.serialized()
        do { try await store.save(document, in: slot) } catch { return error }
        guard verified else { return nil }
        do { return try await store.load(slot) == document ? nil : .notVerified } catch { return nil }
    }
}

/// One right to send requests.
struct AccessToken: Sendable {
    let credential: Credential
    let generation: Int
    /// Whether the token has just come from the server.
    let isNew: Bool

    var account: ChappieAccountInfo { credential.info }
}

/// Blocks the calling thread until `work` has ended, `limit` at most; whether it has.
///
/// The work runs on the global executor's own threads and needs nothing of the caller's, so it can't wait for the caller in
/// turn.
func blocking(within limit: Duration, _ work: @escaping @Sendable () async -> Void) -> Bool {
    let done = DispatchSemaphore(value: 0)
    Task.detached(priority: .userInitiated) {
        await work()
        done.signal()
    }
    let milliseconds = min(max(limit.seconds * 1000, 0), 3_600_000)
    return done.wait(timeout: .now() + .milliseconds(Int(milliseconds))) == .success
}
