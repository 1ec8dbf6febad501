import ChappieCore
import ChappieTesting
import ChappieWebSocket
import Foundation
import HTTPTypes
import TestFixtures
import Testing

extension OverTheWire {
    @Suite(.counterparts) struct TLSTests {
        /// A box in between, or a server that is overloaded: the next attempt may succeed.
        @Test(arguments: Adapter.allCases, [true, false])
        func aHandshakeThatBreaksOffIsALostConnection(_ adapter: Adapter, _ byReset: Bool) async throws {
            for beginning in [[], [0x16, 3, 3]] as [[UInt8]] {
                let server = try RawServer.breakingTLS(answer: beginning, byReset: byReset)
                let error = try await transportError {
                    _ = try await adapter.exchange(with: adapter.url(port: server.port), under: .test())
                }
                #expect(error.code == .connectionLost, "\(error.reason)")
                #expect(error.stage == .tls)
                #expect(error.host == "127.0.0.1:\(server.port)")
            }
        }

        @Test(arguments: Adapter.allCases) func anAlertIsFinal(_ adapter: Adapter) async throws {
            for (alert, words) in [(40, "handshake failure"), (70, "version")] as [(UInt8, String)] {
                let server = try RawServer.breakingTLS(answer: [0x15, 3, 3, 0, 2, 2, alert], byReset: false)
                let error = try await transportError {
                    _ = try await adapter.exchange(with: adapter.url(port: server.port), under: .test())
                }
                #expect(error.code == .tlsFailed)
                #expect(error.reason.contains(words), "\(error.reason)")
            }
        }

        /// The line takes the message in four seconds, and no part of it is silent for one.
        @Test func aSlowUploadIsNotTheServersSilence() async throws {
            let there = try Counterparts.current
            let line = try RawServer.slowLine(to: there.good, bytesPerSecond: 2 << 20)
            let transport = CurlWebSocketTransport(
                policy: .test(extraCAFile: there.authority, deadlines: ChappieDeadlines(liveness: .seconds(1))),
                compression: .off)
            guard
                case .opened(let connection, _) = try await transport.open(
                    Adapter.webSocket.url(port: line.port), headerFields: [:])
            else { throw ContractViolation("The server refused.") }
            let message = WebSocketMessage.binary([UInt8](repeating: 7, count: 8 << 20))
            try await connection.send(message)
            #expect(try await connection.receive(within: .seconds(20)) == .messages([message]))
        }
    }
}
