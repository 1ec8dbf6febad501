import ChappieAuth
import ChappieClient
@_spi(ChappieInternals) import ChappieCore
import ChappieTesting
import Testing

/// Cancelling, prewarming, disconnecting, and signing out, while turns run and between them.
@Suite(.timeLimit(.minutes(2))) struct ClientLifeTests {
    /// Asks, and waits until `gate` holds the answer up.
    private func begun(_ wire: Wire, _ gate: ScriptedGate) async -> (
        ClientHarness, Task<Seen, Never>
    ) {
        let held = Reply(steps: [
            .events(Array(answering("Hello").prefix(2))), .wait(gate), .events(Array(answering("Hello").suffix(2))),
        ])
        let harness = ClientHarness(wire, [held])
        let asking = Task { await harness.ask() }
        await gate.reached()
        return (harness, asking)
    }

    @Test func `a turn has background time from its beginning to its end`() async throws {
        let (first, second, system) = (ScriptedGate(), ScriptedGate(), RecordingBackgroundTime())
        let replies = [first, second].map { Reply(steps: [.wait($0), .events(answering("Hello"))]) }
        let client = ClientHarness(.serverSentEvents, replies, backgroundTime: system).client
        #expect(system.asked.isEmpty)
        let turns = [client.startStream(.user("one")), client.startStream(.user("two"))]
        for (number, gate) in [first, second].enumerated() {
            await gate.reached()
            // A turn that waits for another one needs none of its own.
            #expect(system.held == ["answering"] && system.asked.count == number + 1)
            gate.open()
        }
        for turn in turns { _ = try await turn.response() }
        while !system.held.isEmpty { await Task.yield() }
    }

    // MARK: Cancelling

    @Test(arguments: Wire.allCases) func `cancelling the reader of a handle's events ends the turn`(wire: Wire)
        async throws
    {
        let gate = ScriptedGate()
        let harness = ClientHarness(wire, [.half("half", then: .wait(gate)), .answer("next")])
        let handle = harness.client.startStream(.user("Hi"))
        let reading = Task { for try await _ in handle.events {} }
        await gate.reached()
        reading.cancel()
        await #expect(throws: CancellationError.self) { try await reading.value }
        await #expect(throws: CancellationError.self) { try await handle.response() }
        #expect(try await harness.client.send("again") == "next")
    }

    @Test(arguments: Wire.allCases) func aHandleThatIsNotReadGoesOn(wire: Wire) async throws {
        let gate = ScriptedGate()
        let harness = ClientHarness(
            wire, [Reply(steps: [.wait(gate), .events(answering("one"))]), .answer("two", id: "resp_2")])
        // Neither the handle nor its events are kept, and a reader stops half-way.
        let response = Task { try await harness.client.startStream(.user("Hi")).response() }
        await gate.reached()
        gate.open()
        #expect(try await response.value.outputText == "one")
        let handle = harness.client.startStream(.user("Hi"))
        for try await _ in handle.events { break }
        #expect(try await handle.response().outputText == "two")
    }

    @Test(arguments: Wire.allCases, [false, true])
    func `cancel ends the turn that was requested a moment ago`(wire: Wire, isStream: Bool) async throws {
        for _ in 0..<20 {
            let harness = ClientHarness(wire, [.half("half", then: .stall)])
            if isStream {
                let events = harness.client.stream("Hi")
                await harness.client.cancel()
                #expect(await Seen(events).failure is CancellationError)
            } else {
                let handle = harness.client.startStream(.user("Hi"))
                await harness.client.cancel()
                await #expect(throws: CancellationError.self) { try await handle.response() }
            }
        }
    }

    @Test func `cancel ends the newest turn and then the one before`() async throws {
        let gate = ScriptedGate()
        let (harness, first) = await begun(.webSocket, gate)
        let second = harness.client.startStream(.user("two"))
        await harness.client.cancel()
        await #expect(throws: CancellationError.self) { try await second.response() }
        await harness.client.cancel()
        #expect(await first.value.failure is CancellationError)
    }

    @Test(arguments: Wire.allCases) func aCancelledTurnLeavesNothingBehind(wire: Wire) async throws {
        let gate = ScriptedGate()
        let harness = ClientHarness(wire, [.half("half", then: .wait(gate)), .answer("next")])
        let handle = harness.client.startStream(.user("one"))
        await gate.reached()
        handle.cancel()
        await #expect(throws: CancellationError.self) { try await handle.response() }
        await #expect(throws: CancellationError.self) { for try await _ in handle.events {} }
        if wire == .webSocket { #expect(harness.webSocket.peers[0].isDropped) }
        #expect(try await harness.client.send("two") == "next")
        #expect(try harness.requests[1]["input"]?.array?.count == 2)
    }

    @Test(arguments: Wire.allCases) func cancellingTheReaderOfAStreamThrows(wire: Wire) async throws {
        let gate = ScriptedGate()
        let harness = ClientHarness(wire, [Reply(steps: [.wait(gate)])])
        let reading = Task { for try await _ in harness.client.stream("Hi") {} }
        await gate.reached()
        reading.cancel()
        await #expect(throws: CancellationError.self) { try await reading.value }
    }

    @Test func `a reader cancelled between reads does not take the end for a full answer`() async throws {
        for _ in 0..<50 {
            let harness = ClientHarness(.serverSentEvents, [.half("half", then: .stall)])
            let shown = ScriptedGate()
            let cancelled = ScriptedGate()
            let reading = Task {
                for try await event in harness.client.stream("Hi") {
                    guard case .textDelta = event else { continue }
                    // This is between two reads; the gate does not throw, the stream has to.
                    try? await shown.pass()
                    await Task { try? await cancelled.pass() }.value
                }
            }
            await shown.reached()
            shown.open()
            reading.cancel()
            cancelled.open()
            await #expect(throws: CancellationError.self) { try await reading.value }
        }
    }

    @Test(arguments: Wire.allCases) func cancellingEndsAPause(wire: Wire) async throws {
        let clock = ManualClock()
        let harness = ClientHarness(wire, [.refused(429)], clock: clock)
        let handle = harness.client.startStream(.user("Hi"))
        await clock.waitForSleepers(count: 1)
        handle.cancel()
        await #expect(throws: CancellationError.self) { try await handle.response() }
    }

    // MARK: The connection

    @Test(arguments: [1, 2]) func aTurnOvertakesAPrewarm(turns: Int) async throws {
        let gate = ScriptedGate()
        let harness = ClientHarness(
            .webSocket, [.answer("one"), .answer("two", id: "resp_2")],
            openings: [.opened(replies: [[.wait(until: gate)]])])
        let prewarm = Task { await harness.client.prewarm() }
        await gate.reached()
        let handles = (0..<turns).map { _ in harness.client.startStream(.user("Hi")) }
        for (handle, text) in zip(handles, ["one", "two"]) {
            #expect(try await handle.response().outputText == text)
        }
        await prewarm.value
        #expect(harness.webSocket.peers[0].isDropped)
        #expect(harness.webSocket.receivedOpenings.count == 2)
    }

    @Test func aPrewarmBesideATurnDoesNothing() async throws {
        let gate = ScriptedGate()
        let (harness, asking) = await begun(.webSocket, gate)
        await harness.client.prewarm()
        gate.open()
        #expect(await asking.value.text == "Hello")
        #expect(try harness.requests.count == 1)
    }

    @Test func `a prewarm between two turns leaves the connection to the second turn`() async throws {
        let harness = ClientHarness(.webSocket, [.answer("one"), .answer("two", id: "resp_2")])
        _ = await harness.ask("a")
        await harness.client.prewarm()
        #expect(await harness.ask("b").text == "two")
        let frames = try harness.frames(0)
        #expect(frames.map { $0["previous_response_id"]?.string } == [nil, "resp_1"])
    }

    @Test func `a prewarm replaces the connection of another conversation`() async throws {
        let harness = ClientHarness(
            .webSocket, [.answer("one"), Reply(steps: [.events(Self.warm)]), .answer("two", id: "resp_2")])
        var other = await harness.client.context()
        other.sessionID = "another"
        _ = await harness.ask("a")
        await harness.client.resumeContext(other)
        await harness.client.prewarm()
        #expect(harness.webSocket.receivedOpenings.count == 2)
        #expect(await harness.ask("b").text == "two")
        #expect(harness.webSocket.receivedOpenings.count == 2)
    }

    private static let warm = [
        #"{"type":"response.created","response":{"id":"warm"}}"#,
        #"{"type":"response.completed","response":{"id":"warm","status":"completed"}}"#,
    ]

    @Test func aPrewarmIsContinuedByTheFirstTurn() async throws {
        let harness = ClientHarness(.webSocket, [Reply(steps: [.events(Self.warm)]), .answer("one")])
        await harness.client.prewarm()
        #expect(await harness.ask("a").text == "one")
        let frames = try harness.frames(0)
        #expect(frames.map { $0["generate"]?.bool } == [false, nil])
        #expect(frames.map { $0["input"]?.array?.count } == [1, 1])
        #expect(frames[1]["previous_response_id"]?.string == "warm")
    }

    static let failedPrewarms: [Reply] = [
        .events(warm[0], then: .stall), Reply(steps: [.close(1001)]), Reply(steps: [.cut]), .refused(500), .failed(nil),
    ]

    @Test(arguments: failedPrewarms.indices) func aPrewarmThatFailsDoesNotMatter(index: Int) async throws {
        let harness = ClientHarness(.webSocket, [Self.failedPrewarms[index], .answer("one")])
        await harness.client.prewarm()
        let seen = await harness.ask("a")
        #expect(seen.text == "one")
        #expect(seen.events == [.connected(.webSocket)])
        #expect(try harness.frames(1)[0]["previous_response_id"] == nil)
    }

    @Test func lettingGoOfTheClientDropsTheConnection() async {
        var harness: ClientHarness? = ClientHarness(.webSocket, [.answer("one")])
        _ = await harness?.ask("a")
        let peer = harness?.webSocket.peers[0]
        harness = nil
        #expect(peer?.isDropped == true)
    }

    // MARK: Disconnecting and signing out

    /// The stages in which a connection is retired.
    enum Stage: CaseIterable { case opening, answering, kept }

    @Test(arguments: Stage.allCases, [false, true]) @MainActor
    func aRetiredConnectionEndsWithItsTurn(stage: Stage, isSignOut: Bool) async throws {
        let gate = ScriptedGate()
        let held = Reply(steps: [
            .events(Array(answering("Hello").prefix(2))), .wait(gate), .events(Array(answering("Hello").suffix(2))),
        ])
        let harness = ClientHarness(
            .webSocket, [stage == .answering ? held : .answer("Hello"), .answer("again", id: "resp_2")],
            others: [.response()], handshake: stage == .opening ? gate : nil)
        let asking = Task { await harness.ask() }
        if stage == .kept { _ = await asking.value } else { await gate.reached() }
        if isSignOut {
            try await ChappieAuthSession(credentials: harness.credentials).signOutAndRevoke()
        } else {
            await harness.client.disconnect()
        }
        if stage == .answering { #expect(harness.webSocket.peers[0].sentClosure == nil) }
        gate.open()
        let seen = await asking.value
        #expect(seen.text == "Hello" && seen.events == [.connected(.webSocket)])
        // A sign-out is heard of a moment later.
        while harness.webSocket.peers[0].isOpen { await Task.yield() }
        #expect(harness.webSocket.peers[0].sentClosure?.code == 1000)
        guard !isSignOut else { return }
        #expect(await harness.ask().text == "again")
        #expect(harness.webSocket.receivedOpenings.count == 2)
    }

    /// Another account, and another user in the same account (a workspace).
    @Test(arguments: Wire.allCases, [true, false])
    func `a turn that waits is not repeated in another user's name`(wire: Wire, isOtherAccount: Bool) async throws {
        let clock = ManualClock()
        let harness = ClientHarness(
            wire, [.refused(429), .answer("welcome")],
            others: Array(repeating: .response(body: SeededModelCache.list.serialized()), count: 2), clock: clock)
        var other = harness.seed
        other.serial = 2
        other.userID = "user-2"
        if isOtherAccount { other.accountID = "account-2" }
        let turn = Task { try await harness.client.send("a secret question") }
        await clock.waitForSleepers(count: 1)
        _ = try await harness.credentials.importCredential(other.credential)
        clock.advance(by: .seconds(60))
        await #expect {
            try await turn.value
        } throws: { error in
            if case ChappieClientError.reauthenticationRequired? = error as? ChappieClientError { true } else { false }
        }
        #expect(try harness.requests.count == 1)
        #expect(await harness.ask("hello").text == "welcome")
        let requests = try harness.requests
        #expect(requests.count == 2)
        #expect(!requests[1].serialized().contains("secret"))
        #expect(requests[1]["prompt_cache_key"] != requests[0]["prompt_cache_key"] || wire == .serverSentEvents)
    }
}
