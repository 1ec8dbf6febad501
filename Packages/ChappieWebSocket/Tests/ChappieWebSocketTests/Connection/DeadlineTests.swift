import ChappieCore
import ChappieSimulator
import ChappieTesting
import ChappieWebSocket
import FoundationEssentials
import HTTPTypes
import TestFixtures
import Testing

extension OverTheWire {
    @Suite struct DeadlineTests {
        static let short = Duration.milliseconds(200)

        /// A listener that never accepts has room for few connections: the one past those is never answered.
        @Test func aConnectionThatIsNotAnsweredEndsAtTheConnectDeadline() async throws {
            let listener = try await SilentListener()
            defer { listener.close() }
            let error = try await timeOut(
                ChappieDeadlines(connect: Self.short), at: makeURL("ws://127.0.0.1:\(listener.port)/"))
            #expect(error.stage == .connect)
        }

        /// The kernel accepts the connection; nothing answers the ClientHello.
        @Test func aTLSHandshakeThatIsNotAnsweredEndsAtTheConnectDeadline() async throws {
            let listener = try await SilentListener(backlog: 8, filled: false)
            defer { listener.close() }
            let error = try await timeOut(
                ChappieDeadlines(connect: Self.short), at: makeURL("wss://127.0.0.1:\(listener.port)/"))
            #expect(error.stage == .tls)
        }

        @Test(arguments: ["", "HTTP/1.1 101 Switching Protocols\r\nupgrade: web"])
        func aHandshakeThatIsNotAnsweredEndsAtTheHeadsDeadline(_ beginning: String) async throws {
            let server = try ScriptedWebSocketServer.start { _ in
                .init(steps: [.send(Array(beginning.utf8)), .stall])
            }
            let error = try await timeOut(ChappieDeadlines(upgrade: Self.short), at: server.url())
            #expect(error.stage == .responseHead)
            #expect(error.host == "127.0.0.1:\(server.port)")
            #expect(error.reason.contains("200 ms"))
            #expect(try await eventually { server.record.openConnectionCount == 0 })
            server.stop()
        }

        @Test func aRefusalsBodyHasItsOwnDeadlines() async throws {
            let head = "HTTP/1.1 503 Later\r\ncontent-length: 9\r\n\r\n"
            for (text, stage) in [(head, ChappieTransportError.Stage.firstByte), (head + "half", .responseBody)] {
                let server = try ScriptedWebSocketServer.start { _ in .init(steps: [.send(Array(text.utf8)), .stall]) }
                let transport = makeTransport(
                    deadlines: ChappieDeadlines(firstByte: Self.short, idle: Self.short))
                guard case .refused(let response) = try await transport.open(server.url(), headerFields: [:]) else {
                    throw ContractViolation("It was not refused.")
                }
                let error = try await transportError { for try await _ in response.body {} }
                #expect(error.code == .timedOut)
                #expect(error.stage == stage)
                server.stop()
            }
        }

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

        /// Nothing is received; the pings go on, and a peer that answers them stays.
        @Test func aPeerThatAnswersPingsIsAlive() async throws {
            let server = try ScriptedWebSocketServer.start()
            // None of the handshake's deadlines concerns an open connection. A busy machine may answer late.
            let transport = makeTransport(
                deadlines: ChappieDeadlines(connect: .seconds(1), upgrade: .seconds(1), liveness: .seconds(1)))
            let connection = try await transport.connection(server.url())
            #expect(try await eventually { server.record.pingCount >= 5 })
            #expect(connection.isOpen)
            server.stop()
        }

        @Test func pingsAreAnsweredThoughNothingIsReceived() async throws {
            let server = try ScriptedWebSocketServer.start {
                .upgrade($0, then: [.send(WebSocketFrames.text("a") + WebSocketFrames.ping("b"))])
            }
            let connection = try await makeTransport().connection(server.url())
            #expect(try await eventually { server.record.pongCount == 1 })
            #expect(try await connection.messages(1) == [.text("a")])
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
