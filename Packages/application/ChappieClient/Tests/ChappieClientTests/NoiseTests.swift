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
            clock: clock, entropy: FixedEntropy(), modelCache: SeededModelCache(listedAt: clock.now))
    }

    /// Noise comes after each pause, in place of an answer or in the midst of it: the connection is alive.
    @Test(arguments: noise, [false, true]) func noiseIsASignOfLife(noise: String, isInMidAnswer: Bool) async throws {
        let events = answering("Hello, world")
        let begun = isInMidAnswer ? Array(events.prefix(2)) : []
        let clock = ManualClock()
        let webSocket = ScriptedWebSocketTransport(clock: clock, openings: [.opened(replies: [[.deliver(begun)]])])
        let http = ScriptedHTTPTransport(answers: [])
        let client = client(webSocket, http: http, clock: clock)
        async let answer = client.send("Hi")
        for _ in 0..<5 {
            await clock.waitForSleepers(count: 1)
            clock.advance(by: .seconds(700))
            webSocket.peers[0].play([.deliver([noise])])
        }
        await clock.waitForSleepers(count: 1)
        webSocket.peers[0].play([.deliver(Array(events.dropFirst(begun.count)))])
        #expect(try await answer == "Hello, world")
        #expect(http.receivedRequests.isEmpty && webSocket.receivedOpenings.count == 1)
    }

    @Test func noiseWithoutEndIsNoAnswer() async throws {
        let clock = ManualClock()
        let webSocket = ScriptedWebSocketTransport(clock: clock, openings: [.opened(replies: [[]])])
        let client = client(webSocket, http: ScriptedHTTPTransport(answers: []), clock: clock)
        let asking = Task { await Seen(client.stream("Hi")) }
        for _ in 0..<4 {
            await clock.waitForSleepers(count: 1)
            clock.advance(by: .seconds(900))
            webSocket.peers[0].play([.deliver(["{}"])])
        }
        let seen = await asking.value
        guard case .transportFailed(let failure)? = seen.error else {
            Issue.record("\(seen)")
            return
        }
        #expect(failure.code == .timedOut && failure.stage == .message)
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

    /// It answers, and then has something to say whenever it is asked.
    private final class Babbler: WebSocketTransport, WebSocketConnection {
        private let isFirst = Mutex(true)
        let openings = Mutex(0)

        func open(_ url: URL, headerFields: HTTPFields) async throws -> WebSocketOpening {
            openings.withLock { $0 += 1 }
            isFirst.withLock { $0 = true }
            return .opened(self, headerFields: [:])
        }

        var isOpen: Bool { true }
        func send(_ message: WebSocketMessage) async throws {}
        func ping(within allowance: Duration) {}
        func pong() async throws {}
        func close(_ closure: WebSocketCloseReason) async {}
        func cancel() {}

        func receive(within deadline: Duration?) async throws -> WebSocketInbound {
            let isAnswer = isFirst.withLock { isFirst in
                defer { isFirst = false }
                return isFirst
            }
            return .messages((isAnswer ? answering("one") : ["{}"]).map { .text($0) })
        }
    }

    @Test func `a kept connection that never stops sending is replaced`() async throws {
        let babbler = Babbler()
        let client = client(babbler, http: ScriptedHTTPTransport(answers: []), clock: ManualClock())
        for text in ["a", "b"] { #expect(try await client.send(text) == "one") }
        #expect(babbler.openings.withLock { $0 } == 2)
    }
}
