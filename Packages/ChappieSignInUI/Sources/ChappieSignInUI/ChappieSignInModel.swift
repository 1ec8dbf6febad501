@_spi(ChappieInternals) public import ChappieAuth
public import ChappieCore

#if canImport(Combine)
    public import Combine

    extension ChappieSignInModel: ObservableObject {}
#endif

/// The button "Sign in with ChatGPT" and its sheet, without a screen: a face shows ``state`` and calls the methods.
///
/// It asks for the permission to notify, gets a code, copies it, opens the page, counts down, waits for the approval and
/// notifies the user. A whole face for a terminal:
/// ```swift
/// let model = ChappieSignInModel(session: Chappie.authSession(), showsOnboardingSheet: false)
/// model.signIn()
/// var shown: ChappieDeviceCode?
/// for await state in model.stateUpdates {
///     if let code = state.deviceCode, code != shown { print("Enter \(code.userCode) at \(code.verificationURL)") }
///     shown = state.deviceCode
///     if let ending = state.ending { print(ending.words.sentence, ending.words.advice); break }
/// }
/// await model.finishPendingWork()
/// ```
/// An `ObservableObject` where Combine exists; on every platform ``stateUpdates`` tells of each change. When the model goes
/// away, the sign-in that it has begun is cancelled.
@MainActor
public final class ChappieSignInModel {
    /// The session that signs in.
    public let session: ChappieAuthSession
    private let browser: (any Browser)?
    private let clipboard: (any Clipboard)?
    private let notifier: (any Notifier)?
    private let clock: any ChappieClock
    private let onDeviceCode: (@MainActor (ChappieDeviceCode) -> Void)?

    private var flow: SignInFlow
    private let states: StatusSubject<ChappieSignInState>
    private var follower: Task<Void, Never>?
    private var countdown: Task<Void, Never>?
    /// Tells the user that the account is linked, whatever becomes of the model.
    private var notification: Task<Void, Never>?
    /// What was begun for the user and has not come to an end.
    private var work: [Int: Task<Void, Never>] = [:]
    private var lastWork = 0
    private var cancellations = 0

    /// - Parameters:
    ///   - session: what is signed in.
    ///   - showsOnboardingSheet: Default `true`. With `false` the page opens by itself as soon as there is a code.
    ///   - requestsNotificationPermission: whether the user is asked at the first ``signIn()``. Default `true`. The
    ///     notification is sent in any case, unless the user has refused here.
    ///   - texts: the words. Default: English.
    ///   - browser: opens the page. Default none: the user does.
    ///   - clipboard: takes the code. Default none.
    ///   - notifier: tells the user that the account is linked. Default: the session's, where it has one.
    ///   - clock: for the countdown. Default: the machine's.
    ///   - onDeviceCode: gets the code, for a program that shows it itself. Default none.
    public init(
        session: ChappieAuthSession, showsOnboardingSheet: Bool = true, requestsNotificationPermission: Bool = true,
        texts: ChappieSignInTexts = ChappieSignInTexts(), browser: (any Browser)? = nil,
        clipboard: (any Clipboard)? = nil, notifier: (any Notifier)? = nil, clock: any ChappieClock = SystemClock(),
        onDeviceCode: (@MainActor (ChappieDeviceCode) -> Void)? = nil
    ) {
        (self.session, self.browser, self.clipboard) = (session, browser, clipboard)
        (self.clock, self.onDeviceCode) = (clock, onDeviceCode)
        self.notifier = notifier ?? session.notifier
        let settings = SignInFlow.Settings(
            texts: texts, showsSheet: showsOnboardingSheet, requestsPermission: requestsNotificationPermission,
            hasClipboard: clipboard != nil, hasBrowser: browser != nil)
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
        for task in work.values { task.cancel() }
    }

    /// What a face shows now.
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

    /// The current ``state`` first, then every change in order, none left out. Each call gives a stream of its own.
    public var stateUpdates: AsyncStream<ChappieSignInState> { states.updates() }
}

// MARK: What a user does

extension ChappieSignInModel {
    /// Begins a sign-in: the button, and "try again". Nothing happens while one is running. A user who is signed in already
    /// changes the account with it.
    public func signIn() { receive(.pressed) }

    /// Opens the page of the first step. Nothing happens without a code or a browser.
    public func openPage() { receive(.pressedOpen) }

    /// Copies the code of the third step. Nothing happens without a code or a clipboard.
    public func copyCode() { receive(.pressedCopy) }

    /// Ends the sign-in that is running and everything that belongs to it, or puts the sentence about the last one away:
    /// the cancel button, and the sheet that is closed.
    public func cancel() { receive(.closed) }

    /// Waits until the desktop has done what it was asked, the notification included: for programs that end. While a sign-in
    /// is running it waits for that as well.
    public func finishPendingWork() async {
        while let task = work.values.first { await task.value }
        await notification?.value
    }
}

// MARK: Running the flow

extension ChappieSignInModel {
    private func receive(_ event: SignInFlow.Event) {
        var actions = flow.handle(event, now: clock.now)
        if actions.contains(.cancelSignIn) {
            actions.removeAll { $0 == .cancelSignIn }
            // It is first, so that no face sees a sign-in that is cancelled and still in progress.
            cancelSignIn()
        }
        let cancellations = cancellations
        state = flow.state
        countDown()
        // A host that cancels in the middle gets nothing of the rest.
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
        case .askPermission: begin { [notifier] in .answeredPermission(await Self.askPermission(notifier)) }
        case .beginSignIn: signInToSession()
        case .cancelSignIn: cancelSignIn()
        case .handOut(let code): onDeviceCode?(code)
        case .copy(let text):
            guard let clipboard else { return }
            begin { .copied(await Self.copy(text, to: clipboard)) }
        case .open(let url):
            guard let browser else { return }
            begin { .opened(await Self.open(url, in: browser)) }
        case .notify(let title, let body):
            // Best effort: the user learns of it when they come back.
            notification = Task { [notifier] in try? await notifier?.notify(title: title, body: body) }
        }
    }

    /// Does `body`, whose event counts unless it was cancelled meanwhile, or another code has taken the place of this one.
    private func begin(_ body: @escaping @MainActor () async -> SignInFlow.Event) {
        lastWork += 1
        let (id, code) = (lastWork, state.deviceCode)
        work[id] = Task { [weak self] in
            guard !Task.isCancelled else { return }
            let event = await body()
            guard let self, !Task.isCancelled else { return }
            work[id] = nil
            if code == nil || state.deviceCode == nil || state.deviceCode == code { receive(event) }
        }
    }

    private func signInToSession() {
        begin { [weak self, session] in
            do {
                try await session.signIn(announces: false) { [weak self] code in
                    if !Task.isCancelled { self?.receive(.receivedCode(code)) }
                }
                // The session may be further than its stream.
                self?.followSession()
                return .linked
            } catch {
                // A user who has been signed in elsewhere is signed in.
                if !Task.isCancelled { self?.followSession() }
                let error = error as? ChappieAuthError ?? .cancelledSignIn
                return .failed(error, session.lastError == error ? session.lastStoreError : nil)
            }
        }
    }

    /// A clock runs while there is something to count down.
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
        do throws(DesktopError) { try await notifier?.requestPermission() } catch { return error }
        return nil
    }

    private static func copy(
        _ text: String, to clipboard: any Clipboard
    ) async -> Result<ClipboardOutcome, DesktopError> {
        do throws(DesktopError) { return .success(try await clipboard.copy(text)) } catch { return .failure(error) }
    }

    private static func open(_ url: URL, in browser: any Browser) async -> DesktopError? {
        do throws(DesktopError) { try await browser.open(url) } catch { return error }
        return nil
    }
}
