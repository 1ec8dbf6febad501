@_spi(ChappieInternals) import ChappieCore

#if canImport(Combine)
    public import Combine

    extension ChappieAuthSession: ObservableObject {}
#else
    extension ChappieAuthSession {
        /// A stored property. Where Combine exists, its wrapper of the same name is used instead.
        @propertyWrapper public struct Published<Value> {
            /// The value.
            public var wrappedValue: Value

            /// Creates a property with this value.
            public init(wrappedValue: Value) { self.wrappedValue = wrappedValue }
        }
    }
#endif

/// A session that signs one user in and out, and reports the state of the sign-in.
///
/// ```swift
/// let account = try await session.signIn { code in
///     print(code.instructions)
/// }
/// ```
/// With Combine it is an `ObservableObject` with published properties (`session.$state`). On every platform the two
/// streams report each change. No method returns a token.
///
/// The session owns a sign-in that runs. A view that disappears does not end it. ``cancelSignIn()``, ``signOut()`` and
/// the cancellation of a task that awaits it do.
@MainActor
public final class ChappieAuthSession {
    let manager: CredentialManager
    /// The notifier that asks the user to return once the account is linked.
    @_spi(ChappieInternals) public let notifier: (any Notifier)?
    /// The object that shows the running or the last sign-in to the user.
    @_spi(ChappieInternals) public weak var presenter: AnyObject?
    private let states = StatusSubject(ChappieAuthState.signedOut)
    private let linkStates = StatusSubject(ChappieDeviceLinkState.idle)
    private var follower: Task<Void, Never>?
    private var unlockFollower: Task<Void, Never>?
    var signInTask: Task<Void, Never>?
    /// The running sign-in.
    var attempt: SignInAttempt?
    var newestAttempt: SignInAttempt?
    /// The time for which the main thread waits for the store during a sign-out.
    private let storeDeadline: Duration

    private static let signOutDeadline = Duration.seconds(6)

    /// The state that follows only from the credential. ``state`` differs from it during a sign-in.
    var credentialState = ChappieAuthState.signedOut
    private var appliedSequence = -1
    /// The state after a failed sign-in of a user without a credential. A store that answers late with an empty slot
    /// does not change it.
    var failedSignIn: ChappieAuthState?

    /// The grant with which the account signed in, or `nil` if no account is signed in or the credential does not name
    /// the grant.
    public var grant: ChappieGrant? { accountInfo == nil ? nil : manager.status.value.grant }
    /// Whether the sign-in can be renewed. Without a refresh token it lasts as long as its access token.
    public var isRenewable: Bool { accountInfo != nil && manager.status.value.isRenewable }
    /// The reason why the sign-in can't be renewed any more, as a sentence, or `nil` if the service has not refused to
    /// renew it. The user stays signed in until the access token expires (``ChappieAuthState/signedIn(expiresAt:)``) or
    /// the service refuses it. ``stateUpdates`` does not report it.
    public var renewalRefusal: String? { manager.status.value.renewalRefusal }
    /// The state of the sign-in.
    @Published public internal(set) var state = ChappieAuthState.signedOut { didSet { states.set(state) } }
    /// The progress of the current or the last device sign-in.
    @Published public internal(set) var deviceLinkState = ChappieDeviceLinkState.idle {
        didSet { linkStates.set(deviceLinkState) }
    }
    /// The account that is signed in, if any.
    @Published public internal(set) var accountInfo: ChappieAccountInfo?
    /// The last failure. A new sign-in and a successful refresh clear it. A cancelled sign-in is not a failure.
    @Published public internal(set) var lastError: ChappieAuthError?
    /// The error of the credential store, if the store caused ``lastError``. A locked, an absent, a denied and a slow
    /// store need different messages for the user.
    @Published public internal(set) var lastStoreError: CredentialStoreError?

    /// Creates a session for `credentials`, which every client of the slot shares. If the user signed in before, the
    /// session already has the account when this returns.
    ///
    /// An initialiser can't suspend, so this one blocks the main thread while another thread reads the store. A keyring
    /// usually takes a few milliseconds. After `loadDeadline`, ``state`` is ``ChappieAuthState/failed(_:)`` with a
    /// sentence, and the late result still arrives through ``stateUpdates``.
    ///
    /// - Parameters:
    ///   - credentials: The manager of the credential slot, shared with its clients.
    ///   - notifier: Asks the user to return once the account is linked. Default none.
    ///   - loadDeadline: The limit for the wait. Default 6 s, a little over the deadline of the keyring adapters. With
    ///     zero, the initialiser does not wait, and ``signOut()`` waits for 6 s.
    public convenience init(
        credentials: CredentialManager, notifier: (any Notifier)? = nil, loadDeadline: Duration = .seconds(6)
    ) {
        self.init(credentials, notifier, loadDeadline: loadDeadline, signOutDeadline: Self.signOutDeadline)
    }

    /// Creates a session with another deadline for ``signOut()``, which applies if `loadDeadline` is zero.
    @_spi(ChappieInternals) public convenience init(
        _ credentials: CredentialManager, _ notifier: (any Notifier)? = nil, loadDeadline: Duration,
        signOutDeadline: Duration
    ) {
        _ = blocking(within: loadDeadline) { _ = try? await credentials.ask(.account) }
        let first = credentials.status.value
        // A sign-out has to be durable when it returns, even if only as a mark.
        self.init(credentials, notifier, first, deadline: loadDeadline > .zero ? loadDeadline : signOutDeadline)
        if first.status == .unknown {
            credentialState = .failed(
                "The credential store has not answered within \(loadDeadline.words).")
            state = credentialState
        }
    }

    /// Creates a session for a caller that can suspend. It blocks no thread. The store, which may ask the user, is read
    /// once and without a time limit.
    ///
    /// - Throws: `CancellationError`. A store that can't be read is not an error. See ``lastStoreError``.
    public convenience init(loading credentials: CredentialManager, notifier: (any Notifier)? = nil) async throws {
        _ = try? await credentials.ask(.account)
        try Task.checkCancellation()
        self.init(credentials, notifier, credentials.status.value, deadline: Self.signOutDeadline)
    }

    private init(
        _ credentials: CredentialManager, _ notifier: (any Notifier)?, _ first: CredentialSnapshot, deadline: Duration
    ) {
        manager = credentials
        storeDeadline = deadline
        self.notifier = notifier
        apply(first)
        // The stream starts with the current snapshot, so it misses no change in between.
        let updates = credentials.status.updates()
        follower = Task { [weak self] in
            for await snapshot in updates { self?.apply(snapshot) }
        }
        let unlocks = credentials.stored.store.unlocks()
        unlockFollower = Task { [weak self] in
            for await _ in unlocks { await self?.storeWasUnlocked() }
        }
    }

    deinit {
        follower?.cancel()
        unlockFollower?.cancel()
        signInTask?.cancel()
    }

    /// A stream of the current ``state`` and then of every change in order, without gaps. Each call returns a new
    /// stream.
    public var stateUpdates: AsyncStream<ChappieAuthState> { states.updates() }

    /// A stream of the current ``deviceLinkState`` and then of every change in order, without gaps.
    public var deviceLinkStateUpdates: AsyncStream<ChappieDeviceLinkState> { linkStates.updates() }
}

// MARK: Signing out and refreshing

extension ChappieAuthSession {
    /// Signs out and cancels a running sign-in. When this returns, ``state`` is `signedOut` and the stored credential
    /// is deleted. The main thread is blocked in the meantime, but not longer than the initialiser's deadline. If the
    /// store takes longer, the credential is marked as deleted for the next start. The server is informed in the
    /// background. If the store refuses, ``lastStoreError`` is set.
    public func signOut() {
        let signOut = beginSignOut()
        signOut.waitUntilGone(within: storeDeadline)
        Task { [weak self] in
            do {
                try await signOut.finish()
            } catch ChappieAuthError.credentialStoreUnavailable(let error) {
                _ = self?.note(ChappieAuthError.credentialStoreUnavailable(error))
            } catch {
                // The server could not be reached. This is best effort, and the user can't do anything about it.
            }
        }
    }

    /// Signs out, and waits until the stored credential is deleted and the server has revoked it (at most 10 s). The
    /// service may also end the user's other sign-ins with the same OAuth client, including those of other programs.
    /// ``CredentialManager/forgetWithoutRevoking()`` does not affect them.
    ///
    /// - Throws: ``ChappieAuthError`` if the credential could not be deleted, in which case ``lastStoreError`` has the
    ///   cause, or if it is deleted here but the server could not be reached. It is not an error if no user was signed
    ///   in.
    public func signOutAndRevoke() async throws {
        do {
            try await beginSignOut().finish()
        } catch let error as CancellationError {
            throw error
        } catch {
            throw note(error)
        }
    }

    /// Renews the tokens now, for instance after a change of plan.
    ///
    /// - Throws: ``ChappieAuthError``. If it has `requiresReauthentication`, ``state`` is
    ///   ``ChappieAuthState/reauthenticationRequired``. If the service has reported that the refresh token is no longer
    ///   valid, the credential is kept without it, and requests use the access token while it is valid. The error is
    ///   `renewableLater` if the service has specified an earliest time that has not been reached. Otherwise the
    ///   credential is unchanged. It throws `CancellationError` if the task was cancelled. The refresh, whose token
    ///   works once, then ends in the background.
    public func refreshAuth() async throws {
        defer { apply(manager.status.value) }
        do {
            try await manager.ask(.refresh)
            lastError = nil
            lastStoreError = nil
        } catch ChappieAuthError.missingCredential {
            throw note(ChappieAuthError.missingRefreshToken)
        } catch let error as ChappieAuthError {
            throw note(error)
        }
    }

    /// Reads the store again, for instance after the user has unlocked the keyring, and uses the credential found
    /// there, whatever its account. If the store can't be read, the credential in use stays. If the token endpoint has
    /// refused to renew the credential, the next request tries that again. The result is ``state``.
    public func reload() async {
        failedSignIn = nil
        _ = try? await manager.ask(.reload)
        apply(manager.status.value)
    }

    /// Waits until a renewal, a sign-in or a sign-out in progress has been stored, for a program that is about to end.
    ///
    /// - Parameter limit: The longest wait. Default 75 seconds, the time that a token endpoint and a store may take.
    public func finishPendingWork(within limit: Duration = .seconds(75)) async { await manager.settle(within: limit) }

    private func beginSignOut() -> CredentialManager.SignOut {
        cancelSignIn()
        failedSignIn = nil
        let signOut = manager.beginSignOut()
        apply(signOut.snapshot)
        deviceLinkState = .idle
        return signOut
    }

    /// Stores the failure as a public error, and returns that error.
    func note(_ error: any Error) -> ChappieAuthError {
        let authError =
            error as? ChappieAuthError ?? .unknown("Signing in failed in an unexpected way (\(type(of: error))).")
        lastStoreError = if case .credentialStoreUnavailable(let storeError) = authError { storeError } else { nil }
        lastError = authError
        return authError
    }
}

// MARK: Following the credential

extension ChappieAuthSession {
    /// Applies a snapshot of the credential, unless a later one has been applied already.
    func apply(_ snapshot: CredentialSnapshot) {
        guard snapshot.sequence > appliedSequence else { return }
        appliedSequence = snapshot.sequence
        switch snapshot.status {
        case .unknown: return
        case .signedOut:
            credentialState = .signedOut
            accountInfo = nil
            if case .linked = deviceLinkState { deviceLinkState = .idle }
        case .signedIn(let info, let expiresAt):
            // The store or the service works again, so its earlier error no longer applies.
            if case .failed = credentialState {
                lastError = nil
                lastStoreError = nil
            }
            if credentialState == .reauthenticationRequired { lastError = nil }
            let isNew = credentialState == .signedOut || credentialState == .reauthenticationRequired
            credentialState = .signedIn(expiresAt: expiresAt)
            accountInfo = info
            // Another session of this credential was faster, so the user is signed in.
            if isNew, let attempt, !attempt.isSaving {
                attempt.account.fulfil(.success(info))
                cancelSignIn()
            }
        case .reauthenticationRequired(let error):
            lastError = error
            credentialState = .reauthenticationRequired
            accountInfo = nil
            if attempt == nil { deviceLinkState = .idle }
        case .unavailable(let error):
            credentialState = .failed(error.errorDescription ?? "The credential store failed.")
            accountInfo = nil
            _ = note(ChappieAuthError.credentialStoreUnavailable(error))
        }
        if credentialState != .signedOut { failedSignIn = nil }
        if attempt == nil { state = failedSignIn ?? credentialState }
    }

    /// Reads the store again, if it could not be read because it was locked.
    private func storeWasUnlocked() async {
        guard case .failed = credentialState, case .locked = lastStoreError else { return }
        await reload()
    }
}
