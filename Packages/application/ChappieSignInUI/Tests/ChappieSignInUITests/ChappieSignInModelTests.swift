import ChappieAuth
import ChappieCore
import ChappieHTTP
import ChappieSimulatorServer
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Synchronization
import Testing

@testable import ChappieSignInUI

/// The model over a session, with the service, the store, the desktop and the clock in memory.
@MainActor
@Suite struct ChappieSignInModelTests {
    nonisolated private static let usercode = "/api/accounts/deviceauth/usercode"
    nonisolated private static let poll = "/api/accounts/deviceauth/token"
    nonisolated private static let pending = answer(
        #"{"error":{"code":"deviceauth_authorization_pending"}}"#, .forbidden)
    nonisolated private static let code = answer(#"{"device_auth_id":"d1","user_code":"ABCD-12345","interval":"0"}"#)
    nonisolated private static let approved = answer(
        #"{"status":"success","authorization_code":"ac_1","code_challenge":"c","code_verifier":"verifier_1"}"#)

    nonisolated private static func answer(_ body: String, _ status: HTTPResponse.Status = .ok) -> ScriptedHTTPAnswer {
        .response(status: status, headerFields: [.contentType: "application/json"], body: body)
    }

    /// A user in front of a service that gives a code and waits for the approval, unless a test says otherwise.
    @MainActor
    private final class Stand {
        let clock = ManualClock()
        let store = InMemoryCredentialStore()
        let desktop: RecordingDesktop
        let answers: Mutex<[String: ScriptedHTTPAnswer]>
        var endpoints = ChappieEndpoints(
            issuer: URL(string: "https://issuer.test")!, backend: URL(string: "https://backend.test/backend-api")!)

        init(_ answers: [String: ScriptedHTTPAnswer] = [:], desktop: RecordingDesktop = RecordingDesktop()) {
            self.desktop = desktop
            let rest = [
                ChappieSignInModelTests.usercode: code, ChappieSignInModelTests.poll: pending,
                "/oauth/token": ChappieSignInModelTests.answer(SeededAuth().tokenAnswer),
            ]
            self.answers = Mutex(answers.merging(rest) { given, _ in given })
        }

        func play(_ path: String, _ answer: ScriptedHTTPAnswer) { answers.withLock { $0[path] = answer } }

        lazy var manager = CredentialManager(
            slot: CredentialSlot(issuer: endpoints.credentialIssuer), store: store,
            transport: ScriptedHTTPTransport(clock: clock) { [weak self] request in
                self?.answers.withLock { $0[request.url.path()] } ?? .response(status: .notFound)
            }, endpoints: endpoints, clock: clock)

        func model(
            _ session: ChappieAuthSession? = nil, sheet: Bool = true, notifier: (any Notifier)? = nil,
            clipboard: (any Clipboard)? = nil, onDeviceCode: (@MainActor (ChappieDeviceCode) -> Void)? = nil
        ) -> ChappieSignInModel {
            ChappieSignInModel(
                session: session ?? ChappieAuthSession(credentials: manager), showsOnboardingSheet: sheet,
                browser: desktop, clipboard: clipboard ?? desktop, notifier: notifier ?? desktop, clock: clock,
                onDeviceCode: onDeviceCode)
        }

        /// The user has approved; the next poll says so.
        func approve() async {
            // The countdown and the pause between two polls. An approval before the first poll would leave no pause.
            await clock.waitForSleepers(count: 2, due: .seconds(1))
            play(ChappieSignInModelTests.poll, approved)
            clock.advance(by: .seconds(5))
        }
    }

    /// Waits for a state.
    private func state(
        of model: ChappieSignInModel, where isWanted: (ChappieSignInState) -> Bool
    ) async -> ChappieSignInState? {
        for await state in model.stateUpdates where isWanted(state) { return state }
        return nil
    }

    /// Presses the button and waits for the end.
    private func ending(of model: ChappieSignInModel) async -> ChappieSignInEnding? {
        model.signIn()
        return await state(of: model) { $0.ending != nil }?.ending
    }

    private func isQuiet(_ it: Stand, _ model: ChappieSignInModel) async -> Bool {
        await model.settle()
        while it.clock.sleeperCount > 0 { await Task.yield() }
        return !model.state.isInProgress && !model.state.isSheetPresented && model.state.deviceCode == nil
    }

    // MARK: The way it goes

    @Test func aSignInGoesThroughItsTitlesAndEndsLinked() async {
        let it = Stand()
        var codes: [String] = []
        let model = it.model { codes.append($0.userCode) }
        let updates = model.stateUpdates
        model.signIn()
        #expect(await state(of: model) { $0.steps.last?.isDone == true }?.isSheetPresented == true)
        #expect(it.desktop.copiedTexts == ["ABCD-12345"] && it.desktop.openedURLs.isEmpty)
        model.openPage()
        #expect(await state(of: model) { $0.steps.first?.isDone == true } != nil)
        #expect(it.desktop.openedURLs.map(\.absoluteString) == ["https://issuer.test/codex/device"])
        await it.approve()
        #expect(await state(of: model) { $0.ending != nil }?.ending?.reason == .linked)
        #expect(await isQuiet(it, model) && model.state.isHidden && model.session.accountInfo != nil)
        #expect(codes == ["ABCD-12345"] && it.desktop.permissionRequests == 1)
        #expect(it.desktop.notifications.map { [$0.title, $0.body] } == [["ChatGPT Linked!", "Return to the app"]])
        var titles: [String] = []
        for await state in updates {
            if titles.last != state.title { titles.append(state.title) }
            if state.ending != nil { break }
        }
        #expect(
            titles == ["Sign in with ChatGPT", "Preparing sign in", "Open ChatGPT sign in", "Sign in with ChatGPT"])
        model.session.signOut()
        #expect(await state(of: model) { !$0.isHidden && $0.ending == nil } != nil)
    }

    @Test func `without the sheet, the page opens by itself and the session notifies once`() async {
        let it = Stand()
        let notifier = RecordingDesktop()
        let model = ChappieSignInModel(
            session: ChappieAuthSession(credentials: it.manager, notifier: notifier), showsOnboardingSheet: false,
            requestsNotificationPermission: false, browser: it.desktop, clipboard: it.desktop, clock: it.clock)
        model.signIn()
        #expect(await state(of: model) { $0.steps.first?.isDone == true }?.isSheetPresented == false)
        #expect(it.desktop.openedURLs.count == 1 && it.desktop.copiedTexts.count == 1)
        await it.approve()
        #expect(await state(of: model) { $0.ending != nil }?.ending?.reason == .linked)
        await model.settle()
        #expect(notifier.notifications.count == 1 && notifier.permissionRequests == 0)
    }

    @Test func `a desktop that refuses everything does not stop a sign-in`() async {
        let refusal = DesktopError("Not here.")
        let it = Stand(desktop: RecordingDesktop(failingWith: refusal))
        let model = it.model(sheet: false)
        model.signIn()
        let seen = await state(of: model) { $0.notices.count == 3 }
        #expect(seen?.notices.map(\.part) == [.notifications, .clipboard, .browser])
        #expect(seen?.notices.allSatisfy { $0.isFailure && $0.sentence == "Not here." } == true)
        await it.approve()
        #expect(await state(of: model) { $0.ending != nil }?.ending?.reason == .linked)
        await model.settle()
        #expect(it.desktop.notifications.isEmpty)
    }

    @Test func theTimeThatIsLeftIsCountedDown() async {
        let it = Stand()
        let model = it.model()
        model.signIn()
        #expect(await state(of: model) { $0.countdown != nil }?.remaining == .seconds(900))
        for remaining in [899, 898] {
            await it.clock.waitForSleepers(count: 2, due: .seconds(1))
            it.clock.advance(by: .seconds(1))
            #expect(await state(of: model) { $0.remaining == .seconds(remaining) } != nil)
        }
        model.cancel()
        #expect(await isQuiet(it, model))
    }

    // MARK: The ways it ends

    @Test func overRealSocketsItEndsAsTheUserDecides() async throws {
        let simulator = try await Simulator.start(SimulatorConfiguration(pollInterval: 0))
        let transport = CurlHTTPTransport(policy: ChappieNetworkPolicy(proxy: .none))
        for approves in [false, true] {
            let manager = CredentialManager(
                slot: CredentialSlot(), store: InMemoryCredentialStore(), transport: transport,
                endpoints: ChappieEndpoints(issuer: simulator.issuer, backend: simulator.backend))
            let model = ChappieSignInModel(session: ChappieAuthSession(credentials: manager)) { code in
                #expect(throws: Never.self) {
                    if approves {
                        try simulator.approve(userCode: code.userCode)
                    } else {
                        try simulator.refuse(userCode: code.userCode)
                    }
                }
            }
            #expect(await ending(of: model)?.reason == (approves ? .linked : .denied))
            #expect(model.session.state.isSignedIn == approves)
        }
        transport.shutdown()
        await simulator.stop()
    }

    @Test(
        arguments: [
            (usercode, answer("{}", .notFound), .switchedOff, "#settings/Security"),
            (
                usercode,
                .failure(
                    ChappieTransportError(.connectFailed, stage: .connect, host: "issuer.test", reason: "no route")),
                .network, "issuer.test"
            ),
            (usercode, answer("{}", .internalServerError), .service, "500"),
            (usercode, answer("{}"), .service, "understood"),
            (poll, answer(#"{"error":{"code":"access_denied","message":"No."}}"#, .badRequest), .denied, "No."),
            (poll, answer(#"{"error":"expired_token"}"#, .badRequest), .expired, "expired"),
        ] as [(String, ScriptedHTTPAnswer, ChappieSignInEnding.Reason, String)])
    func eachFailureHasItsReason(
        _ path: String, _ answer: ScriptedHTTPAnswer, _ reason: ChappieSignInEnding.Reason, _ words: String
    ) async {
        let it = Stand([path: answer])
        let model = it.model()
        let ending = await ending(of: model)
        #expect(ending?.reason == reason && ending?.words.sentence.contains(words) == true, "\(ending as Any)")
        #expect(model.state.isSheetPresented)
        #expect(model.state.isEnabled)
        #expect(model.state.title == "Sign in with ChatGPT")
        model.cancel()
        #expect(await isQuiet(it, model) && model.state.ending == nil)
        it.play(path, path == Self.usercode ? Self.code : Self.pending)
        model.signIn()
        await it.approve()
        #expect(await state(of: model) { $0.ending != nil }?.ending?.reason == .linked, "tried again")
    }

    @Test(
        arguments: [
            (.absent("there is no bus"), .noKeyring), (.locked("nobody unlocked it"), .keyringLocked),
            (.notVerified, .store),
        ] as [(CredentialStoreError, ChappieSignInEnding.Reason)])
    func aStoreThatRefusesHasAReasonOfItsOwn(
        _ error: CredentialStoreError, _ reason: ChappieSignInEnding.Reason
    ) async {
        let it = Stand([Self.poll: Self.approved])
        it.store.fail(.save, with: error)
        let ending = await ending(of: it.model())
        #expect(ending?.reason == reason && ending?.storeError == error)
        #expect(ending?.words.sentence == error.errorDescription && ending?.words.advice == error.recoverySuggestion)
    }

    @Test func aCodeThatIsNotApprovedExpires() async {
        let it = Stand()
        let model = it.model()
        model.signIn()
        await it.clock.waitForSleepers(count: 2, due: .seconds(1))
        it.clock.advance(by: .seconds(900))
        #expect(await state(of: model) { $0.ending != nil }?.ending?.reason == .expired)
        while it.clock.sleeperCount > 0 { await Task.yield() }
    }

    @Test func `a user who signs in elsewhere in the meantime is signed in`() async throws {
        let it = Stand()
        let model = it.model()
        model.signIn()
        await it.clock.waitForSleepers(count: 2, due: .seconds(1))
        it.play(Self.poll, Self.approved)
        let other = ChappieAuthSession(credentials: it.manager)
        _ = try await other.signIn { _ in }
        #expect(await state(of: model) { $0.isHidden }?.ending?.reason == .linked)
        #expect(await isQuiet(it, model))
        #expect(it.desktop.notifications.count == 1)
    }

    // MARK: Cancelling

    /// Lets nothing through before a gate opens.
    private struct Slow: Notifier, Clipboard {
        let gate: ScriptedGate

        func requestPermission() async throws(DesktopError) { try? await gate.pass() }
        func notify(title: String, body: String) async throws(DesktopError) {}
        func copy(_ text: String) async throws(DesktopError) -> ClipboardOutcome {
            try? await gate.pass()
            return .copied
        }
    }

    enum Stage: CaseIterable { case askingPermission, requestingCode, copying, waiting, saving }

    @Test(arguments: Stage.allCases)
    func cancellingLeavesNothingRunning(_ stage: Stage) async {
        let gate = ScriptedGate()
        let it = Stand()
        let slow = Slow(gate: gate)
        if stage == .requestingCode {
            it.play(Self.usercode, ScriptedHTTPAnswer(beforeHead: [.wait(until: gate)], body: []))
        }
        if stage == .saving {
            it.play(Self.poll, Self.approved)
            it.store.wait(at: gate, before: .save)
        }
        let model = it.model(
            notifier: stage == .askingPermission ? slow : nil, clipboard: stage == .copying ? slow : nil)
        model.signIn()
        if stage == .waiting {
            await it.clock.waitForSleepers(count: 2, due: .seconds(1))
        } else {
            await gate.reached()
        }
        model.cancel()
        #expect(!model.state.isInProgress && model.state.ending?.reason == .cancelled)
        #expect(model.session.state == .signedOut)
        gate.open()
        #expect(await isQuiet(it, model))
        #expect(it.desktop.notifications.isEmpty)
        #expect(model.state.ending?.reason == .cancelled && !model.state.isHidden)
        it.play(Self.usercode, Self.code)
        it.play(Self.poll, Self.approved)
        #expect(await ending(of: model)?.reason == .linked, "tried again")
    }

    /// Notifies when a gate has opened, unless the task has been cancelled by then.
    private struct Patient: Notifier {
        let gate: ScriptedGate
        let desktop: RecordingDesktop

        func notify(title: String, body: String) async throws(DesktopError) {
            try? await gate.pass()
            if !Task.isCancelled { try await desktop.notify(title: title, body: body) }
        }
    }

    @Test func `the notification outlives the model and a later cancelled sign-in`() async {
        let gate = ScriptedGate()
        let it = Stand([Self.poll: Self.approved])
        var model: ChappieSignInModel? = it.model(notifier: Patient(gate: gate, desktop: it.desktop))
        if let model {
            #expect(await ending(of: model)?.reason == .linked)
            await gate.reached()
            model.signIn()
            model.cancel()
        }
        model = nil
        gate.open()
        while it.desktop.notifications.isEmpty { await Task.yield() }
        #expect(it.desktop.notifications.count == 1)
    }

    @Test func aCancelledSignInIsNeverSeenInProgress() async {
        let it = Stand()
        // The host cancels when it is given the code: nothing of what comes after that is done.
        weak var own: ChappieSignInModel?
        let model = it.model(sheet: false) { _ in own?.cancel() }
        own = model
        let updates = model.stateUpdates
        model.signIn()
        for await state in updates {
            #expect(state.ending == nil || !state.isInProgress && state.isEnabled && !state.isHidden)
            if state.ending != nil { break }
        }
        await model.settle()
        #expect(it.desktop.copiedTexts.isEmpty && it.desktop.openedURLs.isEmpty)
    }

    // MARK: A view that goes away

    /// An app that switches over the session's state removes the button as soon as the state changes.
    @Test func `a sign-in continues without its model, and the user is notified`() async {
        let it = Stand()
        let session = ChappieAuthSession(credentials: it.manager)
        let updates = session.stateUpdates
        var model: ChappieSignInModel? = it.model(session)
        model?.signIn()
        for await state in updates where state != .signedOut { break }
        model = nil
        await it.approve()
        while !session.state.isSignedIn || it.desktop.notifications.isEmpty { await Task.yield() }
        #expect(session.deviceLinkState != .cancelled)
        #expect(ChappieSignInModel.running(for: session) == nil)
    }

    @Test(arguments: [true, false])
    func `a model whose sign-in nobody waits for is released at its end`(_ isCancelled: Bool) async {
        let it = Stand()
        let session = ChappieAuthSession(credentials: it.manager)
        weak var model: ChappieSignInModel?
        do {
            let mine = it.model(session)
            model = mine
            mine.signIn()
            await it.clock.waitForSleepers(count: 2, due: .seconds(1))
        }
        #expect(model != nil)
        if isCancelled { session.cancelSignIn() } else { await it.approve() }
        while model != nil { await Task.yield() }
    }

    @Test func `the page opens by itself once no view shows the sheet`() async {
        for isEarly in [true, false] {
            let it = Stand()
            let model = it.model()
            model.viewAppeared()
            model.signIn()
            if isEarly { model.viewDisappeared() }
            _ = await state(of: model) { $0.deviceCode != nil && $0.notices.contains { $0.part == .clipboard } }
            if !isEarly {
                #expect(it.desktop.openedURLs.isEmpty && model.state.isSheetPresented)
                model.viewDisappeared()
            }
            while it.desktop.openedURLs.isEmpty { await Task.yield() }
            #expect(it.desktop.copiedTexts == ["ABCD-12345"] && !model.state.isSheetPresented)
            await it.approve()
            #expect(await ending(of: model)?.reason == .linked)
            #expect(it.desktop.openedURLs.count == 1)
        }
    }

    @Test func `another view of the session takes the sign-in up`() async {
        let it = Stand()
        let session = ChappieAuthSession(credentials: it.manager)
        #expect(ChappieSignInModel.running(for: session) == nil)
        let model = it.model(session)
        model.viewAppeared()
        model.signIn()
        _ = await state(of: model) { $0.deviceCode != nil }
        #expect(ChappieSignInModel.running(for: session) === model)
        model.viewAppeared()
        model.viewDisappeared()
        #expect(model.state.isSheetPresented)
        model.cancel()
        #expect(session.deviceLinkState == .cancelled && ChappieSignInModel.running(for: session) == nil)
    }
}
