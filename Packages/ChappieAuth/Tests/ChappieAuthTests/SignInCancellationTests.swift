import ChappieAuth
import ChappieTesting
import Testing

@MainActor
@Suite struct SignInCancellationTests {
    /// Where a sign-in can be when somebody thinks better of it.
    enum Moment: CaseIterable {
        case requestingCode, asleepBetweenPolls, polling, exchanging, savingTheCredential
    }

    let newcomer = person(endingIn: 7200, serial: 7)

    /// A service that stops at `moment`, and what tells that it got there.
    private func answers(stoppingAt moment: Moment, _ gate: ScriptedGate) -> [String: [ScriptedHTTPAnswer]] {
        var answers = SessionHarness.signingIn(as: newcomer)
        switch moment {
        case .requestingCode: answers[Service.usercode] = [.deviceCode.after(gate)]
        case .asleepBetweenPolls: answers[Service.poll] = [.pending]
        case .polling: answers[Service.poll] = [.approved.after(gate)]
        case .exchanging: answers[Service.token] = [.tokens(newcomer).after(gate)]
        case .savingTheCredential: break
        }
        return answers
    }

    @Test(arguments: Moment.allCases, [true, false])
    func cancellingEndsItAtAnyMomentAndLeavesWhatWasThere(_ moment: Moment, _ isSignedIn: Bool) async throws {
        let gate = ScriptedGate()
        let seed = isSignedIn ? person(endingIn: 7200) : nil
        let it = SessionHarness(seed, answers(stoppingAt: moment, gate))
        let before = it.session.state
        if moment == .savingTheCredential { it.stand.store.wait(at: gate, before: .save) }
        let updates = it.session.deviceLinkStateUpdates
        let start = Task { try await it.session.startDeviceCodeSignIn() }
        if moment == .asleepBetweenPolls {
            await it.stand.clock.waitForSleepers(count: 1)
        } else {
            await gate.reached()
        }
        it.session.cancelSignIn()
        #expect(it.session.deviceLinkState == .cancelled)
        #expect(it.session.state == before)
        if moment == .requestingCode {
            await #expect(throws: ChappieAuthError.cancelledSignIn) { try await start.value }
        } else {
            #expect(try await start.value.userCode == "ABCD-12345")
        }
        gate.open()
        #expect(await it.linkStates(from: updates).last == .cancelled)
        if moment == .savingTheCredential {
            await it.stand.service.waitForRequests(Service.revoke, count: 1)
        }
        #expect(it.stand.storedText.map { !$0.contains("rt_seeded_7") } ?? !isSignedIn)
        #expect(it.session.state == before)
        #expect(it.session.lastError == nil)
        #expect(it.notifier.notifications.isEmpty)
    }

    @Test func cancellingWithoutASignInDoesNothing() {
        let it = SessionHarness()
        it.session.cancelSignIn()
        #expect(it.session.deviceLinkState == .idle)
        #expect(it.session.state == .signedOut)
    }

    @Test func cancellingTheCallerCancelsTheSignIn() async {
        let gate = ScriptedGate()
        let it = SessionHarness(nil, answers(stoppingAt: .requestingCode, gate))
        let start = Task { try await it.session.startDeviceCodeSignIn() }
        await gate.reached()
        start.cancel()
        await #expect(throws: ChappieAuthError.cancelledSignIn) { try await start.value }
        #expect(it.session.deviceLinkState == .cancelled)
    }

    @Test func aSecondSignInCancelsTheFirst() async throws {
        let gate = ScriptedGate()
        var answers = SessionHarness.signingIn(as: newcomer)
        answers[Service.usercode] = [.deviceCode.after(gate), .deviceCode]
        let it = SessionHarness(nil, answers)
        let updates = it.session.deviceLinkStateUpdates
        let first = Task { try await it.session.startDeviceCodeSignIn() }
        await gate.reached()
        try await it.session.startDeviceCodeSignIn()
        await #expect(throws: ChappieAuthError.cancelledSignIn) { try await first.value }
        var seen: [String] = []
        for await state in updates {
            seen.append(state.name)
            if state.name == "linked" { break }
        }
        #expect(
            seen == ["idle", "requestingCode", "cancelled", "requestingCode", "awaitingUserCode", "polling", "linked"])
        #expect(it.stand.service.count(Service.token) == 1)
    }

    @Test func signingOutWhileTheCredentialIsBeingSavedWins() async throws {
        let gate = ScriptedGate()
        let it = SessionHarness(nil, SessionHarness.signingIn(as: newcomer))
        it.stand.store.wait(at: gate, before: .save)
        try await it.session.startDeviceCodeSignIn()
        await gate.reached()
        let signOut = Task { try await it.session.signOutAndRevoke() }
        while it.session.state != .signedOut || it.session.deviceLinkState != .idle { await Task.yield() }
        gate.open()
        try await signOut.value
        #expect(it.stand.store[it.stand.slot] == nil)
        #expect(it.session.state == .signedOut)
        await it.stand.service.waitForRequests(Service.revoke, count: 1)
        await #expect(throws: AuthorizationError.missingCredential) { try await it.stand.send() }
    }

    @Test func aSessionThatIsLetGoStopsPolling() async throws {
        let stand = Harness(nil, [Service.usercode: [.deviceCode], Service.poll: [.pending]])
        var session: ChappieAuthSession? = ChappieAuthSession(credentials: stand.manager)
        try await session?.startDeviceCodeSignIn()
        await stand.clock.waitForSleepers(count: 1)
        let updates = try #require(session?.deviceLinkStateUpdates)
        session = nil
        var last: ChappieDeviceLinkState?
        for await state in updates { last = state }
        #expect(last?.name == "polling")
        while stand.clock.sleeperCount > 0 { await Task.yield() }
    }
}
