import ChappieCore
import ChappieSimulator
import ChappieTesting
import ChappieWebSocket
import FoundationEssentials
import HTTPTypes
import Testing

extension OverTheWire {
    @Suite struct CancellationTests {
        static let limit = Duration.milliseconds(100)

        @Test func anOpeningIsQuickToEndWhileConnecting() async throws {
            let listener = try SilentListener()
            defer { listener.close() }
            let url = try makeURL("ws://127.0.0.1:\(listener.port)/")
            try await expectQuickCancellation { _ = try await makeTransport().connection(url) }
        }

        @Test func anOpeningIsQuickToEndWhileSecuring() async throws {
            let listener = try SilentListener(backlog: 8, filled: false)
            defer { listener.close() }
            let url = try makeURL("wss://127.0.0.1:\(listener.port)/")
            try await expectQuickCancellation { _ = try await makeTransport().connection(url) }
        }

        @Test(arguments: ["", "HTTP/1.1 101 Switching"])
        func anOpeningIsQuickToEndWhileWaitingForItsAnswer(_ beginning: String) async throws {
            let server = try ScriptedWebSocketServer.start { _ in
                .init(steps: [.send(Array(beginning.utf8)), .stall])
            }
            let url = try server.url()
            let transport = makeTransport()
            try await expectQuickCancellation {
                _ = try await transport.connection(url)
            } until: {
                server.record.connectionCount > 0 && server.record.openConnectionCount == 0
            }
            server.stop()
        }

        @Test func aRefusalsBodyIsQuickToEnd() async throws {
            let server = try ScriptedWebSocketServer.start { _ in
                .init(steps: [.send(Array("HTTP/1.1 500 No\r\ncontent-length: 9\r\n\r\n".utf8)), .stall])
            }
            let url = try server.url()
            let transport = makeTransport()
            try await expectQuickCancellation {
                guard case .refused(let response) = try await transport.open(url, headerFields: [:]) else { return }
                for try await _ in response.body {}
            } until: {
                server.record.connectionCount > 0 && server.record.openConnectionCount == 0
            }
            server.stop()
        }

        /// The message that waits for room is not sent; the ones before it are, and the connection lives.
        @Test func aSenderThatWaitsForRoomIsQuickToEnd() async throws {
            let server = try ScriptedWebSocketServer.start {
                .upgrade($0, then: [.stopReading, .wait(.seconds(1)), .startReading])
            }
            let connection = try await makeTransport(compression: .off).connection(server.url())
            let sent = WebSocketMessage.binary([UInt8](repeating: 7, count: 8 << 20))
            try await connection.send(sent)
            try await connection.send(.text("small, but behind the large one"), isExpectedToWait: true)
            #expect(connection.isOpen)
            #expect(try await eventually { server.record.messages == [sent] })
            try await connection.send(.text("last"))
            #expect(try await eventually { server.record.messages == [sent, .text("last")] })
            server.stop()
        }

        @Test func aCloseIsQuickToGiveUp() async throws {
            let server = try ScriptedWebSocketServer.start { .upgrade($0, then: [.stall]) }
            let connection = try await makeTransport().connection(server.url())
            let task = Task { await connection.close(.normal) }
            try await Task.sleep(for: .milliseconds(20))
            let start = ContinuousClock.now
            task.cancel()
            await task.value
            #expect(ContinuousClock.now - start < Self.limit)
            server.stop()
        }

        @Test func lettingGoOfTheConnectionDropsIt() async throws {
            let server = try ScriptedWebSocketServer.start()
            let transport = makeTransport()
            var connection: (any WebSocketConnection)? = try await transport.connection(server.url())
            #expect(connection?.isOpen == true)
            connection = nil
            #expect(try await eventually { server.record.openConnectionCount == 0 })
            #expect(server.record.closeCodes.isEmpty)
            server.stop()
        }

        @Test func shuttingTheTransportDownEndsEverything() async throws {
            let server = try ScriptedWebSocketServer.start {
                $0.target == "/hangs" ? .init(steps: [.stall]) : .upgrade($0)
            }
            let transport = makeTransport()
            let connection = try await transport.connection(server.url())
            let (plain, hanging) = (try server.url(), try server.url("/hangs"))
            let receiver = Task { _ = try await connection.receive(within: nil) }
            let opener = Task { _ = try await transport.connection(hanging) }
            #expect(try await eventually { server.record.requests.count == 2 })
            transport.shutdown()
            for task in [receiver, opener, Task { _ = try await transport.connection(plain) }] {
                let error = try await transportError { try await task.value }
                #expect(error.code == .unavailable)
            }
            #expect(try await eventually { server.record.openConnectionCount == 0 })
            server.stop()
        }

        /// Measures from the cancellation to the error, and to `until`, each within the port's limit; a busy machine may
        /// miss it once, not three times.
        private func expectQuickCancellation(
            of operation: @escaping @Sendable () async throws -> Void, until isOver: () -> Bool = { true }
        ) async throws {
            var times: [Duration] = []
            for _ in 0..<3 {
                let task = Task { try await operation() }
                try await Task.sleep(for: .milliseconds(50))
                let start = ContinuousClock.now
                task.cancel()
                await #expect(throws: CancellationError.self) { try await task.value }
                _ = try await eventually(isOver)
                times.append(ContinuousClock.now - start)
                if times.last.map({ $0 < Self.limit }) == true { return }
            }
            Issue.record("It took \(times).")
        }
    }
}

extension WebSocketConnection {
    /// Sends what must wait, and cancels the sender.
    fileprivate func send(_ message: WebSocketMessage, isExpectedToWait: Bool) async throws {
        let task = Task { try await send(message) }
        try await Task.sleep(for: .milliseconds(100))
        let start = ContinuousClock.now
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(ContinuousClock.now - start < .milliseconds(100))
    }
}
