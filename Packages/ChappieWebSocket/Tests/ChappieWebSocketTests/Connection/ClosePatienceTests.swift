import ChappieCore
import ChappieTesting
import ChappieWebSocket
import TestFixtures
import Testing

extension OverTheWire {
    @Suite struct ClosePatienceTests {
        @Test func aCloseThatIsNotAnsweredEndsAfterFiveSeconds() async throws {
            let server = try ScriptedWebSocketServer.start { .upgrade($0, then: [.stall]) }
            let connection = try await makeTransport().connection(server.url())
            let start = ContinuousClock.now
            await connection.close(.normal)
            let time = ContinuousClock.now - start
            #expect(time > .seconds(4.9) && time < .seconds(8), "after \(time)")
            #expect(try await eventually { server.record.openConnectionCount == 0 })
            let error = try await transportError { _ = try await connection.receive(within: nil) }
            #expect(error.code == .connectionLost)
            server.stop()
        }
    }
}
