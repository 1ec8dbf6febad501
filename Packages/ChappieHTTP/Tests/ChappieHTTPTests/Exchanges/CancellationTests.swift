import ChappieCore
import ChappieHTTP
import ChappieSimulator
import HTTPTypes
import Testing

extension OverTheWire {
    @Suite struct CancellationTests {
        static let limit = Duration.milliseconds(100)

        @Test func isQuickWhileConnecting() async throws {
            let listener = try SilentListener()
            defer { listener.close() }
            let url = try makeURL("http://127.0.0.1:\(listener.port)/")
            try await expectQuickCancellation(of: { _ = try await $0.fetch(url) })
        }

        @Test func isQuickInTheHandshake() async throws {
            let listener = try SilentListener(backlog: 8, filled: false)
            defer { listener.close() }
            let url = try makeURL("https://127.0.0.1:\(listener.port)/")
            try await expectQuickCancellation(of: { _ = try await $0.fetch(url) })
        }

        @Test func isQuickWhileTheRequestIsGoingOut() async throws {
            let listener = try SilentListener(backlog: 8, filled: false)
            defer { listener.close() }
            let request = HTTPExchangeRequest(
                method: .post, url: try makeURL("http://127.0.0.1:\(listener.port)/"),
                body: .init(bytes: [UInt8](repeating: 7, count: 32 << 20)))
            try await expectQuickCancellation(of: { _ = try await $0.fetch(request) })
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
            try await expectQuickCancellation(
                of: { _ = try await $0.fetch(url) }, when: { server.receivedRequests.count == 1 },
                until: { server.openConnectionCount == 0 })
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

        /// Measures from the cancellation to the error, and to `until`, each within the port's limit.
        private func expectQuickCancellation(
            of operation: @escaping @Sendable (CurlHTTPTransport) async throws -> Void,
            when isReached: () -> Bool = { true }, until isOver: () -> Bool = { true }
        ) async throws {
            let transport = makeTransport()
            let task = Task { try await operation(transport) }
            #expect(try await eventually(isReached))
            // Lets the bytes of the answer arrive; an earlier stage would have to end as quickly.
            try await Task.sleep(for: .milliseconds(50))
            let start = ContinuousClock.now
            task.cancel()
            await #expect(throws: CancellationError.self) { try await task.value }
            let time = ContinuousClock.now - start
            #expect(time < Self.limit, "the error took \(time)")
            #expect(try await eventually(within: Self.limit - time, isOver), "the connection outlived the limit")
            transport.shutdown()
        }
    }
}
