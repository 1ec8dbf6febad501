import ChappieCore
import ChappieSimulatorServer
import ChappieTesting
import ChappieWebSocket
import FoundationEssentials
import TestFixtures
import Testing

extension OverTheWire {
    @Suite(.tags(.measured)) struct CancellationTests {
        static let limit = Duration.milliseconds(100)

        @Test(arguments: [false, true])
        func `a cancelled opening ends quickly while it connects or is being secured`(_ isSecuring: Bool) async throws {
            let listener = try await isSecuring ? SilentListener(backlog: 8, filled: false) : SilentListener()
            defer { listener.close() }
            let url = try makeURL("\(isSecuring ? "wss" : "ws")://127.0.0.1:\(listener.port)/")
            try await expectQuickCancellation {
                _ = try await makeTransport().connection(url)
            } when: {
                try isSecuring ? listener.hasBeenSpokenTo : listener.isBeingDialled
            }
        }

        @Test(arguments: ["", "HTTP/1.1 101 Switching", "HTTP/1.1 500 No\r\ncontent-length: 9\r\n\r\nbody"])
        func `a cancelled opening ends quickly while it waits for its answer`(_ beginning: String) async throws {
            let server = try ScriptedWebSocketServer.stalling(after: beginning)
            let url = try server.url()
            let transport = makeTransport()
            try await expectQuickCancellation {
                _ = try await transport.connection(url)
            } when: {
                try server.wasReadAfterAnswering(with: beginning)
            } until: {
                server.record.openConnectionCount == 0
            }
            server.stop()
        }

        /// The message that waits for room is not sent; the ones before it are, and the connection lives.
        @Test func aSenderThatWaitsForRoomIsQuickToEnd() async throws {
            let gate = ScriptedGate()
            let server = try ScriptedWebSocketServer.reading(after: gate)
            let connection = try await makeTransport().connection(server.url())
            let sent = WebSocketMessage.binary([UInt8](repeating: 7, count: 8 << 20))
            let sender = Task { try await connection.send(sent) }
            #expect(try await eventually { try TCPSocketTable().hasUnreadBytes(at: server.port) })
            try await expectQuickCancellation {
                try await connection.send(.text("small, but behind the large one"))
            } when: {
                // A measured window: nothing shows that a sender waits, but a sender that needn't would be done by
                // then.
                try await Task.sleep(for: .milliseconds(100))
                return true
            }
            gate.open()
            #expect(connection.isOpen)
            try await sender.value
            try await connection.send(.text("last"))
            #expect(try await eventually { server.record.messages == [sent, .text("last")] })
            server.stop()
        }

        @Test func aCloseIsQuickToGiveUp() async throws {
            let server = try ScriptedWebSocketServer.start { .upgrade($0, then: [.stall]) }
            let transport = makeTransport()
            let time = try await fastest(under: Self.limit) {
                let connection = try await transport.connection(server.url())
                let task = Task { await connection.close(.normal) }
                #expect(try await eventually { server.record.closeCodes.count == server.record.connectionCount })
                let start = ContinuousClock.now
                task.cancel()
                await task.value
                return ContinuousClock.now - start
            }
            #expect(time < Self.limit)
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

        /// Measures from the cancellation to the error, and to `until`, within the port's limit.
        private func expectQuickCancellation(
            of operation: @escaping @Sendable () async throws -> Void, when isReached: () async throws -> Bool,
            until isOver: () -> Bool = { true }
        ) async throws {
            let time = try await fastest(under: Self.limit) { () async throws -> Duration in
                let task = Task { try await operation() }
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

extension ScriptedWebSocketServer {
    /// Whether every connection so far has got `answer` to its request, and one is left that has read it.
    fileprivate func wasReadAfterAnswering(with answer: String) throws -> Bool {
        let record = record
        return try record.openConnectionCount == 1 && record.requests.count == record.connectionCount
            && record.bytesWritten == record.connectionCount * answer.utf8.count
            && !TCPSocketTable().hasUnreadBytes(from: port)
    }
}
