@_spi(ChappieInternals) public import ChappieCore

// Signing in.

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
                manager.observer?.happened(.signInEnded(attempt.grant.observed, .succeeded))
                self?.linked(manager.status.value, attempt)
            } catch {
                let isCancelled = error is CancellationError || error as? ChappieAuthError == .cancelledSignIn
                manager.observer?.happened(.signInEnded(attempt.grant.observed, isCancelled ? .cancelled : .failed))
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
