import ChappieAuth
import ChappieClient
import ChappieCore
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Testing

@Suite struct TurnTests {
    @Test func sendGivesTheText() async throws {
        let stage = Stage([stream(events(answering: "Hello"))])
        #expect(try await stage.client.send("Hi") == "Hello")
        let request = try #require(stage.transport.receivedRequests.first)
        #expect(request.method == .post)
        #expect(request.headerFields[.authorization]?.hasPrefix("Bearer ") == true)
        #expect(request.headerFields[.userAgent] == ChappieRegistration.defaultUserAgent)
        let originator = try #require(HTTPField.Name("originator"))
        #expect(request.headerFields[originator] == "chappie")
    }

    @Test func aStreamTellsTheWholeTurnInOrder() async throws {
        let stage = Stage([stream(events(answering: "Hello"))])
        var seen: [ChappieStreamEvent] = []
        for try await event in stage.client.stream("Hi") { seen.append(event) }
        #expect(seen.count == 5)
        #expect(seen[0] == .transport(.connected(.serverSentEvents)))
        #expect(seen[1] == .created("resp_1"))
        #expect(seen[2] == .textDelta("Hello"))
        guard case .item = seen[3], case .completed(let response) = seen[4] else {
            Issue.record("\(seen)")
            return
        }
        #expect(response.outputText == "Hello")
        if case .completed = seen[4] {} else { Issue.record("the pattern without payload must match") }
    }

    @Test func theConversationGrowsAndItsPrefixStays() async throws {
        let stage = Stage([stream(events(answering: "1")), stream(events(answering: "2"))])
        _ = try await stage.client.send("one")
        _ = try await stage.client.send("two")
        let inputs = try stage.inputs
        #expect(inputs[0].count == 2)
        #expect(inputs[1].count == 4)
        #expect(Array(inputs[1].prefix(2)) == inputs[0])
        #expect(inputs[0][0]["role"]?.string == "developer")
    }

    @Test func aFailedTurnLeavesTheConversationAsItWas() async throws {
        let cut = ScriptedHTTPAnswer(
            headerFields: [.contentType: "text/event-stream"],
            body: [.chunk(Array("data: {\"type\":\"response.output_text.delta\",\"delta\":\"half\"}\n\n".utf8)), .cut])
        let stage = Stage([cut, stream(events(answering: "2"))])
        await #expect(throws: ChappieClientError.self) { try await stage.client.send("one") }
        _ = try await stage.client.send("two")
        #expect(try stage.inputs[1].count == 2)
    }

    @Test func turnsWaitForEachOtherInOrder() async throws {
        let gate = ScriptedGate()
        var first = stream(events(answering: "1"))
        first.body.insert(.wait(until: gate), at: 0)
        let stage = Stage([first] + (2...5).map { stream(events(answering: "\($0)")) })
        let handles = (1...5).map { stage.client.startStream(.user("question \($0)")) }
        await gate.reached()
        #expect(stage.transport.receivedRequests.count == 1)
        gate.open()
        for (index, handle) in handles.enumerated() {
            #expect(try await handle.response().outputText == "\(index + 1)")
        }
        #expect(try stage.inputs[4].last?["content"]?[0]?["text"]?.string == "question 5")
        #expect(try stage.inputs[4].count == 10)
    }

    @Test func cancellingEndsTheTurnAndLetsTheNextOneIn() async throws {
        let gate = ScriptedGate()
        var first = stream(events(answering: "1"))
        first.body = [first.body[0], .wait(until: gate)]
        first.body[0] = .chunk(Array("data: {\"type\":\"response.output_text.delta\",\"delta\":\"half\"}\n\n".utf8))
        let stage = Stage([first, stream(events(answering: "2"))])
        let handle = stage.client.startStream(.user("one"))
        await gate.reached()
        handle.cancel()
        await #expect(throws: CancellationError.self) { try await handle.response() }
        await #expect(throws: CancellationError.self) { for try await _ in handle.events {} }
        #expect(try await stage.client.send("two") == "2")
        #expect(try stage.inputs[1].count == 2)
    }

    @Test func cancellingTheReadingTaskThrows() async throws {
        let gate = ScriptedGate()
        var answer = stream("")
        answer.body = [.wait(until: gate)]
        let stage = Stage([answer])
        let reading = Task { for try await _ in stage.client.stream("Hi") {} }
        await gate.reached()
        reading.cancel()
        await #expect(throws: CancellationError.self) { try await reading.value }
    }

    @Test func aTaskCancelledBetweenTwoReadsDoesNotTakeTheEndForAWholeAnswer() async throws {
        for _ in 0..<50 {
            var answer = stream("data: {\"type\":\"response.output_text.delta\",\"delta\":\"half\"}\n\n")
            answer.body.append(.stall)
            let stage = Stage([answer])
            let shown = ScriptedGate()
            let cancelled = ScriptedGate()
            let reading = Task {
                for try await event in stage.client.stream("Hi") {
                    guard case .textDelta = event else { continue }
                    // Whoever waits here is between two reads; the gate does not throw, the stream has to.
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

    @Test func aReaderThatStopsDoesNotHoldUpTheNextTurn() async throws {
        let stage = Stage([stream(events(answering: "1")), stream(events(answering: "2"))])
        let unread = stage.client.startStream(.user("one"))
        #expect(try await stage.client.send("two") == "2")
        #expect(try await unread.response().outputText == "1")
    }

    @Test func nobodySignedInIsItsOwnError() async throws {
        let stage = Stage([], signedIn: false)
        await #expect(throws: ChappieClientError.missingCredential) { try await stage.client.send("Hi") }
        #expect(stage.transport.receivedRequests.isEmpty)
    }

    @Test func anEarlyEndIsReturnedWithItsReason() async throws {
        let stage = Stage([
            stream(
                """
                data: {"type":"response.output_text.delta","delta":"half"}

                data: {"type":"response.incomplete","response":{"id":"r","status":"incomplete",\
                "incomplete_details":{"reason":"max_output_tokens"}}}


                """)
        ])
        let response = try await stage.client.response(ChappieResponseRequest(messages: [.user("Hi")]))
        #expect(response.status == .incomplete)
        #expect(response.incompleteReason == "max_output_tokens")
        #expect(response.outputText == "half")
    }

    @Test func aToolNobodyHasIsNamed() async throws {
        let stage = Stage([
            stream(
                """
                data: {"type":"response.output_item.done","item":{"type":"function_call","name":"frobnicate",\
                "call_id":"c","arguments":"{}"}}

                data: {"type":"response.completed","response":{"id":"r"}}


                """)
        ])
        await #expect(throws: ChappieClientError.missingToolHandler("frobnicate")) {
            try await stage.client.send("Hi")
        }
    }

    @Test(arguments: ["text/html", "text/html; charset=utf-8", "TEXT/HTML"])
    func aWebPageIsNotAnAnswer(type: String) async throws {
        let stage = Stage([.response(headerFields: [.contentType: type], body: "<html></html>")])
        await #expect(throws: ChappieClientError.invalidResponse) { try await stage.client.send("Hi") }
    }

    @Test func jsonInsteadOfEventsIsNotAnAnswer() async throws {
        let stage = Stage([.response(headerFields: [.contentType: "application/json"], body: "{}")])
        await #expect(throws: ChappieClientError.invalidResponse) { try await stage.client.send("Hi") }
    }

    @Test(arguments: ["data: {\"type\":\"resp", "data: {\"type\":\n", "data:", "dat", ""])
    func aStreamThatEndsInItsFirstEventIsABreak(bytes: String) async throws {
        let stage = Stage([stream(bytes)])
        do {
            _ = try await stage.client.send("Hi")
            Issue.record("no error")
        } catch ChappieClientError.transportFailed(let error) {
            #expect(error.code == .connectionLost)
        }
    }

    @Test func anAnswerInItemsAloneIsStreamed() async throws {
        let items = events(answering: "Hello").split(separator: "\n\n").filter { !$0.contains(".delta") }
        let stage = Stage([stream(items.map { $0 + "\n\n" }.joined())])
        var shown = ""
        for try await event in stage.client.stream("Hi") {
            if case .textDelta(let delta) = event { shown += delta }
        }
        #expect(shown == "Hello")
    }

    @Test func anAnswerWithoutMeasureIsGivenUpForGood() async throws {
        // Comments: they cost neither this test nor the client any memory.
        let comment = ScriptedHTTPAnswer.Step.chunk([0x3A] + [UInt8](repeating: 0x20, count: (1 << 20) - 2) + [0x0A])
        var answer = stream("")
        answer.body = Array(repeating: comment, count: 257) + stream(events(answering: "late")).body
        let stage = Stage(
            [answer, answer], configuration: ChappieConfiguration(streamingTransportPolicy: .httpSSEOnly))
        do {
            _ = try await stage.client.send("Hi")
            Issue.record("no error")
        } catch ChappieClientError.transportFailed(let error) {
            #expect(error.code == .bodyTooLarge)
        }
        #expect(stage.transport.receivedRequests.count == 1)
    }

    @Test func aServerThatDoesNotKnowTheCodingGetsTheBodyPlain() async throws {
        let stage = Stage([.response(status: .unsupportedMediaType), stream(events(answering: "yes"))])
        #expect(try await stage.client.send(String(repeating: "long ", count: 2000)) == "yes")
        #expect(stage.transport.receivedRequests.map { $0.body?.coding } == [.zstd, .identity])
    }

    @Test func aStreamThatEndsEarlyNamesTheHost() async throws {
        let stage = Stage([stream("data: {\"type\":\"response.created\",\"response\":{\"id\":\"r\"}}\n\n")])
        do {
            _ = try await stage.client.send("Hi")
            Issue.record("no error")
        } catch ChappieClientError.transportFailed(let error) {
            #expect(error.code == .connectionLost)
            #expect(error.stage == .responseBody)
            #expect(error.host == "chatgpt.com")
        }
    }
}
