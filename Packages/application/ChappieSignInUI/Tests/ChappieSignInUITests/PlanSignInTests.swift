import ChappieAuth
import ChappieCore
import ChappieTesting
import FoundationEssentials
import Testing

@testable import ChappieSignInUI

/// "Continue with ChatGPT": the browser comes back by itself, and the user's plan pays.
@Suite @MainActor struct PlanSignInTests {
    private static let start = Date(timeIntervalSince1970: 1_795_176_000)
    private static let page = URL(string: "https://auth.openai.com/api/accounts/authorize?state=s")!
    private static let code = ChappieDeviceCode(
        userCode: "", verificationURL: page, expiresAt: start.addingTimeInterval(900))

    private func flow(
        sheet: Bool = true, clipboard: Bool = true, session: ChappieAuthState = .signedOut
    ) -> SignInFlow {
        SignInFlow(
            SignInFlow.Settings(
                texts: .continueInBrowser, showsSheet: sheet, requestsPermission: false, hasClipboard: clipboard,
                expectsCode: false),
            session: session)
    }

    @Test func `the button is titled Continue with ChatGPT, and no step needs a code`() {
        var flow = flow()
        #expect(flow.state.title == "Continue with ChatGPT")
        #expect(flow.handle(.pressed, now: Self.start) == [.beginSignIn])
        #expect(flow.state.steps.map(\.kind) == [.openPage, .continueWithChatGPT])
        #expect(flow.handle(.receivedCode(Self.code), now: Self.start) == [.handOut(Self.code)])
        #expect(flow.state.steps.map(\.kind) == [.openPage, .continueWithChatGPT])
        #expect(flow.handle(.pressedCopy, now: Self.start).isEmpty)
        #expect(flow.handle(.pressedOpen, now: Self.start) == [.open(Self.page)])
        #expect(flow.state.countdown != nil)
    }

    @Test(arguments: [true, false]) func withoutTheSheetThePageOpensAtOnce(hasClipboard: Bool) {
        var flow = flow(sheet: false, clipboard: hasClipboard)
        _ = flow.handle(.pressed, now: Self.start)
        #expect(flow.handle(.receivedCode(Self.code), now: Self.start) == [.handOut(Self.code), .open(Self.page)])
    }

    @Test func aPageThatNeedsACodeAfterAllHasItsStep() {
        var flow = flow()
        _ = flow.handle(.pressed, now: Self.start)
        let code = ChappieDeviceCode(userCode: "ABCD", verificationURL: Self.page)
        #expect(flow.handle(.receivedCode(code), now: Self.start).contains(.copy("ABCD")))
        #expect(flow.state.steps.last?.kind == .enterCode)
    }

    @Test func thePlanIsSpokenOfAtTheFirstSignInAlone() {
        for (session, sentence) in [
            (ChappieAuthState.signedOut, "You're using your ChatGPT plan"),
            (.reauthenticationRequired, "ChatGPT Linked!"), (.signedIn(expiresAt: nil), "ChatGPT Linked!"),
        ] {
            var flow = flow(session: session)
            flow.planUse = .granted
            _ = flow.handle(.pressed, now: Self.start)
            let actions = flow.handle(.linked, now: Self.start)
            #expect(flow.state.ending?.words.sentence == sentence)
            #expect(flow.state.ending?.reason == .linked)
            guard case .notify(let title, _)? = actions.first else {
                Issue.record("no notification")
                continue
            }
            #expect(title == sentence)
        }
    }

    @Test func withoutThePermissionTheWordsSayWhatToDo() {
        var flow = flow()
        flow.planUse = .notGranted
        _ = flow.handle(.pressed, now: Self.start)
        _ = flow.handle(.linked, now: Self.start)
        let words = flow.state.ending?.words
        #expect(words?.sentence == ChappieAuthError.planUseNotGranted.errorDescription)
        #expect(words?.advice == ChappieAuthError.planUseNotGranted.recoverySuggestion)
    }

    @Test func aModelTakesTheWordsOfItsSession() {
        let plan = ChappieEndpoints.continueWithChatGPT(appName: "Test")
        let session = SeededAuth().session(endpoints: plan)
        #expect(ChappieSignInTexts(for: session) == .continueInBrowser)
        #expect(ChappieSignInTexts(for: SeededAuth().session()) == ChappieSignInTexts())
        let model = ChappieSignInModel(session: session)
        #expect(model.state.title == "Continue with ChatGPT" && model.state.steps.count == 2)
    }

    @Test func theWordsAreThoseOfTheGuidelines() {
        let texts = ChappieSignInTexts.continueInBrowser
        #expect(texts.signIn == "Continue with ChatGPT" && texts.usingPlan == "Using ChatGPT plan")
        #expect(texts.manageUsage == "Manage usage" && texts.usesPlan.sentence == "You're using your ChatGPT plan")
    }
}
