import ChappieCore
import ChappieHTTP
import ChappieSimulator
import HTTPTypes
import TestFixtures
import Testing

extension OverTheWire {
    @Suite struct CancellationTests {
        static let limit = Duration.milliseconds(100)

        @Test func isQuickWhileConnecting() async throws {
            let listener = try await SilentListener()
            defer { listener.close() }
            let url = try makeURL("http://127.0.0.1:\(listener.port)/")
            try await expectQuickCancellation {
                _ = try await $0.fetch(url)
            } when: {
                try listener.isBeingDialled
            }
        }

        @Test func isQuickInTheHandshake() async throws {
            let listener = try await SilentListener(backlog: 8, filled: false)
            defer { listener.close() }
            let url = try makeURL("https://127.0.0.1:\(listener.port)/")
            try await expectQuickCancellation {
                _ = try await $0.fetch(url)
            } when: {
                try listener.hasBeenSpokenTo
            }
        }

        @Test func isQuickWhileTheRequestIsGoingOut() async throws {
            let listener = try await SilentListener(backlog: 8, filled: false)
            defer { listener.close() }
            let request = HTTPExchangeRequest(
                method: .post, url: try makeURL("http://127.0.0.1:\(listener.port)/"),
                body: .init(bytes: [UInt8](repeating: 7, count: 32 << 20)))
            try await expectQuickCancellation {
                _ = try await $0.fetch(request)
            } when: {
                try listener.hasBeenSpokenTo
            }
        }

        @Test(arguments: [
            "", "HTTP/1.1 200 OK\r\nx-half: ", "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc",
        ])
        func isQuickAndClosesTheConnection(after beginning: String) async throws {
            let server = try await ScriptedServer.start { _ in
                ScriptedAnswer(steps: [.send(Array(beginning.utf8)), .stall])
            }
            let url = try server.url()
            try await expectQuickCancellation {
                _ = try await $0.fetch(url)
            } when: {
                // The bytes of every answer so far have arrived, and were read.
                try server.openConnectionCount == 1 && server.receivedRequests.count == server.connectionCount
                    && server.bytesWritten == server.connectionCount * beginning.utf8.count
                    && !TCPSocketTable().hasUnreadBytes(from: server.port)
            } until: {
                server.openConnectionCount == 0
            }
            await server.stop()
        }

        @Test func lettingGoOfTheBodyClosesTheConnection() async throws {
            let server = try await ScriptedServer.start { _ in
                ScriptedAnswer(steps: [.send(Array("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc".utf8)), .stall])
            }
            let transport = makeTransport()
            var response: HTTPExchangeResponse? = try await transport.send(HTTPExchangeRequest(url: server.url()))
            #expect(response?.status == .ok)
            #expect(server.openConnectionCount == 1)
            response = nil
            #expect(try await eventually { server.openConnectionCount == 0 })
            await server.stop()
        }

        @Test func aSlowReaderIsCancelledToo() async throws {
            let server = try await ScriptedServer.start { _ in
                .response(status: 200, body: [UInt8](repeating: 1, count: 4 << 20))
            }
            let body = try await makeTransport().send(HTTPExchangeRequest(url: server.url())).body
            // By now the transfer is paused: the reader has taken nothing.
            #expect(try await eventually { server.bytesWritten > 256 * 1024 })
            body.cancel()
            #expect(try await eventually { server.openConnectionCount == 0 })
            await #expect(throws: CancellationError.self) { while try await body.next() != nil {} }
            await server.stop()
        }

        /// Measures from the cancellation to the error, and to `until`, within the port's limit.
        private func expectQuickCancellation(
            of operation: @escaping @Sendable (CurlHTTPTransport) async throws -> Void,
            when isReached: () throws -> Bool, until isOver: () -> Bool = { true }
        ) async throws {
            let time = try await fastest(under: Self.limit) { () async throws -> Duration in
                let transport = makeTransport()
                defer { transport.shutdown() }
                let task = Task { try await operation(transport) }
                #expect(try await eventually(isReached))
                let start = ContinuousClock.now
                task.cancel()
                await #expect(throws: CancellationError.self) { try await task.value }
                #expect(try await eventually(isOver), "the connection is still there")
                return ContinuousClock.now - start
            }
            #expect(time < Self.limit)
        }
    }
}
