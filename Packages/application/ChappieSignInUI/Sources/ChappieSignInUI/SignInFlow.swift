import ChappieAuth
import ChappieCore

/// The state machine of a sign-in. It takes events, and returns actions and a state to show. It has no clock, task or
/// screen.
struct SignInFlow: Sendable {
    /// The settings of the user interface, and the desktop parts that it has.
    struct Settings: Sendable {
        var texts = ChappieSignInTexts()
        var showsSheet = true
        var requestsPermission = true
        var hasClipboard = true
        var hasBrowser = true
        /// Whether the user is expected to enter a code, before it is known for certain.
        var expectsCode = true
        /// Whether the user may sign in with a browser on this machine, without a code.
        var offersBrowser = false
    }

    /// An event of the sign-in.
    enum Event: Sendable {
        /// The user has pressed the button, or "try again".
        case pressed
        /// The user has pressed the button that uses a browser on this machine instead of a code.
        case pressedBrowser
        /// The user has agreed on the consent page.
        case agreed
        /// The user has answered whether notifications are allowed. `nil` means that they are.
        case answeredPermission(DesktopError?)
        case receivedCode(ChappieDeviceCode)
        case pressedCopy
        case copied(Result<ClipboardOutcome, DesktopError>)
        case pressedOpen
        case opened(DesktopError?)
        case secondPassed
        case linked
        case failed(ChappieAuthError, CredentialStoreError?)
        /// The user has pressed "Cancel", or has closed the sheet.
        case closed
        /// The session's state has changed, for any reason.
        case changedSession(ChappieAuthState)
        /// No view shows the flow any more, or one shows it again.
        case changedView(isShown: Bool)
    }

    /// The next step of the model. The model carries out the actions in order.
    enum Action: Sendable, Hashable {
        /// Remembers that the user has agreed, so that the consent page is not shown again.
        case rememberConsent
        case askPermission
        case beginSignIn
        /// Begins a sign-in with a browser on this machine, without a code.
        case beginBrowserSignIn
        /// Ends the sign-in and all of its work.
        case cancelSignIn
        case handOut(ChappieDeviceCode)
        case copy(String)
        case open(URL)
        case notify(title: String, body: String)
    }

    private enum Phase: Sendable {
        /// Next: `askingConsent`, `askingPermission`, `requestingCode`.
        case idle
        /// The sheet shows the consent page, and nothing is sent. Next: `askingPermission`, `requestingCode`, `idle`.
        case askingConsent
        /// Next: `requestingCode`, `ended`.
        case askingPermission
        /// Next: `waiting`, `ended`.
        case requestingCode
        /// Next: `ended`.
        case waiting(Prompt)
        /// Next: as from `idle`, or `idle` if the user closes the message or signs out.
        case ended(ChappieSignInEnding)
    }

    private struct Prompt: Sendable {
        let code: ChappieDeviceCode
        var remaining: Duration?
        var isCopied = false
        var isOpened = false
        /// Whether the page opens as soon as the clipboard has answered.
        var opensNext: Bool
    }

    private let settings: Settings
    private var phase = Phase.idle
    private var session: ChappieAuthState
    /// Whether the user was signed in at the beginning. In that case the sign-in changes the account, and does not end
    /// just because the user is signed in.
    private var wasSignedIn = false
    /// Whether the sign-in renews a sign-in that has expired.
    private var isRenewal = false
    /// Whether the user has chosen a browser on this machine instead of a code.
    private var usesBrowser = false
    /// Whether a view shows the flow. An app may remove the view as soon as the session signs in.
    private var isShown = true
    /// The user's decision about the plan, as the session currently knows it.
    var planUse: ChappiePlanUse?
    /// Whether the user has to agree before anything is sent, as the memory of consents currently knows it.
    var needsConsent = false
    /// Whether this sign-in began with the consent page. The sheet then stays until there is a code.
    private var hasShownConsent = false
    private var hasAskedPermission = false
    private var mayNotify = true
    private var notices: [ChappieSignInNotice] = []

    init(_ settings: Settings, session: ChappieAuthState) {
        self.settings = settings
        self.session = session
    }

    private var texts: ChappieSignInTexts { settings.texts }
    private var showsSheet: Bool { settings.showsSheet && isShown }

    private var isRunning: Bool {
        switch phase {
        case .idle, .askingConsent, .ended: false
        case .askingPermission, .requestingCode, .waiting: true
        }
    }

    private var isAskingConsent: Bool {
        if case .askingConsent = phase { true } else { false }
    }

    // MARK: Events

    /// Handles an event, and returns the actions that follow from it.
    ///
    /// - Parameter now: The wall clock, only for the countdown.
    mutating func handle(_ event: Event, now: Date) -> [Action] {
        switch (event, phase) {
        case (.pressed, .idle), (.pressed, .ended): return begin(withBrowser: false)
        case (.pressedBrowser, _) where !isRunning: return begin(withBrowser: true)
        case (.pressedBrowser, _) where !usesBrowser: return [.cancelSignIn] + begin(withBrowser: true)
        case (.agreed, .askingConsent):
            needsConsent = false
            hasShownConsent = true
            return [.rememberConsent] + askPermission()
        case (.answeredPermission(let refusal), .askingPermission):
            hasAskedPermission = true
            if let refusal {
                mayNotify = false
                note(.notifications, refusal)
            }
            phase = .requestingCode
            return [firstStep]
        case (.receivedCode(let code), .requestingCode): return show(code, now)
        case (.secondPassed, .waiting(var prompt)):
            prompt.remaining = Self.remaining(prompt.code, now)
            phase = .waiting(prompt)
            return []
        case (.pressedCopy, .waiting(let prompt)) where settings.hasClipboard && prompt.code.needsCode:
            return [.copy(prompt.code.userCode)]
        case (.pressedOpen, .waiting(let prompt)) where settings.hasBrowser: return [.open(prompt.code.verificationURL)]
        case (.copied(let result), _): return copied(result)
        case (.opened(let failure), _): return opened(failure)
        case (.linked, _) where isRunning: return end(.linked)
        case (.failed(let error, let storeError), _) where isRunning:
            var codeWasShown = false
            if case .waiting = phase { codeWasShown = true }
            return end(ChappieSignInEnding.Reason(error, storeError, codeWasShown: codeWasShown), error, storeError)
        case (.closed, _) where isRunning: return end(.cancelled, .cancelledSignIn) + [.cancelSignIn]
        case (.closed, _): return putAway()
        case (.changedSession(let state), _): return changed(state)
        case (.changedView(let isShown), _): return changedView(isShown)
        // This is a late answer, or a button that is no longer shown.
        default: return []
        }
    }

    private var firstStep: Action { usesBrowser ? .beginBrowserSignIn : .beginSignIn }

    private mutating func begin(withBrowser: Bool) -> [Action] {
        // The program itself has started a sign-in.
        guard !isSigningInElsewhere else { return [] }
        usesBrowser = withBrowser
        notices = []
        wasSignedIn = session.isSignedIn
        isRenewal = session == .reauthenticationRequired
        hasShownConsent = false
        guard needsConsent, texts.consent != nil else { return askPermission() }
        phase = .askingConsent
        return []
    }

    private mutating func askPermission() -> [Action] {
        guard settings.requestsPermission, !hasAskedPermission else {
            phase = .requestingCode
            return [firstStep]
        }
        phase = .askingPermission
        return [.askPermission]
    }

    private mutating func show(_ code: ChappieDeviceCode, _ now: Date) -> [Action] {
        let opensPage = !showsSheet && settings.hasBrowser
        let copiesCode = settings.hasClipboard && code.needsCode
        // The code must be in the clipboard before the page asks for it.
        let opensNow = opensPage && !copiesCode
        phase = .waiting(
            Prompt(code: code, remaining: Self.remaining(code, now), opensNext: opensPage && !opensNow))
        return [.handOut(code)] + (copiesCode ? [.copy(code.userCode)] : [])
            + (opensNow ? [.open(code.verificationURL)] : [])
    }

    /// Opens the page if its button is not shown any more. The code is in the clipboard.
    private mutating func changedView(_ isShown: Bool) -> [Action] {
        self.isShown = isShown
        guard !showsSheet, case .waiting(let prompt) = phase, !prompt.isOpened, !prompt.opensNext, settings.hasBrowser
        else { return [] }
        return [.open(prompt.code.verificationURL)]
    }

    private mutating func copied(_ result: Result<ClipboardOutcome, DesktopError>) -> [Action] {
        switch result {
        case .success(.copied): note(.clipboard, texts.codeCopied)
        case .success(.requested): note(.clipboard, texts.copyRequested)
        case .failure(let error): note(.clipboard, error)
        }
        guard case .waiting(var prompt) = phase else { return [] }
        let opensNow = prompt.opensNext
        prompt.opensNext = false
        prompt.isCopied = result == .success(.copied)
        phase = .waiting(prompt)
        return opensNow ? [.open(prompt.code.verificationURL)] : []
    }

    private mutating func opened(_ failure: DesktopError?) -> [Action] {
        if let failure { note(.browser, failure) } else { note(.browser, texts.pageOpened) }
        guard case .waiting(var prompt) = phase else { return [] }
        prompt.isOpened = failure == nil
        phase = .waiting(prompt)
        return []
    }

    private mutating func end(
        _ reason: ChappieSignInEnding.Reason, _ error: ChappieAuthError? = nil,
        _ storeError: CredentialStoreError? = nil
    ) -> [Action] {
        let words = reason == .linked ? linkedWords : texts.words(for: reason, storeError ?? error)
        phase = .ended(ChappieSignInEnding(reason: reason, words: words, error: error, storeError: storeError))
        return reason == .linked && mayNotify ? [.notify(title: words.sentence, body: words.advice)] : []
    }

    /// The texts for the end of a successful sign-in. They mention the plan once, and not at every renewal.
    private var linkedWords: ChappieSignInTexts.Words {
        switch planUse {
        case .granted where !wasSignedIn && !isRenewal: texts.usesPlan
        case .notGranted: texts.planNotAllowed
        default: texts.words(for: .linked, nil)
        }
    }

    private mutating func changed(_ state: ChappieAuthState) -> [Action] {
        let isNew = state.isSignedIn && !session.isSignedIn
        session = state
        if state.isSignedIn, !wasSignedIn, isRunning { return end(.linked) }
        // The user has agreed in another window, so this page has no purpose.
        if isAskingConsent, isNew || isSigningInElsewhere { return putAway() }
        guard case .ended(let ending) = phase else { return [] }
        // The message about an ending stays until the session's state contradicts it.
        switch (ending.reason, state) {
        case (.linked, .signedOut), (.linked, .reauthenticationRequired), (.linked, .failed): return putAway()
        case (.linked, _): return []
        default: return isNew ? putAway() : []
        }
    }

    private mutating func putAway() -> [Action] {
        phase = .idle
        notices = []
        return []
    }

    private mutating func note(_ part: ChappieSignInNotice.Part, _ sentence: String, isFailure: Bool = false) {
        notices.removeAll { $0.part == part }
        notices.append(ChappieSignInNotice(part: part, sentence: sentence, isFailure: isFailure))
    }

    private mutating func note(_ part: ChappieSignInNotice.Part, _ failure: DesktopError) {
        note(part, texts.failures[part] ?? failure.sentence, isFailure: true)
    }

    private static func remaining(_ code: ChappieDeviceCode, _ now: Date) -> Duration? {
        code.expiresAt.map { .seconds(max($0.timeIntervalSince(now), 0).rounded(.up)) }
    }

    // MARK: The state to show

    /// Whether the session signs in without this flow.
    private var isSigningInElsewhere: Bool {
        switch session {
        case .signingIn, .awaitingDeviceCode: !isRunning
        case .signedOut, .signedIn, .reauthenticationRequired, .failed: false
        }
    }

    /// The current state, for the user interface.
    var state: ChappieSignInState {
        var state = ChappieSignInState(title: title)
        state.isInProgress = isRunning || isSigningInElsewhere
        state.isEnabled = !state.isInProgress && !isAskingConsent
        state.consent = isAskingConsent ? texts.consent : nil
        state.isHidden = session.isSignedIn && !state.isInProgress
        state.notices = notices
        var current: Prompt?
        switch phase {
        case .idle: break
        case .askingConsent: state.isSheetPresented = showsSheet
        case .askingPermission: state.isSheetPresented = showsSheet && hasShownConsent
        case .requestingCode: state.isSheetPresented = showsSheet
        case .waiting(let prompt):
            state.isSheetPresented = showsSheet
            current = prompt
        case .ended(let ending):
            state.isSheetPresented = showsSheet && ending.reason != .linked && ending.reason != .cancelled
            state.ending = ending
        }
        state.offersBrowser = offersBrowser
        state.deviceCode = current?.code
        state.remaining = current?.remaining
        state.countdown = current?.remaining.map(texts.waiting)
        state.steps = [
            ChappieSignInStep(
                kind: .openPage, texts: texts.openPage, isEnabled: current != nil && settings.hasBrowser,
                isDone: current?.isOpened ?? false),
            ChappieSignInStep(kind: .continueWithChatGPT, texts: texts.continueWithChatGPT, isEnabled: current != nil),
            ChappieSignInStep(
                kind: .enterCode, texts: texts.enterCode, isEnabled: current != nil && settings.hasClipboard,
                isDone: current?.isCopied ?? false),
        ]
        let expectsCode = settings.expectsCode && !usesBrowser
        if !(current?.code.needsCode ?? expectsCode) { state.steps.removeLast() }
        return state
    }

    /// Whether to offer a sign-in with a browser. A workspace may forbid device codes. This is shown only on its page,
    /// or in a refusal.
    private var offersBrowser: Bool {
        guard settings.offersBrowser, !usesBrowser else { return false }
        switch phase {
        case .idle, .askingConsent, .askingPermission, .requestingCode: return false
        case .waiting(let prompt): return prompt.code.needsCode
        case .ended(let ending): return [.expired, .denied, .switchedOff, .service].contains(ending.reason)
        }
    }

    private var title: String {
        switch (phase, session) {
        case (.askingPermission, _), (.requestingCode, _): texts.preparing
        case (.waiting, _): texts.openSignIn
        case (_, .signingIn): texts.preparing
        case (_, .awaitingDeviceCode): texts.openSignIn
        default: texts.signIn
        }
    }
}
