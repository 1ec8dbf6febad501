import ChappieCore
import ChappieSimulatorServer
import HTTPTypes
import TestFixtures
import Testing

extension OverTheWire {
    /// The contract shows that the task gets its error within 100 ms. These tests show that the connection closes as
    /// well.
    @Suite struct CancellationTests {
        @Test(arguments: Adapter.allCases) func endsARequestThatIsGoingOut(_ adapter: Adapter) async throws {
            let listener = try await SilentListener(backlog: 8, filled: false)
            defer { listener.close() }
            let request = HTTPExchangeRequest(
                method: .post, url: try makeURL("http://127.0.0.1:\(listener.port)/"),
                body: .init(bytes: [UInt8](repeating: 7, count: 32 << 20)))
            let transport = adapter.makeTransport()
            let task = Task { try await transport.fetch(request) }
            #expect(try await eventually { try listener.hasBeenSpokenTo })
            task.cancel()
            await #expect(throws: CancellationError.self) { try await task.value }
        }

        static let beginnings = [
            "", "HTTP/1.1 200 OK\r\nx-half: ", "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc",
        ]

        @Test(arguments: Adapter.allCases, beginnings)
        func closesTheConnection(_ adapter: Adapter, after beginning: String) async throws {
            let server = try await ScriptedServer.start { _ in
                ScriptedAnswer(steps: [.send(Array(beginning.utf8)), .stall])
            }
            let url = try server.url()
            let transport = adapter.makeTransport()
            let task = Task { try await transport.fetch(url) }
            let isRead = try await eventually {
                try server.receivedRequests.count == 1 && server.bytesWritten == beginning.utf8.count
                    && !TCPSocketTable().hasUnreadBytes(from: server.port)
            }
            #expect(isRead)
            task.cancel()
            await #expect(throws: CancellationError.self) { try await task.value }
            #expect(try await eventually { server.openConnectionCount == 0 })
            await server.stop()
        }

        @Test(arguments: Adapter.allCases) func lettingGoOfTheBodyClosesTheConnection(_ adapter: Adapter) async throws {
            let server = try await ScriptedServer.start { _ in
                ScriptedAnswer(steps: [.send(Array("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc".utf8)), .stall])
            }
            let transport = adapter.makeTransport()
            var response: HTTPExchangeResponse? = try await transport.send(HTTPExchangeRequest(url: server.url()))
            #expect(response?.status == .ok)
            #expect(server.openConnectionCount == 1)
            response = nil
            #expect(try await eventually { server.openConnectionCount == 0 })
            await server.stop()
        }

        @Test(arguments: Adapter.allCases) func aSlowReaderIsCancelledToo(_ adapter: Adapter) async throws {
            let server = try await ScriptedServer.start { _ in
                .response(status: 200, body: [UInt8](repeating: 1, count: 4 << 20))
            }
            let body = try await adapter.makeTransport().send(HTTPExchangeRequest(url: server.url())).body
            // By now the transfer of curl is paused: the reader has taken nothing.
            #expect(try await eventually { server.bytesWritten > 256 * 1024 })
            body.cancel()
            #expect(try await eventually { server.openConnectionCount == 0 })
            await #expect(throws: CancellationError.self) { while try await body.next() != nil {} }
            await server.stop()
        }
    }
}
