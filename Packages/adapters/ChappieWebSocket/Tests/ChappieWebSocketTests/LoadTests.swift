import ChappieCore
import ChappieSimulatorServer
import ChappieTesting
import ChappieWebSocket
import FoundationEssentials
import Glibc
import Synchronization
import TestFixtures
import Testing

/// The name of the event loop's thread.
private let loopThreadName = "chappie-net"

extension OverTheWire {
    @Suite(.tags(.slow)) struct LoadTests {
        @Test func `a receiver that doesn't receive stops the sender`() async throws {
            let frame = WebSocketFrames.frame(2, [UInt8](repeating: 1, count: 64 << 10))
            let count = 512
            var frames: [UInt8] = []
            for _ in 0..<count { frames += frame }
            let everything = frames
            let server = try ScriptedWebSocketServer.start { .upgrade($0, then: [.send(everything)]) }
            let connection = try await makeTransport().connection(server.url())
            #expect(try await eventually { server.record.bytesWritten > 1 << 20 })
            let written = try #require(try await settled(for: .milliseconds(1200)) { server.record.bytesWritten })
            // 4 MiB here; the rest is in the two socket buffers, which the kernel lets grow to several MiB.
            #expect(written < 20 << 20, "the server could send \(written) bytes")
            #expect(connection.isOpen)
            var received = 0
            while received < count {
                guard case .messages(let messages) = try await connection.receive(within: .seconds(20)) else { break }
                received += messages.count
                #expect(messages.reduce(0) { $0 + $1.byteCount } < 6 << 20)
            }
            #expect(received == count)
            server.stop()
        }

        @Test func aMessageLargerThanTheInboxArrives() async throws {
            let payload = [UInt8](repeating: 5, count: 12 << 20)
            let server = try ScriptedWebSocketServer.start {
                .upgrade($0, then: [.send(WebSocketFrames.frame(2, payload) + WebSocketFrames.text("next"))])
            }
            let connection = try await makeTransport().connection(server.url())
            #expect(try await connection.messages(2) == [.binary(payload), .text("next")])
            server.stop()
        }

        @Test func `a sender waits until its message is sent, and a close is sent after it`() async throws {
            let gate = ScriptedGate()
            let server = try ScriptedWebSocketServer.reading(after: gate)
            let connection = try await makeTransport().connection(server.url())
            // More than the two socket buffers hold.
            let message = WebSocketMessage.binary([UInt8](repeating: 7, count: 10 << 20))
            let isSent = Mutex(false)
            let sender = Task {
                try await connection.send(message)
                isSent.withLock { $0 = true }
            }
            #expect(try await eventually { try TCPSocketTable().hasUnreadBytes(at: server.port) })
            #expect(try await settled(for: .milliseconds(500)) { isSent.withLock { $0 } } == false)
            let closer = Task { await connection.close(WebSocketCloseReason(code: 4000, reason: "enough")) }
            // The close is queued: nothing more may be sent.
            #expect(try await eventually { !connection.isOpen })
            gate.open()
            await closer.value
            try await sender.value
            #expect(server.record.messages == [message])
            #expect(server.record.closeCodes == [4000])
            server.stop()
        }

        /// One thread, and nothing lost.
        @Test func `one thread serves a thousand idle connections and a hundred busy ones`() async throws {
            let (idleCount, busyCount, messageCount) = (1000, 100, 50)
            try raiseDescriptorLimit(to: 2 * (idleCount + busyCount) + 200)
            let server = try ScriptedWebSocketServer.echo()
            let transport = makeTransport()
            let url = try server.url()
            var idle: [any WebSocketConnection] = []
            for _ in 0..<(idleCount / 50) {
                idle += try await withThrowingTaskGroup(of: (any WebSocketConnection).self) { group in
                    for _ in 0..<50 { group.addTask { try await transport.connection(url) } }
                    return try await group.reduce(into: []) { $0.append($1) }
                }
            }
            try await withThrowingTaskGroup(of: Int.self) { group in
                for index in 0..<busyCount {
                    group.addTask {
                        let connection = try await transport.connection(url)
                        var right = 0
                        for number in 0..<messageCount {
                            let message = WebSocketMessage.text("\(index)/\(number)")
                            try await connection.send(message)
                            if try await connection.messages(1) == [message] { right += 1 }
                        }
                        return right
                    }
                }
                for try await right in group { #expect(right == messageCount) }
            }
            #expect(try await eventually { try ProcessThreads.names().count { $0 == loopThreadName } == 1 })
            #expect(try ProcessThreads.names().count < 30)
            #expect(idle.allSatisfy { $0.isOpen })
            #expect(try await eventually { server.record.openConnectionCount == idleCount })
            // The remaining connections still work.
            try await idle[500].send(.text("here"))
            #expect(try await idle[500].messages(1) == [.text("here")])
            idle = []
            #expect(try await eventually { server.record.openConnectionCount == 0 })
            transport.shutdown()
            server.stop()
        }

        /// Before curl opens a connection it closes others that their peers have ended, and the new socket gets the
        /// number of an old one.
        @Test func `a connection that ended unread takes nothing from the next one`() async throws {
            let large = [UInt8](repeating: 1, count: 5 << 20)
            let ending = try ScriptedWebSocketServer.start {
                .upgrade($0, then: [.send(WebSocketFrames.frame(2, large)), .finish])
            }
            let echoing = try ScriptedWebSocketServer.echo()
            let transport = makeTransport()
            // Each fills its inbox, so that its end waits behind a socket that is not read.
            let kept = try await transport.connection(ending.url())
            var dropped: (any WebSocketConnection)? = try await transport.connection(ending.url())
            #expect(dropped?.isOpen == true)
            #expect(try await eventually { ending.record.openConnectionCount == 0 })
            // curl looks once a second.
            try await Task.sleep(for: .milliseconds(1200))
            let next = try await [transport.connection(echoing.url()), transport.connection(echoing.url())]
            dropped = nil
            for connection in next {
                try await connection.send(.text("hello"))
                #expect(try await connection.receive(within: .seconds(5)) == .messages([.text("hello")]))
            }
            #expect(try await kept.receive(within: .seconds(5)) == .messages([.binary(large)]))
            let error = try await transportError { _ = try await kept.receive(within: .seconds(5)) }
            #expect(error.code == .connectionLost)
            ending.stop()
            echoing.stop()
        }

        @Test func anIdleConnectionLetsTheLoopSleep() async throws {
            let server = try ScriptedWebSocketServer.start()
            let connection = try await makeTransport().connection(server.url())
            let isAsleep = try await eventually {
                let before = try #require(try ProcessThreads.contextSwitches(ofThreadsNamed: loopThreadName))
                // A measured window, in which a loop that polls would wake up often. Before it there may be work left.
                try await Task.sleep(for: .milliseconds(400))
                let after = try #require(try ProcessThreads.contextSwitches(ofThreadsNamed: loopThreadName))
                return after - before <= 2
            }
            #expect(isAsleep)
            #expect(connection.isOpen)
            server.stop()
        }

        /// The kernel's limit for this process.
        private func raiseDescriptorLimit(to count: Int) throws {
            var limit = rlimit()
            getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            if limit.rlim_cur < rlim_t(count) {
                limit.rlim_cur = min(rlim_t(count), limit.rlim_max)
                setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            }
            guard limit.rlim_cur >= rlim_t(count) else {
                throw ContractViolation("This test needs \(count) open files; the limit here is \(limit.rlim_cur).")
            }
        }
    }
}
