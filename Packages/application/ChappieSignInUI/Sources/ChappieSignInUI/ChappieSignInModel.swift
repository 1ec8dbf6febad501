@_spi(ChappieInternals) public import ChappieAuth
public import ChappieCore

#if canImport(Combine)
    public import Combine

    extension ChappieSignInModel: ObservableObject {}
#endif

/// The model of the button "Sign in with ChatGPT" and its sheet. A user interface shows ``state`` and calls the
/// methods.
///
/// It asks for permission to notify, gets a code, copies it, opens the page, counts down, waits for the approval and
/// notifies the user. This is a complete user interface for a terminal:
/// ```swift
/// let model = ChappieSignInModel(session: Chappie.authSession(), showsOnboardingSheet: false)
/// model.signIn()
/// var shown: ChappieDeviceCode?
/// for await state in model.stateUpdates {
///     if let code = state.deviceCode, code != shown { print(code.instructions) }
///     shown = state.deviceCode
///     if let ending = state.ending { print(ending.words.sentence, ending.words.advice); break }
/// }
/// await model.settle()
/// ```
/// It is an `ObservableObject` if Combine exists. On every platform, ``stateUpdates`` reports each change.
///
/// A sign-in keeps its model alive, so an app may release the model or remove its view while the user is in the browser.
/// ``cancel()``, the session's `cancelSignIn()` and `signOut()` end a sign-in.
@MainActor
public final class ChappieSignInModel {
    /// The session that signs in.
    public let session: ChappieAuthSession
    let browser: (any Browser)?
    private let clipboard: (any Clipboard)?
    private let notifier: (any Notifier)?
    private let consents: (any ChappieConsentStore)?
    private let clock: any ChappieClock
    private let onDeviceCode: (@MainActor (ChappieDeviceCode) -> Void)?

    private var flow: SignInFlow
    private let states: StatusSubject<ChappieSignInState>
    private var follower: Task<Void, Never>?
    private var countdown: Task<Void, Never>?
    /// The task that sends the notification that the account is linked. It is sent even if the model is deallocated.
    private var notification: Task<Void, Never>?
    /// The running tasks, by their number.
    private var work: [Int: Task<Void, Never>] = [:]
    private var lastWork = 0
    private var cancellations = 0
    /// The number of SwiftUI's views that show this model.
    private var views = 0

    /// - Parameters:
    ///   - session: The session to sign in.
    ///   - showsOnboardingSheet: Whether a sheet shows the steps. Default `true`. With `false`, the page opens
    ///     automatically as soon as there is a code.
    ///   - requestsNotificationPermission: Whether the first ``signIn()`` asks the user. Default `true`. The
    ///     notification is sent in any case, unless the user has refused here.
    ///   - texts: The texts to show. Default: English, for the session's kind of sign-in.
    ///   - browser: Opens the page. Default none, so that the user opens it.
    ///   - clipboard: Receives the code. Default none.
    ///   - notifier: Notifies the user that the account is linked. Default: the session's notifier, if it has one.
    ///   - consents: Remembers who has agreed on the consent page (``ChappieSignInState/consent``). Default none, so that
    ///     there is no such page and the app asks by itself.
    ///   - clock: The clock for the countdown. Default: the machine's clock.
    ///   - onDeviceCode: Receives the code, for a program that shows it itself. Default none.
    public init(
        session: ChappieAuthSession, showsOnboardingSheet: Bool = true, requestsNotificationPermission: Bool = true,
        texts: ChappieSignInTexts? = nil, browser: (any Browser)? = nil,
        clipboard: (any Clipboard)? = nil, notifier: (any Notifier)? = nil,
        consents: (any ChappieConsentStore)? = nil, clock: any ChappieClock = SystemClock(),
        onDeviceCode: (@MainActor (ChappieDeviceCode) -> Void)? = nil
    ) {
        self.session = session
        self.browser = browser
        self.clipboard = clipboard
        self.consents = consents
        self.clock = clock
        self.onDeviceCode = onDeviceCode
        self.notifier = notifier ?? session.notifier
        let expectsCode = session.configuredGrant == .deviceCode
        let settings = SignInFlow.Settings(
            texts: texts ?? ChappieSignInTexts(for: session), showsSheet: showsOnboardingSheet,
            requestsPermission: requestsNotificationPermission,
            hasClipboard: clipboard != nil, hasBrowser: browser != nil, expectsCode: expectsCode,
            offersBrowser: expectsCode && session.canSignInWithBrowser)
        flow = SignInFlow(settings, session: session.state)
        states = StatusSubject(flow.state)
        let updates = session.stateUpdates
        follower = Task { [weak self] in
            for await _ in updates { self?.followSession() }
        }
    }

    deinit {
        follower?.cancel()
        countdown?.cancel()
    }

    /// The current state, which a user interface shows.
    public private(set) var state: ChappieSignInState {
        get { states.value }
        set {
            guard newValue != states.value else { return }
            #if canImport(Combine)
                objectWillChange.send()
            #endif
            states.set(newValue)
        }
    }

    /// A stream of the current ``state`` and then of every change in order, without gaps. Each call returns a new
    /// stream.
    public var stateUpdates: AsyncStream<ChappieSignInState> { states.updates() }
}

// MARK: Actions of the user

extension ChappieSignInModel {
    /// Starts a sign-in, for the button and for "try again". Does nothing while a sign-in is running. If the user is
    /// already signed in, the sign-in changes the account.
    public func signIn() { receive(.pressed) }

    /// Starts a sign-in with a browser on this machine, without a code. It replaces a running sign-in. It is for users
    /// whose workspace does not allow device codes. Offer it while ``ChappieSignInState/offersBrowser`` is true.
    public func signInWithBrowser() { receive(.pressedBrowser) }

    /// Continues with the sign-in after the user has agreed on the consent page, and remembers this for the session's
    /// slot. Does nothing without ``ChappieSignInState/consent``. To decline, call ``cancel()``.
    public func agree() { receive(.agreed) }

    /// Opens the page of the first step. Does nothing without a code or a browser.
    public func openPage() { receive(.pressedOpen) }

    /// Copies the code of the third step. Does nothing without a code or a clipboard.
    public func copyCode() { receive(.pressedCopy) }

    /// Ends the running sign-in and everything that belongs to it, or removes the message about the last sign-in. It is
    /// for the cancel button, and for closing the sheet.
    public func cancel() { receive(.closed) }

    /// Waits until the desktop has finished its work, including the notification, so that the program can end. It also
    /// waits for a running sign-in.
    public func settle() async {
        while let task = work.values.first { await task.value }
        await notification?.value
    }
}

// MARK: Views

extension ChappieSignInModel {
    /// Returns the model that runs a sign-in of `session`, for a view that takes the place of another one.
    static func running(for session: ChappieAuthSession) -> ChappieSignInModel? {
        guard let model = session.presenter as? ChappieSignInModel, model.state.isInProgress else { return nil }
        return model
    }

    /// Notes that one more view shows the model. If a sign-in is running, its sheet is shown again.
    func viewAppeared() {
        views += 1
        receive(.changedView(isShown: true))
    }

    /// Records that a view has disappeared. If no other view shows a running sign-in, the model opens the page.
    func viewDisappeared() {
        views -= 1
        if views == 0 { receive(.changedView(isShown: false)) }
    }
}

// MARK: Running the flow

extension ChappieSignInModel {
    private func receive(_ event: SignInFlow.Event) {
        flow.planUse = session.accountInfo?.planUse
        // A user may have agreed in another window. Later events don't depend on it.
        if !state.isInProgress { flow.needsConsent = consents?.hasConsent(for: session.slot) == false }
        var actions = flow.handle(event, now: clock.now)
        if actions.contains(.cancelSignIn) {
            actions.removeAll { $0 == .cancelSignIn }
            // This is done first, so that no user interface sees a cancelled sign-in that is still in progress.
            cancelSignIn()
        }
        let cancellations = cancellations
        state = flow.state
        countDown()
        // If the host cancels in the meantime, the remaining actions are skipped.
        for action in actions where cancellations == self.cancellations { perform(action) }
    }

    private func cancelSignIn() {
        cancellations += 1
        for task in work.values { task.cancel() }
        work = [:]
        session.cancelSignIn()
        _ = flow.handle(.changedSession(session.state), now: clock.now)
    }

    private func followSession() { receive(.changedSession(session.state)) }

    private func perform(_ action: SignInFlow.Action) {
        switch action {
        case .rememberConsent: consents?.addConsent(for: session.slot)
        case .askPermission: begin { [notifier] in .answeredPermission(await Self.askPermission(notifier)) }
        case .beginSignIn: signInToSession(by: nil)
        case .beginBrowserSignIn: signInToSession(by: .browser)
        case .cancelSignIn: cancelSignIn()
        case .handOut(let code): onDeviceCode?(code)
        case .copy(let text):
            guard let clipboard else { return }
            begin { .copied(await Self.copy(text, to: clipboard)) }
        case .open(let url):
            guard let browser else { return }
            let address = session.browserURL() ?? url
            begin { .opened(await Self.open(address, in: browser)) }
        case .notify(let title, let body):
            // A failure is ignored, because the user sees the sign-in when they return.
            notification = Task { [notifier] in try? await notifier?.notify(title: title, body: body) }
        }
    }

    /// Runs `body` in a task. Its event counts unless the task has been cancelled, or another code has replaced the
    /// current one.
    private func begin(_ body: @escaping @MainActor () async -> SignInFlow.Event) {
        lastWork += 1
        let id = lastWork
        let code = state.deviceCode
        work[id] = Task { [weak self] in
            guard !Task.isCancelled else { return }
            let event = await body()
            guard let self, !Task.isCancelled else { return }
            work[id] = nil
            if code == nil || state.deviceCode == nil || state.deviceCode == code { receive(event) }
        }
    }

    private func signInToSession(by grant: ChappieGrant?) {
        session.presenter = self
        // The task keeps the model, because the user is to be notified even if the app has removed the view.
        begin { [self] in
            do {
                try await session.signIn(by: grant, announces: false) { code in
                    if !Task.isCancelled { receive(.receivedCode(code)) }
                }
                // The session may be ahead of its stream.
                followSession()
                return .linked
            } catch {
                // Another part of the program may have signed the user in.
                if !Task.isCancelled { followSession() }
                let error = error as? ChappieAuthError ?? .cancelledSignIn
                return .failed(error, session.lastError == error ? session.lastStoreError : nil)
            }
        }
    }

    /// Starts the countdown while there is time left to show, and stops it otherwise.
    private func countDown() {
        if state.remaining == nil {
            countdown?.cancel()
            countdown = nil
        } else if countdown == nil {
            countdown = Task { [weak self, clock] in
                while (try? await clock.sleep(for: .seconds(1))) != nil { self?.receive(.secondPassed) }
            }
        }
    }

    private static func askPermission(_ notifier: (any Notifier)?) async -> DesktopError? {
        do throws(DesktopError) {
            try await notifier?.requestPermission()
            return nil
        } catch {
            return error
        }
    }

    private static func copy(
        _ text: String, to clipboard: any Clipboard
    ) async -> Result<ClipboardOutcome, DesktopError> {
        do throws(DesktopError) {
            return .success(try await clipboard.copy(text))
        } catch {
            return .failure(error)
        }
    }

    private static func open(_ url: URL, in browser: any Browser) async -> DesktopError? {
        do throws(DesktopError) {
            try await browser.open(url)
            return nil
        } catch {
            return error
        }
    }
}
