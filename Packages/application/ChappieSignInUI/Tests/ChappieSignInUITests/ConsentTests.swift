@_spi(ChappieInternals) import ChappieAuth
import ChappieCore
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Synchronization
import Testing

@testable import ChappieSignInUI

/// The page that asks whether data may be sent to OpenAI, before anything is sent.
@Suite @MainActor struct ConsentTests {
    private static let now = Date(timeIntervalSince1970: 1_795_176_000)
    private static let page = URL(string: "https://auth.openai.com/codex/device")!
    private static let code = ChappieDeviceCode(userCode: "ABCD-12345", verificationURL: page)

    private func flow(
        permission: Bool = true, offersBrowser: Bool = false, session: ChappieAuthState = .signedOut
    ) -> SignInFlow {
        var flow = SignInFlow(
            SignInFlow.Settings(requestsPermission: permission, offersBrowser: offersBrowser), session: session)
        flow.needsConsent = true
        return flow
    }

    // MARK: The flow

    @Test func `nothing is done before the user agrees, and the sheet stays until there is a code`() {
        var flow = flow()
        #expect(flow.handle(.pressed, now: Self.now).isEmpty)
        #expect(flow.state.consent == ChappieSignInTexts.Consent() && flow.state.isSheetPresented)
        #expect(flow.state.title == "Sign in with ChatGPT" && !flow.state.isEnabled && !flow.state.isInProgress)
        #expect(flow.handle(.pressed, now: Self.now).isEmpty)
        #expect(flow.handle(.agreed, now: Self.now) == [.rememberConsent, .askPermission])
        #expect(flow.state.consent == nil && flow.state.isSheetPresented && flow.state.isInProgress)
        #expect(flow.handle(.answeredPermission(nil), now: Self.now) == [.beginSignIn])
        #expect(flow.state.isSheetPresented && flow.state.steps.count == 3)
        #expect(flow.handle(.agreed, now: Self.now).isEmpty)
    }

    @Test func `closing the page ends without an error and cancels no sign-in`() {
        var flow = flow()
        _ = flow.handle(.pressed, now: Self.now)
        #expect(flow.handle(.closed, now: Self.now).isEmpty)
        #expect(flow.state == SignInFlow(SignInFlow.Settings(), session: .signedOut).state)
        #expect(flow.handle(.agreed, now: Self.now).isEmpty)
        _ = flow.handle(.pressed, now: Self.now)
        #expect(flow.state.consent != nil, "asked again")
    }

    @Test func `a sign-in with a browser asks as well, and its replacement does not`() {
        var flow = flow(permission: false, offersBrowser: true)
        #expect(flow.handle(.pressedBrowser, now: Self.now).isEmpty)
        #expect(flow.state.consent != nil && !flow.state.offersBrowser)
        #expect(flow.handle(.agreed, now: Self.now) == [.rememberConsent, .beginBrowserSignIn])
        _ = flow.handle(.closed, now: Self.now)
        _ = flow.handle(.pressed, now: Self.now)
        _ = flow.handle(.receivedCode(Self.code), now: Self.now)
        #expect(flow.handle(.pressedBrowser, now: Self.now) == [.cancelSignIn, .beginBrowserSignIn])
    }

    @Test(arguments: [ChappieAuthState.signingIn, .signedIn(expiresAt: nil)])
    func `the page closes when the user signs in in another window`(_ state: ChappieAuthState) {
        var flow = flow()
        _ = flow.handle(.pressed, now: Self.now)
        #expect(flow.handle(.changedSession(state), now: Self.now).isEmpty)
        #expect(flow.state.consent == nil && !flow.state.isSheetPresented && flow.state.ending == nil)
    }

    @Test func `a change of account keeps the page while the old account is signed in`() {
        var flow = flow(session: .signedIn(expiresAt: nil))
        _ = flow.handle(.pressed, now: Self.now)
        _ = flow.handle(.changedSession(.signedIn(expiresAt: Self.now)), now: Self.now)
        #expect(flow.state.consent != nil && flow.state.isSheetPresented)
    }

    @Test func `an app that asks by itself has no page`() {
        var texts = ChappieSignInTexts()
        texts.consent = nil
        var flow = SignInFlow(SignInFlow.Settings(texts: texts), session: .signedOut)
        flow.needsConsent = true
        #expect(flow.handle(.pressed, now: Self.now) == [.askPermission])
        #expect(flow.state.consent == nil)
    }

    @Test(arguments: [ChappieSignInTexts(), .continueInBrowser])
    func `the page names the receiver, the data, the way and the policy`(_ texts: ChappieSignInTexts) throws {
        let consent = try #require(texts.consent)
        let words = consent.paragraphs.joined(separator: " ")
        for part in [
            "OpenAI", "ChatGPT", "third party", "messages", "files", "pictures", "conversation", "instructions",
            "tools",
            "personal data", "from this device directly", "email address", "sign out",
        ] { #expect(words.contains(part), "\(part)") }
        #expect(consent.policyURL?.host() == "openai.com")
    }

    // MARK: The model

    private final class Consents: ChappieConsentStore {
        let slots = Mutex<Set<CredentialSlot>>([])

        func hasConsent(for slot: CredentialSlot) -> Bool { slots.withLock { $0.contains(slot) } }
        func addConsent(for slot: CredentialSlot) { _ = slots.withLock { $0.insert(slot) } }
    }

    /// A service that counts the requests, and answers none.
    private final class Service: Sendable {
        let paths = Mutex<[String]>([])

        func manager(_ account: String = "default") -> CredentialManager {
            CredentialManager(
                slot: CredentialSlot(account: account), store: InMemoryCredentialStore(),
                transport: ScriptedHTTPTransport { request in
                    self.paths.withLock { $0.append(request.url.path()) }
                    return .response(status: .notFound)
                }, endpoints: .chatGPT)
        }
    }

    private func ending(of model: ChappieSignInModel) async -> ChappieSignInEnding? {
        for await state in model.stateUpdates where state.ending != nil { return state.ending }
        return nil
    }

    @Test func `no request is sent before the user agrees, and the user is asked once for each slot`() async {
        let service = Service()
        let consents = Consents()
        let session = ChappieAuthSession(credentials: service.manager())
        let model = ChappieSignInModel(session: session, consents: consents)
        model.signIn()
        model.cancel()
        #expect(model.state.consent == nil && model.state.ending == nil && session.lastError == nil)
        #expect(session.deviceLinkState == .idle && consents.slots.withLock(\.isEmpty))
        model.signIn()
        await model.settle()
        #expect(model.state.consent != nil && service.paths.withLock(\.isEmpty) && session.state == .signedOut)
        model.agree()
        #expect(await ending(of: model)?.reason == .switchedOff)
        #expect(service.paths.withLock { !$0.isEmpty } && consents.hasConsent(for: session.slot))

        session.signOut()
        let later = ChappieSignInModel(session: session, consents: consents)
        later.signIn()
        #expect(later.state.consent == nil && later.state.isInProgress)
        later.cancel()

        let other = ChappieSignInModel(
            session: ChappieAuthSession(credentials: service.manager("other")), consents: consents)
        other.signIn()
        #expect(other.state.consent != nil)
    }

    @Test func `a window that was open before the user agreed in another one does not ask again`() {
        let service = Service()
        let consents = Consents()
        let session = ChappieAuthSession(credentials: service.manager())
        let models = (0..<2).map { _ in ChappieSignInModel(session: session, consents: consents) }
        models[0].signIn()
        models[0].agree()
        models[0].cancel()
        models[1].signIn()
        #expect(models[1].state.consent == nil && models[1].state.isInProgress)
        models[1].cancel()
    }

    @Test func `a model without a memory of consents asks nothing`() {
        let model = ChappieSignInModel(session: ChappieAuthSession(credentials: Service().manager()))
        model.signIn()
        #expect(model.state.consent == nil && model.state.isInProgress)
        model.cancel()
    }
}
