public import ChappieCore

/// Looks after the credential of one slot: loads it, renews it, and lets requests use it.
///
/// One manager per slot and store in a process, shared by the session and every client of that slot; two managers would
/// each try to use up the same single-use refresh token. Across processes the manager reads the store again before it
/// refreshes, and once more before it believes that a refresh token is dead; a ``CredentialLock`` is held around the whole
/// of a renewal, and while a sign-in or sign-out changes the store.
///
/// No API of it gives out a token: ``authorization`` puts them into requests for the configured backend.
public actor CredentialManager {
    /// Where the credential lies.
    public nonisolated let slot: CredentialSlot
    nonisolated let endpoints: ChappieEndpoints
    nonisolated let tokens: TokenClient
    nonisolated let clock: any ChappieClock
    nonisolated let board = StatusBoard()
    let store: any CredentialStore
    nonisolated let lock: any CredentialLock

    /// What is known about the credential.
    enum Phase {
        /// The store has not been read, or could not be. Next: any.
        case unknown
        /// The store was empty. Read again at the next request: another process may sign in. Next: `held`, `rejected`.
        case absent
        /// A credential is in use. Next: any but `unknown`.
        case held(HeldCredential)
        /// The credential was of no more use. Next: `held`, when the store holds another one; `absent`.
        case rejected(Credential?, CredentialFailure)
        /// The slot now belongs to another account; no request goes out under a changed name. Next: `held` by a new
        /// sign-in, `absent`.
        case mismatched(CredentialFailure)
    }

    var phase = Phase.unknown
    /// The epoch of the last sign-out that has been carried out in the store, or overtaken by a sign-in.
    var settledEpoch = 0
    /// A sign-out that the store did not carry out when it was asked to.
    var unsettledSignOut: UnsettledSignOut?
    /// Why the store could not be read the last time; `nil` when it could.
    var readFailure: CredentialStoreError?
    /// Credentials that were dropped from the store by a sign-out and have yet to be revoked.
    var unrevoked: [Credential] = []
    var loading: Flight<HeldCredential>?
    var renewing: Flight<Renewal>?
    /// Whether the renewal that is under way has its lock, and does not wait for it.
    var renewalHoldsLock = false
    /// Revocations that are under way, by number.
    var revoking: [Int: Flight<Void>] = [:]
    var lastRevocation = 0
    /// No early refresh before this ``ChappieClock/elapsed`` time, because one has just failed.
    var earlyRefreshPause: Duration?
    /// The credential that the backend refused although it was fresh.
    var refusedGeneration: Int?
    /// When tokens last came from the server, in ``ChappieClock/elapsed`` time.
    var renewedAt: Duration?
    private var lastGeneration = 0
    private let gate = StoreGate()

    /// - Parameters:
    ///   - slot: where the credential lies in `store`.
    ///   - store: the keyring, or another ``CredentialStore``. Read at the first use, not here.
    ///   - transport: carries refreshes, sign-in and revocation, under the same network policy as everything else.
    ///   - endpoints: default ``ChappieEndpoints/chatGPT``.
    ///   - lock: keeps other processes out while the credential changes. Default none: for a store that no other process
    ///     can see. Everything else wants a ``FileCredentialLock``.
    ///   - clock: default the machine's.
    public init(
        slot: CredentialSlot, store: any CredentialStore, transport: any HTTPTransport,
        endpoints: ChappieEndpoints = .chatGPT, lock: any CredentialLock = NoCredentialLock(),
        clock: any ChappieClock = SystemClock()
    ) {
        self.slot = slot
        self.store = store
        self.lock = lock
        self.endpoints = endpoints
        self.clock = clock
        tokens = TokenClient(endpoints: endpoints, issuer: IssuerClient(transport: transport, clock: clock))
    }

    /// Puts the credential into requests for the backend, and renews it when it has to be.
    @_spi(ChappieInternals)
    public nonisolated var authorization: Authorization { Authorization(manager: self, account: nil) }

    /// The same for requests that are one account's own: once somebody else has signed in they are not sent any more.
    @_spi(ChappieInternals)
    public nonisolated func authorization(onlyFor account: ChappieAccountInfo) -> Authorization {
        Authorization(manager: self, account: account)
    }

    /// One element at each sign-out, at each loss of the credential, and when another account's replaces it: connections
    /// that were authorized before are to be closed then.
    @_spi(ChappieInternals)
    public nonisolated var signOuts: AsyncStream<Void> { board.losses() }

    /// Who is signed in; `nil` when nobody is. Reads the store at the first call, never the network.
    ///
    /// - Throws: ``AuthorizationError/store(_:)``, ``AuthorizationError/reauthenticationRequired(_:)``;
    ///   `CancellationError`. Not an error: an empty slot.
    public func accountInfo() async throws -> ChappieAccountInfo? {
        do {
            return try await current().credential.info
        } catch CredentialFailure.missingCredential {
            return nil
        } catch let failure as CredentialFailure {
            throw failure.authorizationError
        }
    }
}

// MARK: The store

extension CredentialManager {
    /// How long a renewal waits for another process's; that one asks a server.
    static let renewalLockPatience = Duration.seconds(45)
    /// How long a sign-in or sign-out does. Theirs is the later word, so that they go on without the lock after that.
    static let changeLockPatience = Duration.seconds(10)

    /// The lock for a change of the store; `nil` when it can't be had in time, and when a renewal of this manager holds
    /// it. A renewal that lasts so long looks at what has changed by itself.
    func lockForChange() async -> CredentialLockHold? {
        guard !renewalHoldsLock else { return nil }
        return try? await Task { [lock, slot] in
            try await lock.acquire(slot, within: Self.changeLockPatience)
        }.value
    }

    /// Runs `body` while nothing else of this manager touches the store.
    func withStore<Result: Sendable>(_ body: () async throws -> Result) async rethrows -> Result {
        await gate.enter()
        defer { gate.leave() }
        return try await body()
    }

    // The store is called in tasks of their own: one that heeds cancellation must not be interrupted half-way because
    // the request that happened to need it was cancelled. Call these inside `withStore`.

    /// What the store holds now.
    func readStore() async -> Result<Credential?, CredentialStoreError> {
        let result = await Task { [store, slot] () -> Result<Credential?, CredentialStoreError> in
            do throws(CredentialStoreError) {
                return .success(try await store.load(slot).map(Credential.init(serialized:)))
            } catch {
                return .failure(error)
            }
        }.value
        if case .failure(let error) = result { readFailure = error } else { readFailure = nil }
        return result
    }

    /// Writes `credential`; returns why it could not.
    ///
    /// - Parameter verified: reads it back as well, whatever the store has done about that itself. A store that can't be
    ///   read at that moment (the screen has just been locked) has taken it all the same.
    func save(_ credential: Credential, verified: Bool = false) async -> CredentialStoreError? {
        let document = credential.serialized()
        return await Task { [store, slot] () -> CredentialStoreError? in
            do throws(CredentialStoreError) {
                try await store.save(document, in: slot)
            } catch {
                return error
            }
            guard verified else { return nil }
            do throws(CredentialStoreError) {
                return try await store.load(slot) == document ? nil : .notVerified
            } catch {
                return nil
            }
        }.value
    }

    /// Empties the slot; returns why it could not.
    func deleteStored() async -> CredentialStoreError? {
        await Task { [store, slot] () -> CredentialStoreError? in
            do throws(CredentialStoreError) {
                try await store.delete(slot)
                return nil
            } catch {
                return error
            }
        }.value
    }

    /// Takes `credential` into use and tells everyone.
    @discardableResult
    func hold(_ credential: Credential, isSaved: Bool, epoch: Int, replaces: Credential? = nil) -> HeldCredential {
        lastGeneration += 1
        let held = HeldCredential(
            credential: credential, generation: lastGeneration, epoch: epoch, isSaved: isSaved, replaces: replaces)
        phase = .held(held)
        earlyRefreshPause = nil
        board.publish(.signedIn(credential.info, expiresAt: credential.expiresAt), in: epoch)
        return held
    }

    /// The credential in use, unless somebody has signed out since.
    var heldNow: HeldCredential? {
        guard case .held(let held) = phase, held.epoch == board.epoch else { return nil }
        return held
    }

    var isSignOutPending: Bool { settledEpoch != board.epoch && heldNow == nil }
}
