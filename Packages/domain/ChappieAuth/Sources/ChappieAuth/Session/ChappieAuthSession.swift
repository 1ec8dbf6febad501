@_spi(ChappieInternals) public import ChappieCore

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
    private var signInTask: Task<Void, Never>?
    /// The running sign-in.
    private var attempt: SignInAttempt?
    private var newestAttempt: SignInAttempt?
    /// The time for which the main thread waits for the store during a sign-out.
    private let storeDeadline: Duration

    private static let signOutDeadline = Duration.seconds(6)

    /// The state that follows only from the credential. ``state`` differs from it during a sign-in.
    private var credentialState = ChappieAuthState.signedOut
    private var appliedSequence = -1
    /// The state after a failed sign-in of a user without a credential. A store that answers late with an empty slot
    /// does not change it.
    private var failedSignIn: ChappieAuthState?

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
    @Published public private(set) var state = ChappieAuthState.signedOut { didSet { states.set(state) } }
    /// The progress of the current or the last device sign-in.
    @Published public private(set) var deviceLinkState = ChappieDeviceLinkState.idle {
        didSet { linkStates.set(deviceLinkState) }
    }
    /// The account that is signed in, if any.
    @Published public private(set) var accountInfo: ChappieAccountInfo?
    /// The last failure. A new sign-in and a successful refresh clear it. A cancelled sign-in is not a failure.
    @Published public private(set) var lastError: ChappieAuthError?
    /// The error of the credential store, if the store caused ``lastError``. A locked, an absent, a denied and a slow
    /// store need different messages for the user.
    @Published public private(set) var lastStoreError: CredentialStoreError?

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

// MARK: Signing in

extension ChappieAuthSession {
    /// Starts a sign-in with the grant of the endpoints, and returns as soon as there is a code or a page to show. The
    /// rest runs in the background. An existing credential stays in use until the new one is stored. This first cancels
    /// a running sign-in.
    ///
    /// - Throws: ``ChappieAuthError``: `cancelledSignIn` if the task or the sign-in is cancelled before there is a
    ///   code, `authorizationDenied` with directions if device sign-in is switched off or if the endpoints are for
    ///   access tokens, `networkFailure`, `tokenExchangeFailed`, or `invalidResponse`.
    @discardableResult
    public func startDeviceCodeSignIn() async throws -> ChappieDeviceCode {
        let attempt = begin()
        return try await result(attempt.code, of: attempt)
    }

    /// Starts a sign-in with a browser on this machine, without a code, and returns as soon as there is a page to show.
    /// In all other respects it behaves like ``startDeviceCodeSignIn()``.
    ///
    /// ```swift
    /// let page = try await session.startBrowserSignIn()
    /// await browser.open(session.browserURL() ?? page.verificationURL)
    /// // session.state becomes .signedIn once the browser has returned.
    /// ```
    /// - Throws: ``ChappieAuthError``: `callbackUnavailable` if other programs listen at both ports to which the
    ///   browser can return, `cancelledSignIn`, or `unknown` if ``canSignInWithBrowser`` is false.
    @discardableResult
    public func startBrowserSignIn() async throws -> ChappieDeviceCode {
        let attempt = begin(by: .browser)
        return try await result(attempt.code, of: attempt)
    }

    /// The grant by which the endpoints let users sign in.
    @_spi(ChappieInternals) public var configuredGrant: ChappieGrant { manager.endpoints.grant }

    /// The slot of the credential.
    @_spi(ChappieInternals) public var slot: CredentialSlot { manager.slot }

    /// Whether the user can sign in with a browser on this machine instead of a device code (``ChappieGrant/browser``).
    /// This requires a program that was composed for it. `Chappie.authSession()` does so on Linux and on a Mac.
    public var canSignInWithBrowser: Bool {
        manager.browserSignIn != nil && !manager.endpoints.usesPlan
    }

    /// Signs in from start to end.
    ///
    /// ```swift
    /// // The user's workspace does not allow device codes:
    /// let account = try await session.signIn(by: .browser) { page in
    ///     print(page.instructions)
    /// }
    /// ```
    /// - Parameters:
    ///   - grant: The user's choice, ``ChappieGrant/deviceCode`` or ``ChappieGrant/browser``. Default: the grant of the
    ///     endpoints.
    ///   - show: Shows the code or the page to the user. In the meantime, the session waits until the user has
    ///     approved.
    /// - Returns: The account that is signed in, once `show` has also returned.
    /// - Throws: ``ChappieAuthError``: the errors of ``startDeviceCodeSignIn()``, and `expiredDeviceCode`,
    ///   `pollingTimeout`, `callbackTimeout`, `callbackUnavailable` or `authorizationDenied` if the user has not
    ///   approved, or has approved as another user. It is `networkFailure` if the identity can't be checked now. The
    ///   errors of `show` are also thrown, and cancel the sign-in. Cancelling the task cancels the sign-in. A stored
    ///   credential stays, whatever the error. Without one, an error with `requiresReauthentication` leaves ``state``
    ///   at ``ChappieAuthState/reauthenticationRequired``.
    @discardableResult
    public func signIn(
        by grant: ChappieGrant? = nil, _ show: @MainActor (ChappieDeviceCode) async throws -> Void
    ) async throws -> ChappieAccountInfo {
        try await signIn(by: grant, announces: true, show)
    }

    /// Signs in from start to end, for a caller that itself notifies the user that the account is linked.
    @discardableResult
    @_spi(ChappieInternals) public func signIn(
        by grant: ChappieGrant? = nil, announces: Bool, _ show: @MainActor (ChappieDeviceCode) async throws -> Void
    ) async throws -> ChappieAccountInfo {
        let attempt = begin(by: grant, announces: announces)
        let code = try await result(attempt.code, of: attempt)
        do {
            try await show(code)
        } catch {
            if self.attempt === attempt { cancelSignIn() }
            throw error
        }
        return try await result(attempt.account, of: attempt)
    }

    /// Signs in with an access token that its owner has created in a ChatGPT Business or Enterprise workspace
    /// (https://chatgpt.com/admin/access-tokens). This is for a server or a job without a browser. The service names
    /// the owner.
    ///
    /// The token is stored like any other sign-in, is never renewed, and is not revoked by signing out. Once the
    /// service refuses it, requests fail with ``ChappieAuthError/reauthenticationRequired(_:)``.
    ///
    /// - Parameter accessToken: The token, at most 64 KiB. Read it from standard input or a secret store, never from an
    ///   argument. White space and quotes around it, a byte order mark and a leading `Bearer ` are ignored.
    /// - Throws: ``ChappieAuthError``: `authorizationDenied` if the token has another form or is not accepted, or the
    ///   errors of ``signIn(by:_:)`` for the network and the store. A stored credential stays, whatever the error.
    @discardableResult
    public func signIn(accessToken: String) async throws -> ChappieAccountInfo {
        let token: Secret
        do throws(ChappieAuthError) {
            token = try PastedToken.secret(in: accessToken)
        } catch {
            throw note(error)
        }
        let attempt = begin(by: .accessToken, announces: false, accessToken: token)
        return try await result(attempt.account, of: attempt)
    }

    private func begin(
        by grant: ChappieGrant? = nil, announces: Bool = true, accessToken: Secret? = nil
    ) -> SignInAttempt {
        cancelSignIn()
        let attempt = SignInAttempt(
            signOuts: manager.status.value.signOuts, announces: announces, grant: grant ?? manager.endpoints.grant,
            accessToken: accessToken)
        self.attempt = attempt
        newestAttempt = attempt
        failedSignIn = nil
        lastError = nil
        lastStoreError = nil
        state = .signingIn
        showLink(.requestingCode, of: attempt)
        signInTask = run(attempt)
        return attempt
    }

    private func result<Value>(_ promise: Promise<Value>, of attempt: SignInAttempt) async throws -> Value {
        do {
            return try await promise.value()
        } catch is CancellationError {
            if self.attempt === attempt { cancelSignIn() }
            throw ChappieAuthError.cancelledSignIn
        }
    }

    /// Completes a sign-in whose browser runs on another machine and could not open the last page. `address` is the
    /// complete address of that page, which begins with `http://localhost` or `http://127.0.0.1`. The sign-in then
    /// continues as if the browser had returned. This is for ``ChappieGrant/browser`` and
    /// ``ChappieGrant/continueWithChatGPT(appName:)``.
    ///
    /// - Throws: ``ChappieAuthError/wrongCallbackAddress(_:)`` if the address does not belong to the waiting sign-in,
    ///   which continues, or if no sign-in waits.
    public func completeSignIn(pasting address: String) throws {
        guard let callback = attempt?.callback else { throw ChappieAuthError.noCallbackAwaited }
        try callback.paste(address)
    }

    /// Returns the address to pass to a browser that this program starts. For ``ChappieGrant/browser`` and
    /// ``ChappieGrant/continueWithChatGPT(appName:)`` it is an address on this machine, which leads the browser once to
    /// the page of ``ChappieDeviceCode/verificationURL``. The page's own address contains values of the sign-in, and
    /// other users of the machine can see the arguments with which a browser is started. Call this each time you need
    /// an address.
    ///
    /// - Returns: `nil` if no sign-in waits for its user.
    public func browserURL() -> URL? {
        switch deviceLinkState {
        case .awaitingUserCode(let code), .polling(let code): attempt?.callback?.start() ?? code.verificationURL
        default: nil
        }
    }

    /// Ends the running sign-in. ``deviceLinkState`` becomes `cancelled`, and ``state`` returns to its earlier value.
    /// Does nothing if no sign-in is running.
    public func cancelSignIn() {
        guard let attempt else { return }
        self.attempt = nil
        signInTask?.cancel()
        attempt.fail(.cancelledSignIn)
        showLink(.cancelled, of: attempt)
        state = credentialState
    }

    private func run(_ attempt: SignInAttempt) -> Task<Void, Never> {
        Task { [weak self, manager] in
            let background = manager.backgroundTime.hold("signing in")
            defer { withExtendedLifetime(background) {} }
            do {
                try await attempt.run(with: manager) { [weak self] code, callback in
                    self?.receivedCode(code, attempt, callback)
                } onReturn: { [weak self] code in
                    self?.startedPolling(code, attempt)
                }
                self?.linked(manager.status.value, attempt)
            } catch {
                self?.failed(error, attempt)
            }
        }
    }

    /// Sets ``deviceLinkState``, which stays idle during a sign-in with an access token.
    private func showLink(_ new: ChappieDeviceLinkState, of attempt: SignInAttempt) {
        deviceLinkState = attempt.accessToken == nil ? new : .idle
    }

    private func receivedCode(_ code: ChappieDeviceCode, _ attempt: SignInAttempt, _ callback: BrowserCallback?) {
        guard self.attempt === attempt else { return }
        attempt.callback = callback
        deviceLinkState = .awaitingUserCode(code)
        state = .awaitingDeviceCode(userCode: code.userCode, verificationURL: code.verificationURL)
        attempt.code.fulfil(.success(code))
    }

    private func startedPolling(_ code: ChappieDeviceCode, _ attempt: SignInAttempt) {
        guard self.attempt === attempt else { return }
        deviceLinkState = .polling(code)
    }

    /// Completes the attempt, because the credential is stored, even if the caller cancelled at the same moment.
    private func linked(_ snapshot: CredentialSnapshot, _ attempt: SignInAttempt) {
        guard newestAttempt === attempt else { return }
        self.attempt = nil
        apply(snapshot)
        // The follower may have applied it already, while the attempt still determined `state`.
        state = credentialState
        guard snapshot.signOuts == attempt.signOuts, case .signedIn(let account, let expiresAt) = snapshot.status else {
            showLink(.cancelled, of: attempt)
            return attempt.fail(.cancelledSignIn)
        }
        showLink(.linked(expiresAt: expiresAt), of: attempt)
        attempt.account.fulfil(.success(account))
        guard let notifier, attempt.announces else { return }
        Task { try? await notifier.notify(title: "ChatGPT Linked!", body: "Return to the app") }
    }

    private func failed(_ error: any Error, _ attempt: SignInAttempt) {
        // The follower may not have applied the snapshot yet.
        let snapshot = manager.status.value
        apply(snapshot)
        guard self.attempt === attempt else { return }
        if error is CancellationError || error as? ChappieAuthError == .cancelledSignIn { return cancelSignIn() }
        self.attempt = nil
        let error = note(error)
        showLink(error == .expiredDeviceCode ? .expired : .failed(error), of: attempt)
        // A user who is signed in stays signed in. Otherwise the user has to see the message.
        if [.signedOut, .unknown].contains(snapshot.status), error != .expiredDeviceCode {
            failedSignIn =
                error.requiresReauthentication
                ? .reauthenticationRequired : .failed(error.errorDescription ?? "Signing in failed.")
        }
        state = failedSignIn ?? credentialState
        attempt.fail(error)
    }
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
    private func note(_ error: any Error) -> ChappieAuthError {
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
    private func apply(_ snapshot: CredentialSnapshot) {
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
