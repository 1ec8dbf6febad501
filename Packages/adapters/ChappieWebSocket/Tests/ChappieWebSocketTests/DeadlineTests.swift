import ChappieCore
import ChappieSimulatorServer
import ChappieTesting
import ChappieWebSocket
import FoundationEssentials
import HTTPTypes
import TestFixtures
import Testing

extension OverTheWire {
    @Suite struct DeadlineTests {
        static let short = Duration.milliseconds(200)

        @Test func aSilentPeerIsPingedAndThenGivenUp() async throws {
            let server = try ScriptedWebSocketServer.start { .upgrade($0, then: [.stall]) }
            let transport = makeTransport(deadlines: ChappieDeadlines(liveness: Self.short))
            let connection = try await transport.connection(server.url())
            let error = try await transportError { _ = try await connection.receive(within: nil) }
            #expect(error.code == .timedOut)
            #expect(error.stage == .liveness)
            #expect(server.record.pingCount == 1)
            #expect(!connection.isOpen)
            #expect(try await eventually { server.record.openConnectionCount == 0 })
            server.stop()
        }

        @Test func aPeerThatSendsNoByteIsGivenUpAfterAPing() async throws {
            let server = try ScriptedWebSocketServer.start { .upgrade($0, then: [.stall]) }
            let connection = try await makeTransport().connection(server.url())
            connection.ping(within: Self.short)
            let error = try await transportError { _ = try await connection.receive(within: nil) }
            #expect(error.code == .timedOut && error.stage == .firstByte)
            #expect(try await transportError { try await connection.pong() } == error)
            #expect(server.record.pingCount == 1 && !connection.isOpen)
            server.stop()
        }

        @Test func aPeerThatAnswersADemandedPingStays() async throws {
            let server = try ScriptedWebSocketServer.start { .upgrade($0, then: []) }
            let connection = try await makeTransport().connection(server.url())
            connection.ping(within: .seconds(30))
            try await connection.pong()
            #expect(connection.isOpen && server.record.pingCount == 1)
            server.stop()
        }

        /// Nothing is received; pings go both ways, and a peer that answers them stays.
        @Test func aPeerThatAnswersPingsIsAlive() async throws {
            let server = try ScriptedWebSocketServer.start {
                .upgrade($0, then: [.send(WebSocketFrames.text("a") + WebSocketFrames.ping("b"))])
            }
            // None of the handshake's deadlines concerns an open connection. A busy machine may answer two seconds late.
            let transport = makeTransport(
                deadlines: ChappieDeadlines(connect: .seconds(3), upgrade: .seconds(3), liveness: .seconds(4)))
            let connection = try await transport.connection(server.url())
            #expect(try await eventually { server.record.pingCount >= 2 })
            #expect(server.record.pongCount == 1)
            #expect(connection.isOpen)
            #expect(try await connection.messages(1) == [.text("a")])
            server.stop()
        }

        @Test func `a close that is not answered ends after five seconds`() async throws {
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

        private func timeOut(_ deadlines: ChappieDeadlines, at url: URL) async throws -> ChappieTransportError {
            let start = ContinuousClock.now
            let error = try await transportError { _ = try await makeTransport(deadlines: deadlines).connection(url) }
            let time = ContinuousClock.now - start
            #expect(error.code == .timedOut, "\(error)")
            // curl's own clock counts in milliseconds.
            #expect(time >= Self.short - .milliseconds(2) && time < .seconds(4), "after \(time)")
            return error
        }
    }
}
