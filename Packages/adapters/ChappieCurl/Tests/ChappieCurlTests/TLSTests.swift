import ChappieCore
import ChappieHTTP
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
                #expect(error.stage == (adapter == .urlSession ? .connect : .tls))
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
                let shown = adapter == .urlSession ? "the handshake failed" : words
                #expect(error.reason.contains(shown), "\(error.reason)")
            }
        }

        @Test(arguments: Adapter.overCurl) func speaksThroughTLS(_ adapter: Adapter) async throws {
            let there = try Counterparts.current
            for host in ["127.0.0.1", "localhost"] {
                let answer = try await adapter.exchange(
                    with: adapter.url(host, port: there.good), under: .test(extraCAFile: there.authority))
                #expect(answer == (adapter == .http ? "hello over HTTP/2.0" : "hello"))
            }
        }

        @Test(arguments: Adapter.overCurl) func namesWhatIsWrongWithACertificate(_ adapter: Adapter) async throws {
            let there = try Counterparts.current
            let cases = [
                (there.otherHost, "127.0.0.1"), (there.expired, "expired"), (there.selfSigned, "self-signed"),
            ]
            for (port, words) in cases {
                let error = try await refusal(of: adapter, port: port, trusting: there.authority)
                #expect(error.code == .certificateRejected)
                #expect(error.reason.contains(words), "\(error.reason)")
            }
            let unnamed = try await refusal(of: adapter, port: there.good, trusting: nil)
            #expect(unnamed.code == .certificateRejected)
            #expect(unnamed.reason.contains("unable to get local issuer certificate"))
        }

        @Test(arguments: Adapter.overCurl) func refusesOldTLSAndNoTLS(_ adapter: Adapter) async throws {
            let there = try Counterparts.current
            let old = try await refusal(of: adapter, port: there.oldTLS, trusting: there.authority)
            #expect(old.code == .tlsFailed)
            #expect(old.reason.contains("protocol version"))
            let plain = try await refusal(of: adapter, port: there.plain, trusting: there.authority)
            #expect(plain.code == .tlsFailed)
        }

        @Test func `FoundationNetworking trusts only the system's authorities`() async throws {
            let there = try Counterparts.current
            for port in [there.good, there.otherHost, there.expired, there.selfSigned] {
                let error = try await refusal(of: .urlSession, port: port, trusting: nil)
                #expect(error.code == .certificateRejected)
            }
            let plain = try await refusal(of: .urlSession, port: there.plain, trusting: nil)
            #expect(plain.code == .tlsFailed)
            let error = try await transportError {
                _ = try await Adapter.urlSession.exchange(
                    with: Adapter.urlSession.url(port: there.good), under: .test(extraCAFile: there.authority))
            }
            #expect(error.code == .unavailable)
            #expect(error.reason == "FoundationNetworking can't trust another authority")
        }

        /// The system's bundle stays in force beside the extra file: this connection needs it.
        @Test(arguments: Adapter.overCurl)
        func `an extra authority is trusted only for its own certificates`(_ adapter: Adapter) async throws {
            let there = try Counterparts.current
            let policy = ChappieNetworkPolicy.test(extraCAFile: there.selfSignedCertificate)
            #expect(
                try await adapter.exchange(with: adapter.url(port: there.selfSigned), under: policy).hasPrefix("hello"))
            let error = try await refusal(of: adapter, port: there.good, trusting: there.selfSignedCertificate)
            #expect(error.code == .certificateRejected)
        }

        private func refusal(
            of adapter: Adapter, port: Int, trusting file: String?
        ) async throws -> ChappieTransportError {
            let error = try await transportError {
                _ = try await adapter.exchange(
                    with: adapter.url(port: port, path: "/a/path?secret=1"), under: .test(extraCAFile: file))
            }
            #expect(error.stage == .tls)
            #expect(error.host == "127.0.0.1:\(port)")
            #expect(!error.localizedDescription.contains("secret"))
            return error
        }

        // MARK: HTTP alone

        @Test func speaksHTTP11WhereTheServerHasNothingElse() async throws {
            let there = try Counterparts.current
            let answer = try await Adapter.http.exchange(
                with: Adapter.http.url(port: there.goodWithoutHTTP2), under: .test(extraCAFile: there.authority))
            #expect(answer == "hello over HTTP/1.1")
        }

        @Test func followsARedirectWithinTheOriginOnly() async throws {
            let there = try Counterparts.current
            let policy = ChappieNetworkPolicy.test(extraCAFile: there.authority)
            let moved = try await Adapter.http.exchange(
                with: Adapter.http.url(port: there.good, path: "/moved"), under: policy)
            #expect(moved == "hello over HTTP/2.0")
            let error = try await transportError {
                _ = try await Adapter.http.exchange(
                    with: Adapter.http.url(port: there.good, path: "/away"), under: policy)
            }
            #expect(error.code == .redirectRefused)
            #expect(error.reason.contains("https://127.0.0.1:\(there.selfSigned)"))
        }

        /// Over HTTP/2 a stream that waits must not hold up the others on its connection for good.
        @Test func aStreamThatWaitsLeavesTheOthersAlone() async throws {
            let there = try Counterparts.current
            let size = 8 << 20
            try Data(repeating: 7, count: size).write(to: URL(filePath: there.directory.path("large")))
            let transport = CurlHTTPTransport(policy: .test(extraCAFile: there.authority))
            let large = HTTPExchangeRequest(url: try Adapter.http.url(port: there.good, path: "/files/large"))
            let waiting = try await transport.send(large).body
            for _ in 0..<20 {
                let url = try Adapter.http.url(port: there.good)
                #expect(try await transport.send(HTTPExchangeRequest(url: url)).status == .ok)
            }
            #expect(try await transport.send(large).body.collect(upTo: size).count == size)
            #expect(try await waiting.collect(upTo: size).count == size)
        }

        // MARK: WebSocket alone

        @Test(arguments: [true, false])
        func messagesOfEverySizeComeThroughTLS(_ offersCompression: Bool) async throws {
            let connection = try await connection(offersCompression: offersCompression)
            // Larger than one TLS record, and than what either socket buffer holds; then many in one record.
            let messages: [WebSocketMessage] =
                [.text("hello"), .binary([UInt8](repeating: 7, count: 3 << 20)), .text("bye")]
                + (0..<5000).map { .text("message \($0)") }
            let sender = Task { for message in messages { try await connection.send(message) } }
            #expect(try await received(messages.count, from: connection) == messages)
            try await sender.value
            await connection.close(.normal)
            #expect(try await connection.receive(within: nil) == .closed(.normal))
        }

        /// The receiver stays away until reading has stopped; then everything comes, what OpenSSL held back too.
        @Test func `a receiver that comes late gets everything through TLS`() async throws {
            let server = try Counterparts.current.server
            let connection = try await connection()
            let before = server.record.bytesWritten
            let message = WebSocketMessage.binary([UInt8](repeating: 7, count: 100_000))
            let sender = Task { for _ in 0..<120 { try await connection.send(message) } }
            #expect(try await eventually { server.record.bytesWritten > before + 1 << 20 })
            _ = try #require(try await settled(for: .milliseconds(300)) { server.record.bytesWritten })
            #expect(try await received(120, from: connection).count == 120)
            try await sender.value
        }

        @Test func aRefusalComesThroughTLS() async throws {
            let there = try Counterparts.current
            let opening = try await CurlWebSocketTransport(policy: .test(extraCAFile: there.authority)).open(
                Adapter.http.url(port: there.good, path: "/no"), headerFields: [:])
            guard case .refused(let response) = opening else { throw ContractViolation("It was not refused.") }
            #expect(response.status == .forbidden)
            #expect(try await response.body.collect(upTo: 100) == Array("not you".utf8))
        }

        /// The line takes the message in ten seconds, and no part of it is silent for five; on a machine that is busy, all
        /// of it takes longer.
        @Test func aSlowUploadIsNotTheServersSilence() async throws {
            let there = try Counterparts.current
            let line = try RawServer.slowLine(to: there.good, bytesPerSecond: 1_200_000 / Patience.factor)
            let connection = try await connection(
                offersCompression: false, port: line.port,
                deadlines: ChappieDeadlines(liveness: .seconds(5 * Patience.factor)))
            let message = WebSocketMessage.binary([UInt8](repeating: 7, count: 12_000_000))
            try await connection.send(message)
            #expect(try await connection.receive(within: .seconds(20 * Patience.factor)) == .messages([message]))
        }

        private func connection(
            offersCompression: Bool = true, port: Int? = nil, deadlines: ChappieDeadlines = .ample
        ) async throws -> any WebSocketConnection {
            let there = try Counterparts.current
            let transport = CurlWebSocketTransport(
                policy: .test(extraCAFile: there.authority, deadlines: deadlines), offersCompression: offersCompression)
            let url = try Adapter.webSocket.url(port: port ?? there.good)
            guard case .opened(let connection, _) = try await transport.open(url, headerFields: [:]) else {
                throw ContractViolation("The server refused.")
            }
            return connection
        }

        private func received(
            _ count: Int, from connection: any WebSocketConnection
        ) async throws -> [WebSocketMessage] {
            var messages: [WebSocketMessage] = []
            while messages.count < count {
                guard case .messages(let more) = try await connection.receive(within: .seconds(20)) else { break }
                messages += more
            }
            return messages
        }
    }
}
