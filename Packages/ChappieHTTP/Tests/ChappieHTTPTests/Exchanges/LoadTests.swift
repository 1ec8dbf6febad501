import ChappieCore
import ChappieHTTP
import ChappieSimulator
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Testing

extension OverTheWire {
    @Suite struct LoadTests {
        @Test func aReaderThatDoesNotReadStopsTheSender() async throws {
            let size = 64 << 20
            let server = try await ScriptedServer.start { _ in
                .response(status: 200, body: [UInt8](repeating: 1, count: size))
            }
            let deadlines = ChappieDeadlines(idle: .milliseconds(300))
            let body = try await makeTransport(deadlines: deadlines).send(HTTPExchangeRequest(url: server.url())).body
            // Until nothing has moved for longer than the idle deadline, which a paused transfer doesn't run into.
            var written = -1
            while written != server.bytesWritten {
                written = server.bytesWritten
                try await Task.sleep(for: .milliseconds(500))
            }
            // 256 KiB here; the rest lies in the two socket buffers, which the kernel lets grow to several MiB.
            #expect(written < 16 << 20, "the server could send \(written) bytes")
            var received = 0
            for try await chunk in body {
                #expect(chunk.count < 512 * 1024)
                received += chunk.count
            }
            #expect(received == size)
            await server.stop()
        }

        @Test func oneThreadServesAHundredExchanges() async throws {
            let server = try await ScriptedServer.start { request in
                ScriptedAnswer(steps: [
                    .send(Array("HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nhalf".utf8)), .wait(.milliseconds(700)),
                    .send(Array("half".utf8)),
                ])
            }
            let transport = makeTransport()
            let url = try server.url()
            try await withThrowingTaskGroup(of: Int.self) { group in
                for _ in 0..<100 { group.addTask { try await transport.fetch(url).body.count } }
                #expect(try await eventually { server.receivedRequests.count == 100 })
                #expect(try await eventually { (try? loopThreadCount()) == 1 })
                // Swift's own pool and the server's threads, but none for each exchange.
                #expect(try threadCount() < 20)
                for try await count in group { #expect(count == 8) }
            }
            await server.stop()
        }

        @Test func theThreadEndsWithTheTransport() async throws {
            let server = try await ScriptedServer.start { _ in .response(status: 200, body: [1]) }
            let url = try server.url()
            var transport: CurlHTTPTransport? = makeTransport()
            #expect(try await eventually { (try? loopThreadCount()) == 0 }, "an earlier test left one behind")
            _ = try await transport?.fetch(url)
            #expect(try loopThreadCount() == 1)
            transport = nil
            #expect(try await eventually { (try? loopThreadCount()) == 0 })
            #expect(try await eventually { server.openConnectionCount == 0 })
            await server.stop()
        }

        @Test func sequentialExchangesShareOneConnection() async throws {
            let server = try await ScriptedServer.start { _ in .response(status: 200, body: Array("again".utf8)) }
            let transport = makeTransport()
            for _ in 0..<10 { #expect(try await transport.fetch(server.url()).body == Array("again".utf8)) }
            #expect(server.connectionCount == 1)
            await server.stop()
        }

        @Test func anIdleLoopSleeps() async throws {
            let server = try await ScriptedServer.start { _ in
                ScriptedAnswer(steps: [.send(Array("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n".utf8)), .stall])
            }
            let body = try await makeTransport().send(HTTPExchangeRequest(url: server.url())).body
            try await Task.sleep(for: .milliseconds(100))
            let before = try loopSwitches()
            try await Task.sleep(for: .milliseconds(500))
            #expect(try loopSwitches() - before <= 2)
            body.cancel()
            await server.stop()
        }

        private func threadCount() throws -> Int {
            try FileManager.default.contentsOfDirectory(atPath: "/proc/self/task").count
        }

        /// How often the loop's thread has gone to sleep or been put aside.
        private func loopSwitches() throws -> Int {
            for task in try FileManager.default.contentsOfDirectory(atPath: "/proc/self/task") {
                let status = try String(contentsOfFile: "/proc/self/task/\(task)/status", encoding: .utf8)
                guard status.hasPrefix("Name:\tchappie-net\n") else { continue }
                return status.split(separator: "\n").filter { $0.contains("ctxt_switches") }
                    .compactMap { $0.split(separator: "\t").last.flatMap { Int($0) } }.reduce(0, +)
            }
            throw ContractViolation("There is no event loop in this process.")
        }
    }
}
