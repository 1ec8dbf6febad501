import ChappieCore
import ChappieHTTP
import ChappieSimulatorServer
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import TestFixtures
import Testing

extension OverTheWire {
    @Suite(.tags(.slow)) struct LoadTests {
        @Test(arguments: Adapter.allCases)
        func aReaderThatDoesNotReadStopsTheSender(_ adapter: Adapter) async throws {
            let size = 64 << 20
            let server = try await ScriptedServer.start { _ in
                .response(status: 200, body: [UInt8](repeating: 1, count: size))
            }
            let transport = adapter.makeTransport(deadlines: ChappieDeadlines(idle: .seconds(1)))
            let body = try await transport.send(HTTPExchangeRequest(url: server.url())).body
            // Until nothing has moved for longer than the idle deadline, which a paused transfer doesn't run into.
            #expect(try await eventually { server.bytesWritten > 0 })
            let written = try #require(try await settled(for: .milliseconds(1200)) { server.bytesWritten })
            var received = 0
            var largest = 0
            for try await chunk in body {
                largest = max(largest, chunk.count)
                received += chunk.count
            }
            #expect(received == size)
            withKnownIssue("A task of FoundationNetworking that is suspended sends its request again.") {
                // 256 KiB here; the rest is in the two socket buffers, which the kernel lets grow to several MiB.
                #expect(written < 16 << 20, "the server could send \(written) bytes")
                #expect(largest < 512 * 1024)
            } when: {
                adapter == .urlSession
            }
            await server.stop()
        }

        @Test func `one thread serves a hundred exchanges and ends with the transport`() async throws {
            let server = try await ScriptedServer.start { request in
                ScriptedAnswer(steps: [
                    .send(Array("HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nhalf".utf8)), .wait(.milliseconds(700)),
                    .send(Array("half".utf8)),
                ])
            }
            let url = try server.url()
            var transport: CurlHTTPTransport? = makeTransport()
            #expect(try await eventually { try loopThreadCount() == 0 }, "an earlier test left one behind")
            try await withThrowingTaskGroup(of: Int.self) { [transport] group in
                for _ in 0..<100 { group.addTask { try await transport?.fetch(url).body.count ?? 0 } }
                #expect(try await eventually { server.receivedRequests.count == 100 })
                #expect(try loopThreadCount() == 1)
                // Swift's own pool and the server's threads, but none for each exchange.
                #expect(try ProcessThreads.names().count < 20)
                for try await count in group { #expect(count == 8) }
            }
            transport = nil
            #expect(try await eventually { try loopThreadCount() == 0 })
            #expect(try await eventually { server.openConnectionCount == 0 })
            await server.stop()
        }

        /// And no cookies.
        @Test func sequentialExchangesShareOneConnection() async throws {
            let server = try await ScriptedServer.start { _ in
                .response(status: 200, headers: [("set-cookie", "a=b; Path=/")], body: Array("again".utf8))
            }
            let transport = makeTransport()
            for _ in 0..<10 { #expect(try await transport.fetch(server.url()).body == Array("again".utf8)) }
            #expect(server.connectionCount == 1)
            #expect(server.receivedRequests.allSatisfy { $0.header("cookie") == nil })
            await server.stop()
        }

        @Test func anIdleLoopSleeps() async throws {
            let server = try await ScriptedServer.start { _ in
                ScriptedAnswer(steps: [.send(Array("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n".utf8)), .stall])
            }
            let body = try await makeTransport().send(HTTPExchangeRequest(url: server.url())).body
            let isAsleep = try await eventually {
                let before = try #require(try ProcessThreads.contextSwitches(ofThreadsNamed: loopThreadName))
                // A measured window, in which a loop that polls would wake up often. Before it there may be work left.
                try await Task.sleep(for: .milliseconds(500))
                let after = try #require(try ProcessThreads.contextSwitches(ofThreadsNamed: loopThreadName))
                return after - before <= 2
            }
            #expect(isAsleep)
            body.cancel()
            await server.stop()
        }
    }
}
