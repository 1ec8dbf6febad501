import ChappieAuth
import ChappieClient
import ChappieCore
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Testing

/// One connection for a conversation, on which each turn says what is new.
@Suite struct ConversationTests {
    private func answering(_ texts: [String]) -> ScriptedWebSocketOpening {
        .opened(replies: texts.enumerated().map { [.deliver(messages(answering: $1, id: "resp_\($0 + 1)"))] })
    }

    @Test func turnsShareAConnectionAndSayOnlyWhatIsNew() async throws {
        let stage = WebSocketStage([answering(["one", "two", "three"])])
        for text in ["a", "b", "c"] { #expect(await stage.ask(text).error == nil) }
        #expect(stage.webSocket.receivedOpenings.count == 1)
        let frames = try stage.frames(0)
        #expect(frames.map { $0["type"]?.string } == Array(repeating: "response.create", count: 3))
        #expect(frames[0]["previous_response_id"] == nil)
        #expect(frames[0]["input"]?.array?.count == 2)
        for (index, text) in ["b", "c"].enumerated() {
            let frame = frames[index + 1]
            #expect(frame["previous_response_id"]?.string == "resp_\(index + 1)")
            #expect(frame["input"]?.array?.count == 1)
            #expect(frame["input"]?[0]?["content"]?[0]?["text"]?.string == text)
        }
        #expect(stage.http.receivedRequests.isEmpty)
    }

    @Test func theHandshakeCarriesTheSignInAndTheFramesVersion() async throws {
        let stage = WebSocketStage([answering(["one"])])
        _ = await stage.ask()
        let opening = try #require(stage.webSocket.receivedOpenings.first)
        #expect(opening.url.absoluteString == "https://chatgpt.com/backend-api/codex/responses")
        #expect(opening.headerFields[.authorization]?.hasPrefix("Bearer ") == true)
        let beta = try #require(HTTPField.Name("openai-beta"))
        #expect(opening.headerFields[beta] == "responses_websockets=2026-02-06")
        #expect(opening.headerFields[.userAgent] == ChappieRegistration.defaultUserAgent)
    }

    @Test func theStreamTellsHowItTravels() async {
        let stage = WebSocketStage([answering(["one"])])
        #expect(await stage.ask().events == [.connected(.webSocket)])
    }

    @Test func anotherModelIsAskedInFull() async throws {
        let stage = WebSocketStage([answering(["one", "two"])])
        _ = await stage.ask("a")
        await stage.client.selectModel("gpt-6-sol")
        _ = await stage.ask("b")
        let frame = try stage.frames(0)[1]
        #expect(frame["previous_response_id"] == nil)
        #expect(frame["input"]?.array?.count == 4)
        #expect(stage.webSocket.receivedOpenings.count == 1)
    }

    @Test func anOldConnectionIsReplacedBeforeTheServerEndsIt() async throws {
        let stage = WebSocketStage([answering(["one", "two"]), answering(["three"])])
        _ = await stage.ask("a")
        try await stage.clock.sleep(for: .seconds(54 * 60))
        _ = await stage.ask("b")
        #expect(stage.webSocket.receivedOpenings.count == 1)
        try await stage.clock.sleep(for: .seconds(60))
        #expect(await stage.ask("c") == (text: "three", events: [.connected(.webSocket)], error: nil))
        #expect(stage.webSocket.receivedOpenings.count == 2)
        #expect(try stage.frames(1)[0]["previous_response_id"] == nil)
        #expect(try stage.frames(1)[0]["input"]?.array?.count == 6)
    }

    @Test func whatComesAfterTheAnswerIsNotTakenForTheNext() async throws {
        let stage = WebSocketStage([
            .opened(replies: [
                [.deliver(messages(answering: "one") + messages(breakingOffAfter: "stray"))],
                [.deliver(messages(answering: "two"))],
            ])
        ])
        #expect(await stage.ask("a").text == "one")
        stage.webSocket.peers[0].play([.deliver(messages(breakingOffAfter: "late"))])
        #expect(await stage.ask("b").text == "two")
    }

    @Test func aPrewarmIsContinuedByTheFirstTurn() async throws {
        let warm = [
            #"{"type":"response.created","response":{"id":"warm"}}"#,
            #"{"type":"response.completed","response":{"id":"warm","status":"completed"}}"#,
        ]
        let stage = WebSocketStage([.opened(replies: [[.deliver(warm)], [.deliver(messages(answering: "one"))]])])
        await stage.client.prewarm()
        #expect(await stage.ask("a").text == "one")
        let frames = try stage.frames(0)
        #expect(frames[0]["generate"]?.bool == false)
        #expect(frames[0]["input"]?.array?.count == 1)
        #expect(frames[1]["generate"] == nil)
        #expect(frames[1]["previous_response_id"]?.string == "warm")
        #expect(frames[1]["input"]?.array?.count == 1)
    }

    @Test(arguments: [0, 1, 2, 3])
    func aPrewarmThatFailsDisturbsNobody(kind: Int) async throws {
        let first: ScriptedWebSocketOpening =
            switch kind {
            case 0: .opened(replies: [[.silence]])
            case 1: .opened(replies: [[.close(.goingAway)]])
            case 2: .opened(replies: [[.deliver([#"{"type":"error","status":500,"error":{"message":"no"}}"#])]])
            default: .opened(replies: [[.cut]])
            }
        let stage = WebSocketStage([first, answering(["one"])])
        await stage.client.prewarm()
        let (text, events, error) = await stage.ask("a")
        #expect(text == "one")
        #expect(events == [.connected(.webSocket)])
        #expect(error == nil)
        #expect(try stage.frames(1)[0]["previous_response_id"] == nil)
    }

    @Test func cancellingDropsTheConnection() async throws {
        let stage = WebSocketStage([
            .opened(replies: [[.deliver(messages(breakingOffAfter: "half"))]]), answering(["whole"]),
        ])
        let handle = stage.client.startStream(.user("a"))
        for try await event in handle.events {
            if case .textDelta = event { break }
        }
        handle.cancel()
        await #expect(throws: CancellationError.self) { try await handle.response() }
        #expect(stage.webSocket.peers[0].isDropped)
        #expect(await stage.ask("b").text == "whole")
        // The half turn has left nothing behind.
        #expect(try stage.frames(1)[0]["input"]?.array?.count == 2)
    }

    @Test func lettingGoOfTheClientDropsTheConnection() async {
        var stage: WebSocketStage? = WebSocketStage([answering(["one"])])
        _ = await stage?.ask("a")
        let peer = stage?.webSocket.peers[0]
        stage = nil
        #expect(peer?.isDropped == true)
    }

    @Test func disconnectingClosesPolitely() async {
        let stage = WebSocketStage([answering(["one"]), answering(["two"])])
        _ = await stage.ask("a")
        await stage.client.disconnect()
        #expect(stage.webSocket.peers[0].sentClosure?.code == 1000)
        #expect(await stage.ask("b").text == "two")
    }

    @Test func withoutAWebSocketInTheProfileNobodyTries() async {
        let stage = WebSocketStage([], http: [stream(events(answering: "one"))], profile: nil)
        #expect(await stage.ask().events == [.connected(.serverSentEvents)])
    }
}
