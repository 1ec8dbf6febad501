import ChappieAuth
import ChappieClient
@_spi(ChappieInternals) import ChappieCore
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Testing

/// A turn and a conversation, the same over both transports.
@Suite struct TurnTests {
    @Test(arguments: Wire.allCases) func `a request carries the sign-in and names the program`(wire: Wire) async throws
    {
        let harness = ClientHarness(wire, [.answer("Hello")])
        #expect(try await harness.client.send("Hi") == "Hello")
        let (url, fields) = try #require(
            harness.webSocket.receivedOpenings.first.map { ($0.url, $0.headerFields) }
                ?? harness.http.receivedRequests.first.map { ($0.url, $0.headerFields) })
        #expect(url.absoluteString == "https://chatgpt.com/backend-api/codex/responses")
        #expect(fields[.authorization] == "Bearer \(harness.seed.accessToken)")
        #expect(fields[.userAgent] == ChappieRegistration.defaultUserAgent)
        #expect(try fields[#require(HTTPField.Name("originator"))] == "chappie")
        let beta = try fields[#require(HTTPField.Name("openai-beta"))]
        #expect(beta == (wire == .webSocket ? "responses_websockets=2026-02-06" : nil))
    }

    @Test(arguments: Wire.allCases) func aStreamTellsTheWholeTurnInOrder(wire: Wire) async throws {
        let harness = ClientHarness(wire, [.answer("Hello")])
        var seen: [ChappieStreamEvent] = []
        for try await event in harness.client.stream("Hi") { seen.append(event) }
        #expect(seen.prefix(3) == [.transport(.connected(wire.kind)), .created("resp_1"), .textDelta("Hello")])
        guard seen.count == 5, case .item = seen[3], case .completed(let response) = seen[4] else {
            Issue.record("\(seen)")
            return
        }
        #expect(response.outputText == "Hello")
        if case .completed = seen[4] {} else { Issue.record("the pattern without payload must match") }
    }

    @Test(arguments: Wire.allCases) func theConversationGrowsAndItsPrefixStays(wire: Wire) async throws {
        let harness = ClientHarness(wire, (1...3).map { .answer("\($0)", id: "resp_\($0)") })
        for text in ["one", "two", "three"] { _ = try await harness.client.send(text) }
        let inputs = try harness.requests.map { $0["input"]?.array ?? [] }
        #expect(inputs[0][0]["role"]?.string == "developer")
        #expect(inputs.map { $0.last?["content"]?[0]?["text"]?.string } == ["one", "two", "three"])
        if wire == .webSocket {
            // One connection, on which only what is new is said.
            #expect(harness.webSocket.receivedOpenings.count == 1)
            #expect(inputs.map(\.count) == [2, 1, 1])
            let frames = try harness.frames(0)
            #expect(frames.map { $0["previous_response_id"]?.string } == [nil, "resp_1", "resp_2"])
            #expect(frames.allSatisfy { $0["type"]?.string == "response.create" })
            #expect(harness.http.receivedRequests.isEmpty)
        } else {
            #expect(inputs.map(\.count) == [2, 4, 6])
            #expect(Array(inputs[1].prefix(2)) == inputs[0])
            #expect(Array(inputs[2].prefix(4)) == inputs[1])
        }
    }

    @Test(arguments: Wire.allCases) func aFailedTurnLeavesTheConversationAsItWas(wire: Wire) async throws {
        let harness = ClientHarness(wire, [.refused(400, #"{"error":{"message":"bad tool"}}"#), .answer("2")])
        guard case .httpError(400, let body)? = await harness.ask("one").error else {
            Issue.record("not an HTTP error")
            return
        }
        #expect(body.contains("bad tool"))
        #expect(await harness.ask("two").text == "2")
        #expect(try harness.requests[1]["input"]?.array?.count == 2)
    }

    @Test(arguments: Wire.allCases) func turnsWaitForEachOtherInOrder(wire: Wire) async throws {
        let gate = ScriptedGate()
        let harness = ClientHarness(
            wire,
            [Reply(steps: [.wait(gate), .events(answering("1"))])] + (2...5).map { .answer("\($0)", id: "resp_\($0)") })
        let handles = (1...5).map { harness.client.startStream(.user("question \($0)")) }
        await gate.reached()
        #expect(try harness.requests.count == 1)
        gate.open()
        for (index, handle) in handles.enumerated() {
            #expect(try await handle.response().outputText == "\(index + 1)")
        }
        let asked = try harness.requests.map { $0["input"]?.array?.last?["content"]?[0]?["text"]?.string }
        #expect(asked == (1...5).map { "question \($0)" })
    }

    @Test(arguments: Wire.allCases) func withoutASignInNothingIsSent(wire: Wire) async throws {
        let harness = ClientHarness(wire, signedIn: false)
        await #expect(throws: ChappieClientError.missingCredential) { try await harness.client.send("Hi") }
        await #expect(throws: ChappieClientError.missingCredential) { try await harness.client.accountInfo() }
        await harness.client.prewarm()
        #expect(harness.http.receivedRequests.isEmpty && harness.webSocket.receivedOpenings.isEmpty)
    }

    @Test(arguments: Wire.allCases) func `a chosen model is used from the next turn on and gets the full input`(
        wire: Wire
    ) async throws {
        let harness = ClientHarness(wire, [.answer("one"), .answer("two", id: "resp_2")])
        _ = await harness.ask("a")
        await harness.client.selectModel("other")
        #expect(await harness.ask("b").text == "two")
        let request = try harness.requests[1]
        #expect(request["model"]?.string == "other")
        #expect(request["previous_response_id"] == nil)
        #expect(request["input"]?.array?.count == 4)
        // The backend routes a connection by its model.
        #expect(harness.webSocket.receivedOpenings.count == (wire == .webSocket ? 2 : 0))
    }

    @Test(arguments: Wire.allCases) func aToolThatTheProgramDoesNotHaveIsNamed(wire: Wire) async {
        let harness = ClientHarness(
            wire,
            [
                .events(
                    #"{"type":"response.output_item.done","item":{"type":"function_call","name":"frobnicate","call_id":"c","arguments":"{}"}}"#,
                    #"{"type":"response.completed","response":{"id":"r"}}"#)
            ])
        #expect(await harness.ask().error == .missingToolHandler("frobnicate"))
    }

    @Test(arguments: Wire.allCases) func `the turn state is echoed within a turn and forgotten after it`(wire: Wire)
        async throws
    {
        let metadata = #"{"type":"response.metadata","headers":{"x-codex-turn-state":"sticky-%"}}"#
        let failed = (1...2).map { number in
            Reply(steps: [.events([metadata.replacing("%", with: "\(number)")]), .cut])
        }
        let harness = ClientHarness(wire, failed + [.answer("a"), .answer("b", id: "resp_2")])
        #expect(await harness.ask().text == "a")
        #expect(await harness.ask().text == "b")
        let name = try #require(HTTPField.Name("x-codex-turn-state"))
        let echoed =
            wire == .serverSentEvents
            ? harness.http.receivedRequests.map { $0.headerFields[name] }
            : try harness.requests.map { $0["client_metadata"]?["x-codex-turn-state"]?.string }
        #expect(echoed == [nil, "sticky-1", "sticky-1", nil])
    }

    /// Both announce a turn state in the head of the answer.
    @Test func theTurnStateOfAHandshakeCounts() async throws {
        let name = try #require(HTTPField.Name("x-codex-turn-state"))
        let harness = ClientHarness(
            .webSocket, [.answer("a")], openings: [.opened(headerFields: [name: "ts"], replies: [[.cut]])])
        #expect(await harness.ask().text == "a")
        #expect(try harness.requests.map { $0["client_metadata"]?["x-codex-turn-state"]?.string } == [nil, "ts"])
    }

    // MARK: Answers that are none

    @Test(arguments: ["text/html", "text/html; charset=utf-8", "TEXT/HTML", "application/json"])
    func anotherMediaTypeIsNotAnAnswer(type: String) async throws {
        let page = ScriptedHTTPAnswer.response(headerFields: [.contentType: type], body: "{}")
        let network = ChappieGatewayAnswer(sender: .network, host: "chatgpt.com", status: 200)
        let error = type == "application/json" ? ChappieClientError.invalidResponse : .gatewayAnswered(network)
        #expect(await ClientHarness(http: page).ask().error == error)
    }

    @Test(arguments: [
        "data: {\"type\":\"resp", "data:", "dat", "", "data: {\"type\":\"response.created\",\"response\":{}}\n\n",
    ])
    func aStreamThatEndsTooSoonIsABreakThatNamesTheHost(bytes: String) async throws {
        let answer = ScriptedHTTPAnswer.response(headerFields: [.contentType: "text/event-stream"], body: bytes)
        guard case .transportFailed(let error)? = await ClientHarness(http: answer).ask().error else {
            Issue.record("no error")
            return
        }
        #expect(error.code == .connectionLost)
        #expect(error.stage == .responseBody)
        #expect(error.host == "chatgpt.com")
    }

    @Test func `a server that doesn't know the coding gets the body uncompressed`() async throws {
        let harness = ClientHarness(.serverSentEvents, [.refused(415), .answer("yes")])
        #expect(try await harness.client.send(String(repeating: "long ", count: 2000)) == "yes")
        #expect(harness.http.receivedRequests.map { $0.body?.coding } == [.zstd, .identity])
    }

    @Test(arguments: Wire.allCases) func anAnswerWithoutMeasureIsGivenUpForGood(wire: Wire) async throws {
        // Comments and messages that are no events: they cost neither this test nor the client any memory.
        let piece = String(repeating: "x", count: 1 << 20)
        let comment = ScriptedHTTPAnswer.Step.chunk(Array((":" + piece + "\n").utf8))
        let answer = ScriptedHTTPAnswer(
            headerFields: [.contentType: "text/event-stream"], body: Array(repeating: comment, count: 257))
        let harness = ClientHarness(
            wire, [Reply(steps: wire == .webSocket ? Array(repeating: .events([piece]), count: 257) : [.raw(answer)])])
        guard case .transportFailed(let error)? = await harness.ask().error else {
            Issue.record("no error")
            return
        }
        #expect(error.code == .bodyTooLarge)
        #expect(try harness.requests.count == 1)
    }
}

extension ClientHarness {
    /// A client whose one turn over HTTP is answered by `answer`, without second attempts.
    fileprivate init(http answer: ScriptedHTTPAnswer) {
        self.init(
            .serverSentEvents, [Reply(steps: [.raw(answer)])],
            policy: ChappieStreamingTransportPolicy(prefersWebSocket: false, maxHTTPSSEReconnectionAttempts: 0))
    }
}
