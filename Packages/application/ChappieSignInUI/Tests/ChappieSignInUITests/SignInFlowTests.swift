import ChappieAuth
import FoundationEssentials
import Testing

@testable import ChappieSignInUI

private let start = Date(timeIntervalSince1970: 1_795_176_000)
private let page = URL(string: "https://auth.openai.com/codex/device")!
private let code = ChappieDeviceCode(
    userCode: "ABCD-12345", verificationURL: page, expiresAt: start.addingTimeInterval(900))
private let signIn = "Sign in with ChatGPT"
private let preparing = "Preparing sign in"
private let openSignIn = "Open ChatGPT sign in"
private let linked = SignInFlow.Action.notify(title: "ChatGPT Linked!", body: "Return to the app")
private let noPermission = DesktopError("Notifications are switched off for this program.")
private let noBrowser = DesktopError("There is no display here.")
private let noClipboard = DesktopError("There is no clipboard here.")
private let signedIn = ChappieAuthState.signedIn(expiresAt: nil)

/// A path through a sign-in: each event, with the button's title, the steps and the actions after it.
struct SignInPath: Sendable, CustomTestStringConvertible {
    struct Row: Sendable {
        let event: SignInFlow.Event
        let title: String
        /// A letter for each step: `-` can't be done now, `o` can be done, `x` is done.
        let steps: String
        let actions: [SignInFlow.Action]

        init(_ event: SignInFlow.Event, _ title: String, _ steps: String, _ actions: [SignInFlow.Action] = []) {
            self.event = event
            self.title = title
            self.steps = steps
            self.actions = actions
        }
    }

    let name: String
    var settings = SignInFlow.Settings()
    var session = ChappieAuthState.signedOut
    let rows: [Row]
    /// How it ends; `nil` when it is not over.
    let reason: ChappieSignInEnding.Reason?
    /// Parts of the two sentences at the end.
    var says: [String] = []
    var notices: [String] = []
    var isHidden = false
    var isSheetPresented = false

    var testDescription: String { name }
}

private typealias Row = SignInPath.Row

private func settings(
    sheet: Bool = true, permission: Bool = true, clipboard: Bool = true, browser: Bool = true
) -> SignInFlow.Settings {
    SignInFlow.Settings(
        showsSheet: sheet, requestsPermission: permission, hasClipboard: clipboard, hasBrowser: browser)
}

/// From the button to the code in the clipboard.
private let untilCode = [
    Row(.pressed, preparing, "---", [.askPermission]),
    Row(.answeredPermission(nil), preparing, "---", [.beginSignIn]),
    Row(.receivedCode(code), openSignIn, "ooo", [.handOut(code), .copy("ABCD-12345")]),
    Row(.copied(.success(.copied)), openSignIn, "oox"),
]
private let untilRequest = Array(untilCode.prefix(2))

private func failure(_ error: ChappieAuthError) -> Row { Row(.failed(error, nil), signIn, "---") }

private func failure(_ error: CredentialStoreError) -> Row {
    Row(.failed(.credentialStoreUnavailable(error), error), signIn, "---")
}

private let paths = [
    SignInPath(
        name: "approved",
        rows: untilCode + [
            Row(.pressedOpen, openSignIn, "oox", [.open(page)]), Row(.opened(nil), openSignIn, "xox"),
            Row(.pressedCopy, openSignIn, "xox", [.copy("ABCD-12345")]),
            Row(.copied(.success(.requested)), openSignIn, "xoo"), Row(.linked, signIn, "---", [linked]),
            Row(.changedSession(signedIn), signIn, "---"),
        ],
        reason: .linked, says: ["ChatGPT Linked!", "Return to the app"],
        notices: ["A browser was asked to open the page.", "The terminal was asked to copy the code"], isHidden: true),
    SignInPath(
        name: "approved, the session says it first",
        rows: untilCode + [
            Row(.changedSession(signedIn), signIn, "---", [linked]), Row(.linked, signIn, "---"),
        ],
        reason: .linked, isHidden: true),
    SignInPath(
        name: "approved without the sheet", settings: settings(sheet: false),
        rows: untilCode.dropLast() + [
            Row(.copied(.success(.copied)), openSignIn, "oox", [.open(page)]), Row(.opened(nil), openSignIn, "xox"),
            Row(.linked, signIn, "---", [linked]),
        ],
        reason: .linked, notices: ["The code is in your clipboard.", "A browser was asked to open the page."]),
    SignInPath(
        name: "signed out after it was approved",
        rows: untilCode + [
            Row(.linked, signIn, "---", [linked]), Row(.changedSession(signedIn), signIn, "---"),
            Row(.changedSession(.signedOut), signIn, "---"),
        ],
        reason: nil),
    SignInPath(
        name: "signing in is required again after it was approved",
        rows: untilCode + [
            Row(.linked, signIn, "---", [linked]), Row(.changedSession(signedIn), signIn, "---"),
            Row(.changedSession(.reauthenticationRequired), signIn, "---"),
        ],
        reason: nil),
    SignInPath(
        name: "signed in elsewhere after it failed",
        rows: untilCode + [failure(.expiredDeviceCode), Row(.changedSession(signedIn), signIn, "---")],
        reason: nil, isHidden: true),
    SignInPath(
        name: "cancelled instead of an answer about the permission: it is asked for again",
        rows: [
            untilCode[0], Row(.closed, signIn, "---", [.cancelSignIn]),
            Row(.pressed, preparing, "---", [.askPermission]),
        ],
        reason: nil),
    SignInPath(
        name: "the permission is asked for once",
        rows: untilCode + [
            Row(.closed, signIn, "---", [.cancelSignIn]), Row(.pressed, preparing, "---", [.beginSignIn]),
        ],
        reason: nil, isSheetPresented: true),
    SignInPath(
        name: "the permission is not asked for", settings: settings(permission: false),
        rows: [
            Row(.pressed, preparing, "---", [.beginSignIn]),
            Row(.receivedCode(code), openSignIn, "ooo", [.handOut(code), .copy("ABCD-12345")]),
            Row(.linked, signIn, "---", [linked]),
        ],
        reason: .linked),
    SignInPath(
        name: "pressed twice", rows: untilCode + [Row(.pressed, openSignIn, "oox")], reason: nil,
        isSheetPresented: true),
    SignInPath(
        name: "expired", rows: untilCode + [failure(.expiredDeviceCode)], reason: .expired,
        says: ["The code was not approved before it expired.", "Start again"], isSheetPresented: true),
    SignInPath(
        name: "not approved within 15 minutes", rows: untilCode + [failure(.pollingTimeout)], reason: .expired,
        says: ["within 15 minutes", "Start again"], isSheetPresented: true),
    SignInPath(
        name: "denied", rows: untilCode + [failure(.authorizationDenied("The person refused."))], reason: .denied,
        says: ["The person refused.", "Sign in again if this was not what you wanted."], isSheetPresented: true),
    SignInPath(
        name: "device sign-in switched off",
        rows: untilRequest + [failure(.authorizationDenied("Device sign-in is switched off."))],
        reason: .switchedOff, says: ["Device sign-in is switched off.", "once it is switched on"],
        isSheetPresented: true),
    SignInPath(
        name: "no network before the code", rows: untilRequest + [failure(.networkFailure("No route to issuer.test."))],
        reason: .network, says: ["No route to issuer.test.", "Check the network"], isSheetPresented: true),
    SignInPath(
        name: "no network after the code", rows: untilCode + [failure(.networkFailure("No route to issuer.test."))],
        reason: .network, says: ["No route to issuer.test.", "Check the network"], isSheetPresented: true),
    SignInPath(
        name: "the service fails",
        rows: untilCode + [failure(.tokenExchangeFailed(statusCode: 503, body: ""))],
        reason: .service, says: ["503", "try again in a moment"], isSheetPresented: true),
    SignInPath(
        name: "an answer that is none", rows: untilRequest + [failure(.invalidResponse)], reason: .service,
        says: ["could not be understood", "Check that the configured issuer"], isSheetPresented: true),
    SignInPath(
        name: "no keyring", rows: untilRequest + [failure(.absent("there is no bus"))],
        reason: .noKeyring, says: ["No keyring is available: there is no bus.", "Start a keyring service"],
        isSheetPresented: true),
    SignInPath(
        name: "locked keyring", rows: untilRequest + [failure(.locked("nobody unlocked it"))],
        reason: .keyringLocked, says: ["The keyring is locked", "Unlock the keyring"], isSheetPresented: true),
    SignInPath(
        name: "the keyring is locked while the credential is saved",
        rows: untilCode + [failure(.locked("it was locked"))],
        reason: .keyringLocked, says: ["The keyring is locked", "Unlock the keyring"], isSheetPresented: true),
    SignInPath(
        name: "a store that fails", rows: untilCode + [failure(CredentialStoreError.notVerified)], reason: .store,
        says: ["gave back something else", "Check the keyring service"], isSheetPresented: true),
    SignInPath(
        name: "anything else", rows: untilCode + [failure(.unknown("Something happened."))], reason: .failed,
        says: ["Something happened.", "Try again"], isSheetPresented: true),
    SignInPath(
        name: "cancelled while the permission is asked for",
        rows: [
            untilCode[0], Row(.closed, signIn, "---", [.cancelSignIn]),
            Row(.answeredPermission(nil), signIn, "---"),
        ],
        reason: .cancelled, says: ["Sign-in was cancelled.", "Start again when you are ready."]),
    SignInPath(
        name: "cancelled while the code is asked for",
        rows: untilRequest + [
            Row(.closed, signIn, "---", [.cancelSignIn]), Row(.receivedCode(code), signIn, "---"),
            failure(.cancelledSignIn),
        ],
        reason: .cancelled),
    SignInPath(
        name: "cancelled while the code waits",
        rows: untilCode + [
            Row(.closed, signIn, "---", [.cancelSignIn]), Row(.secondPassed, signIn, "---"),
            Row(.pressedOpen, signIn, "---"), Row(.pressedCopy, signIn, "---"),
        ],
        reason: .cancelled, notices: ["The code is in your clipboard."]),
    SignInPath(
        name: "cancelled by the program", rows: untilCode + [failure(.cancelledSignIn)], reason: .cancelled),
    SignInPath(
        name: "cancelled, and tried again",
        rows: untilCode + [
            Row(.closed, signIn, "---", [.cancelSignIn]), Row(.pressed, preparing, "---", [.beginSignIn]),
            Row(.receivedCode(code), openSignIn, "ooo", [.handOut(code), .copy("ABCD-12345")]),
            Row(.linked, signIn, "---", [linked]),
        ],
        reason: .linked),
    SignInPath(
        name: "failed, and put away",
        rows: untilCode + [failure(.expiredDeviceCode), Row(.closed, signIn, "---"), Row(.closed, signIn, "---")],
        reason: nil),
    SignInPath(
        name: "failed, and tried again",
        rows: untilCode + [failure(.expiredDeviceCode), Row(.pressed, preparing, "---", [.beginSignIn])],
        reason: nil, isSheetPresented: true),
    SignInPath(
        name: "signed in elsewhere while the code is asked for",
        rows: untilRequest + [
            Row(.changedSession(.signingIn), preparing, "---"),
            Row(.changedSession(signedIn), signIn, "---", [linked]), failure(.cancelledSignIn),
        ],
        reason: .linked, isHidden: true),
    SignInPath(
        name: "signed in elsewhere while nothing runs",
        rows: [
            Row(.changedSession(.signingIn), preparing, "---"), Row(.pressed, preparing, "---"),
            Row(
                .changedSession(.awaitingDeviceCode(userCode: "ABCD-12345", verificationURL: page)), openSignIn, "---"),
            Row(.changedSession(signedIn), signIn, "---"),
        ],
        reason: nil, isHidden: true),
    SignInPath(
        name: "a change of account is not over while the old one is signed in", session: signedIn,
        rows: untilCode + [Row(.changedSession(signedIn), openSignIn, "oox"), failure(.expiredDeviceCode)],
        reason: .expired, isHidden: true, isSheetPresented: true),
    SignInPath(
        name: "notification refused",
        rows: [
            untilCode[0], Row(.answeredPermission(noPermission), preparing, "---", [.beginSignIn]),
            Row(.receivedCode(code), openSignIn, "ooo", [.handOut(code), .copy("ABCD-12345")]),
            Row(.linked, signIn, "---"),
        ],
        reason: .linked, notices: [noPermission.sentence]),
    SignInPath(
        name: "no browser",
        rows: untilCode + [
            Row(.pressedOpen, openSignIn, "oox", [.open(page)]), Row(.opened(noBrowser), openSignIn, "oox"),
            Row(.linked, signIn, "---", [linked]),
        ],
        reason: .linked, notices: ["The code is in your clipboard.", noBrowser.sentence]),
    SignInPath(
        name: "a face without a browser", settings: settings(sheet: false, permission: false, browser: false),
        rows: [
            Row(.pressed, preparing, "---", [.beginSignIn]),
            Row(.receivedCode(code), openSignIn, "-oo", [.handOut(code), .copy("ABCD-12345")]),
            Row(.copied(.success(.copied)), openSignIn, "-ox"), Row(.pressedOpen, openSignIn, "-ox"),
        ],
        reason: nil),
    SignInPath(
        name: "no clipboard",
        rows: untilCode.dropLast() + [
            Row(.copied(.failure(noClipboard)), openSignIn, "ooo"),
            Row(.pressedCopy, openSignIn, "ooo", [.copy("ABCD-12345")]), Row(.linked, signIn, "---", [linked]),
        ],
        reason: .linked, notices: [noClipboard.sentence]),
    SignInPath(
        name: "no clipboard and no sheet: the page opens all the same", settings: settings(sheet: false),
        rows: untilCode.dropLast() + [
            Row(.copied(.failure(noClipboard)), openSignIn, "ooo", [.open(page)]),
            Row(.opened(noBrowser), openSignIn, "ooo"),
        ],
        reason: nil, notices: [noClipboard.sentence, noBrowser.sentence]),
    SignInPath(
        name: "a face without a clipboard", settings: settings(sheet: false, permission: false, clipboard: false),
        rows: [
            Row(.pressed, preparing, "---", [.beginSignIn]),
            Row(.receivedCode(code), openSignIn, "oo-", [.handOut(code), .open(page)]),
            Row(.pressedCopy, openSignIn, "oo-"),
        ],
        reason: nil),
]

@Suite struct SignInFlowTests {
    @Test(arguments: paths) func eachPathHasItsTitlesStepsAndActions(_ path: SignInPath) {
        var flow = SignInFlow(path.settings, session: path.session)
        #expect(flow.state.title == signIn)
        for (index, row) in path.rows.enumerated() {
            #expect(flow.handle(row.event, now: start) == row.actions, "row \(index): \(row.event)")
            let state = flow.state
            #expect(state.title == row.title, "row \(index): \(row.event)")
            #expect(
                String(state.steps.map { $0.isDone ? "x" : $0.isEnabled ? "o" : "-" }) == row.steps,
                "row \(index): \(row.event)")
            #expect(state.isInProgress == (row.title != signIn) && state.isEnabled == !state.isInProgress)
        }
        let state = flow.state
        #expect(state.ending?.reason == path.reason)
        for words in path.says {
            let ending = "\(state.ending?.words.sentence ?? "") \(state.ending?.words.advice ?? "")"
            #expect(ending.contains(words), "\(ending)")
        }
        #expect(state.ending.map { !$0.words.sentence.isEmpty && !$0.words.advice.isEmpty } ?? true)
        for words in path.notices { #expect(state.notices.contains { $0.sentence.hasPrefix(words) }, "\(words)") }
        #expect(state.isHidden == path.isHidden)
        #expect(state.isSheetPresented == path.isSheetPresented)
    }

    @Test func theStepsAreInTheirOrderAndInWords() {
        let steps = SignInFlow(SignInFlow.Settings(), session: .signedOut).state.steps
        #expect(steps.map(\.kind) == ChappieSignInStep.Kind.allCases)
        #expect(steps.map(\.texts.title) == ["Open OpenAI", "Continue with ChatGPT", "Paste your device code"])
    }

    @Test func theExpiryIsCountedDownToZero() {
        var flow = SignInFlow(settings(permission: false), session: .signedOut)
        _ = flow.handle(.pressed, now: start)
        #expect(flow.state.countdown == nil)
        _ = flow.handle(.receivedCode(code), now: start)
        #expect(flow.state.remaining == .seconds(900))
        for (seconds, words) in [(0.4, "15:00"), (1, "14:59"), (840.5, "1:00"), (841, "0:59"), (2000, "0:00")] {
            _ = flow.handle(.secondPassed, now: start.addingTimeInterval(seconds))
            #expect(flow.state.countdown == "Waiting for approval: \(words) left")
        }
        _ = flow.handle(.failed(.expiredDeviceCode, nil), now: start)
        #expect(flow.state.remaining == nil && flow.state.countdown == nil)
    }

    @Test func aCodeThatNamesNoEndIsNotCountedDown() {
        var flow = SignInFlow(settings(permission: false), session: .signedOut)
        _ = flow.handle(.pressed, now: start)
        _ = flow.handle(.receivedCode(ChappieDeviceCode(userCode: "A", verificationURL: page)), now: start)
        #expect(flow.state.deviceCode?.userCode == "A" && flow.state.countdown == nil)
    }

    @Test func everyWordCanBeReplaced() {
        var texts = ChappieSignInTexts()
        texts.signIn = "Anmelden"
        texts.preparing = "Wird vorbereitet"
        texts.openSignIn = "Anmeldung öffnen"
        texts.enterCode = .init("Gib den Code ein", "Auf der Seite.", button: "Kopieren")
        texts.waiting = "Noch {time}"
        texts.codeCopied = "Kopiert."
        texts.endings[.linked] = .init("Verbunden!", "Zurück zur App")
        texts.failures[.browser] = "Kein Browser."
        texts.endings[.expired] = .init("Der Code ist abgelaufen.", "Fordere einen neuen an.")
        var flow = SignInFlow(SignInFlow.Settings(texts: texts, requestsPermission: false), session: .signedOut)
        #expect(flow.state.title == "Anmelden")
        _ = flow.handle(.pressed, now: start)
        #expect(flow.state.title == "Wird vorbereitet")
        _ = flow.handle(.receivedCode(code), now: start)
        _ = flow.handle(.copied(.success(.copied)), now: start)
        #expect(flow.state.title == "Anmeldung öffnen" && flow.state.countdown == "Noch 15:00")
        #expect(flow.state.steps.last?.texts.button == "Kopieren")
        _ = flow.handle(.opened(noBrowser), now: start)
        #expect(flow.state.notices.map(\.sentence) == ["Kopiert.", "Kein Browser."])
        var other = flow
        #expect(flow.handle(.linked, now: start) == [.notify(title: "Verbunden!", body: "Zurück zur App")])
        _ = other.handle(.failed(.expiredDeviceCode, nil), now: start)
        #expect(other.state.ending?.words.advice == "Fordere einen neuen an.")
    }

    // MARK: A browser instead of a code

    private func offering(session: ChappieAuthState = .signedOut) -> SignInFlow {
        SignInFlow(
            SignInFlow.Settings(showsSheet: true, requestsPermission: false, offersBrowser: true), session: session)
    }

    @Test func `a browser is offered while a code waits and takes its place`() {
        var flow = offering()
        let now = Date(timeIntervalSince1970: 1_795_176_000)
        let page = URL(string: "https://auth.openai.com/codex/device")!
        #expect(!flow.state.offersBrowser)
        #expect(flow.handle(.pressed, now: now) == [.beginSignIn])
        #expect(!flow.state.offersBrowser)
        _ = flow.handle(.receivedCode(ChappieDeviceCode(userCode: "ABCD", verificationURL: page)), now: now)
        #expect(flow.state.offersBrowser && flow.state.steps.count == 3)
        #expect(flow.handle(.pressedBrowser, now: now) == [.cancelSignIn, .beginBrowserSignIn])
        #expect(!flow.state.offersBrowser)
        #expect(flow.state.isInProgress)
        #expect(flow.state.steps.count == 2)
        #expect(flow.handle(.pressedBrowser, now: now).isEmpty)
        _ = flow.handle(.receivedCode(ChappieDeviceCode(userCode: "", verificationURL: page)), now: now)
        #expect(flow.state.deviceCode?.needsCode == false && !flow.state.offersBrowser)
        _ = flow.handle(.linked, now: now)
        #expect(flow.state.ending?.reason == .linked && !flow.state.offersBrowser)
    }

    @Test(arguments: [
        (ChappieAuthError.expiredDeviceCode, true), (.authorizationDenied("No."), true),
        (.tokenExchangeFailed(statusCode: 403, body: #"{"error":"device_code_disabled"}"#), true),
        (.networkFailure("Down."), false), (.cancelledSignIn, false),
    ])
    func `a browser is offered after a code was of no use`(_ error: ChappieAuthError, _ isOffered: Bool) {
        var flow = offering()
        let now = Date(timeIntervalSince1970: 1_795_176_000)
        _ = flow.handle(.pressed, now: now)
        _ = flow.handle(.failed(error, nil), now: now)
        #expect(flow.state.offersBrowser == isOffered)
        #expect(!isOffered || flow.handle(.pressedBrowser, now: now) == [.beginBrowserSignIn])
    }
}
