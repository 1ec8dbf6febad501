import ChappieClient
@_spi(ChappieInternals) import ChappieCore
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Synchronization
import Testing

/// Messages that are no events.
@Suite(.timeLimit(.minutes(5))) struct NoiseTests {
    private static let noise = ["ping", "{}", #"{"type":"response.output_text.delta","delta":""}"#]

    private func client(
        _ webSocket: any WebSocketTransport, http: ScriptedHTTPTransport, clock: ManualClock
    ) -> ChappieClient {
        // The sign-in's deadlines are on a clock of their own: a sleeper on this one waits for a message.
        let seed = SeededAuth(expiresAt: clock.now.addingTimeInterval(86_400))
        return ChappieClient(
            transport: http, webSocket: webSocket, credentials: seed.manager(transport: http, clock: ManualClock()),
            clock: clock, entropy: FixedEntropy())
    }

    @Test(arguments: noise) func noiseInPlaceOfAnAnswerIsSilence(noise: String) async throws {
        try await expectSilence(noise, after: [], pauses: [.seconds(60), .seconds(60)])
    }

    @Test(arguments: noise) func noiseInMidAnswerIsSilence(noise: String) async throws {
        let begun = Array(answering("Hello, ").prefix(2))
        try await expectSilence(noise, after: begun, pauses: [.seconds(100), .seconds(100), .seconds(100)])
    }

    /// Asks, has `noise` come after each of the pauses, and expects that the answer then comes over HTTP.
    private func expectSilence(_ noise: String, after begun: [String], pauses: [Duration]) async throws {
        let clock = ManualClock()
        let webSocket = ScriptedWebSocketTransport(clock: clock, openings: [.opened(replies: [[.deliver(begun)]])])
        let http = ScriptedHTTPTransport(answers: [Reply.answer("Hello, world").httpAnswer])
        let client = client(webSocket, http: http, clock: clock)
        async let answer = client.send("Hi")
        for pause in pauses {
            await clock.waitForSleepers(count: 1)
            clock.advance(by: pause)
            webSocket.peers[0].play([.deliver([noise])])
        }
        #expect(try await answer == "Hello, world")
        #expect(http.receivedRequests.count == 1)
        #expect(webSocket.receivedOpenings.count == 1)
    }

    @Test func anEventAmongTheNoiseKeepsTheTurnAlive() async throws {
        let clock = ManualClock()
        let whole = answering("Hello")
        let webSocket = ScriptedWebSocketTransport(clock: clock, openings: [.opened(replies: [[]])])
        let client = client(webSocket, http: ScriptedHTTPTransport(answers: []), clock: clock)
        async let answer = client.send("Hi")
        await clock.waitForSleepers(count: 1)
        clock.advance(by: .seconds(100))
        webSocket.peers[0].play([.deliver(["{}", whole[0]])])
        await clock.waitForSleepers(count: 1)
        clock.advance(by: .seconds(200))
        webSocket.peers[0].play([.deliver(Array(whole[1...]))])
        #expect(try await answer == "Hello")
    }

    @Test func aKeptConnectionThatTalksWithoutEndIsReplaced() async throws {
        let transport = BabblingTransport()
        let client = client(transport, http: ScriptedHTTPTransport(answers: []), clock: ManualClock())
        #expect(try await client.send("a") == "one")
        #expect(try await client.send("b") == "one")
        #expect(transport.openings == 2)
    }
}

/// Opens connections that answer, and then have something to say whenever they are asked.
private final class BabblingTransport: WebSocketTransport {
    private let count = Mutex(0)

    var openings: Int { count.withLock { $0 } }

    func open(_ url: URL, headerFields: HTTPFields) async throws -> WebSocketOpening {
        count.withLock { $0 += 1 }
        return .opened(Connection(), headerFields: [:])
    }

    private final class Connection: WebSocketConnection {
        private let hasAnswered = Mutex(false)

        var isOpen: Bool { true }

        func send(_ message: WebSocketMessage) async throws {}

        func receive(within deadline: Duration?) async throws -> WebSocketInbound {
            let isAnswer = hasAnswered.withLock { hasAnswered in
                defer { hasAnswered = true }
                return !hasAnswered
            }
            return .messages((isAnswer ? answering("one") : ["{}"]).map { .text($0) })
        }

        func close(_ closure: WebSocketCloseReason) async {}
        func cancel() {}
    }
}
