import ChappieCore
import Glibc
import TestFixtures
import Testing

@testable import ChappieSimulator

@Suite(.tags(.slow), .timeLimit(.minutes(3)))
struct LoadTests {
    @Test func aThousandIdleConnectionsAreKeptAndEveryOneAnswers() async throws {
        try await Simulator.during(SimulatorConfiguration(recordedRequestLimit: 10)) { simulator in
            let token = simulator.signIn().accessToken
            // Each is one descriptor here and one in the simulator; the usual limit is 1024 in all.
            var limit = rlimit()
            getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            limit.rlim_cur = limit.rlim_max
            setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            try #require(limit.rlim_max > 3000, "this machine allows \(limit.rlim_max) open files")
            let clients = try (0..<1000).map { _ in
                try TestWebSocket(simulator, offer: TestWebSocket.deflateOffer, token: token)
            }
            #expect(simulator.webSocketConnections.count { $0.isOpen } == clients.count)
            for client in clients { client.send(TestWebSocket.create("repeat 3 words")) }
            for client in clients { #expect(client.answer().text == "word after word, ") }
            #expect(simulator.receivedMessages.count == 10)
        }
    }

    @Test func anAnswerOfTwentyThousandPiecesComesWhole() async throws {
        try await Simulator.withWebSocket { client, _ in
            let events = client.ask("repeat 20000 words")
            #expect(events.count { $0["type"] == "response.output_text.delta" } == 20_000)
            #expect(events.types.last == "response.completed")
        }
    }
}
