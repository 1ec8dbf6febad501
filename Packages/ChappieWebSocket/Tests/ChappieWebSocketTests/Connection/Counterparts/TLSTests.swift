import ChappieCore
import ChappieTesting
import ChappieWebSocket
import Foundation
import HTTPTypes
import TestFixtures
import Testing

extension OverTheWire {
    @Suite(.counterparts) struct TLSTests {
        @Test(arguments: [WebSocketCompression.permessageDeflate, .off])
        func speaksThroughTLS(_ compression: WebSocketCompression) async throws {
            let there = try Counterparts.current
            let transport = makeTransport(extraCAFile: there.authority, compression: compression)
            for host in ["127.0.0.1", "localhost"] {
                let connection = try await transport.connection(makeURL("wss://\(host):\(there.good)/"))
                // Larger than one TLS record, and than what either socket buffer holds.
                let messages: [WebSocketMessage] = [
                    .text("hello"), .binary([UInt8](repeating: 7, count: 3 << 20)), .text("bye"),
                ]
                for message in messages { try await connection.send(message) }
                #expect(try await connection.messages(3) == messages)
                await connection.close(.normal)
                #expect(try await connection.receive(within: nil) == .closed(.normal))
            }
        }

        /// What TLS has decrypted already no socket tells of.
        @Test func manySmallMessagesComeThroughTLS() async throws {
            let there = try Counterparts.current
            let connection = try await makeTransport(extraCAFile: there.authority)
                .connection(makeURL("wss://127.0.0.1:\(there.good)/"))
            let messages = (0..<5000).map { WebSocketMessage.text("message \($0)") }
            let sender = Task { for message in messages { try await connection.send(message) } }
            #expect(try await connection.messages(messages.count) == messages)
            try await sender.value
        }

        /// The receiver stays away until reading has stopped; then everything comes, what OpenSSL held back too.
        @Test func aReceiverThatComesLateGetsEverythingThroughTLS() async throws {
            let there = try Counterparts.current
            let connection = try await makeTransport(extraCAFile: there.authority)
                .connection(makeURL("wss://127.0.0.1:\(there.good)/"))
            let message = WebSocketMessage.binary([UInt8](repeating: 7, count: 100_000))
            let sender = Task { for _ in 0..<120 { try await connection.send(message) } }
            let server = try there.server
            #expect(try await eventually { server.record.bytesWritten > 1 << 20 })
            _ = try #require(try await settled(for: .milliseconds(300)) { server.record.bytesWritten })
            #expect(try await connection.messages(120).count == 120)
            try await sender.value
        }

        @Test func aRefusalComesThroughTLS() async throws {
            let there = try Counterparts.current
            let transport = makeTransport(extraCAFile: there.authority)
            let opening = try await transport.open(
                makeURL("https://127.0.0.1:\(there.good)/no"), headerFields: [:])
            guard case .refused(let response) = opening else { throw ContractViolation("It was not refused.") }
            #expect(response.status == .forbidden)
            #expect(try await response.body.collect(upTo: 100) == Array("not you".utf8))
        }

        @Test func aCertificateThatIsNotTrustedIsNamed() async throws {
            let there = try Counterparts.current
            let cases = [
                (there.otherHost, "127.0.0.1"), (there.expired, "expired"), (there.selfSigned, "self-signed"),
            ]
            for (port, words) in cases {
                let error = try await refusal(by: makeTransport(extraCAFile: there.authority), port: port)
                #expect(error.code == .certificateRejected)
                #expect(error.reason.contains(words), "\(error.reason)")
            }
            let unnamed = try await refusal(by: makeTransport(), port: there.good)
            #expect(unnamed.code == .certificateRejected)
            #expect(unnamed.reason.contains("unable to get local issuer certificate"))
        }

        @Test func oldTLSIsRefused() async throws {
            let there = try Counterparts.current
            let error = try await refusal(by: makeTransport(extraCAFile: there.authority), port: there.oldTLS)
            #expect(error.code == .tlsFailed)
        }

        private func refusal(by transport: CurlWebSocketTransport, port: Int) async throws -> ChappieTransportError {
            let error = try await transportError {
                _ = try await transport.connection(makeURL("wss://127.0.0.1:\(port)/a/path?secret=1"))
            }
            #expect(error.stage == .tls)
            #expect(error.host == "127.0.0.1:\(port)")
            #expect(!error.localizedDescription.contains("secret"))
            return error
        }
    }
}
