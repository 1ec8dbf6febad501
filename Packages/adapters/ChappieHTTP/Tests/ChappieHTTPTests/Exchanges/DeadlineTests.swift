import ChappieCore
import ChappieSimulatorServer
import HTTPTypes
import TestFixtures
import Testing

extension OverTheWire {
    /// Beside the stalls of the contract, which come with a request's own deadlines.
    @Suite struct DeadlineTests {
        static let short = Duration.milliseconds(300)

        @Test(arguments: Adapter.allCases, ["HTTP/1.1 200 OK\r\nx-half: a", "HTTP/1.1 103 Early Hints\r\n\r\n"])
        func `a response head that breaks off ends at the policy's deadline`(_ adapter: Adapter, _ beginning: String)
            async throws
        {
            let server = try await ScriptedServer.start { _ in
                ScriptedAnswer(steps: [.send(Array(beginning.utf8)), .stall])
            }
            let error = try await expectTimeOut(adapter, ChappieDeadlines(responseHead: Self.short)) {
                HTTPExchangeRequest(url: try server.url())
            }
            #expect(error.stage == .responseHead)
            #expect(error.host == "127.0.0.1:\(server.port)")
            #expect(error.reason.contains("300 ms"))
            // FoundationNetworking cancels a moment later; until then the server's end in the middle of a head would end
            // the process.
            #expect(try await eventually { server.openConnectionCount == 0 })
            await server.stop()
        }

        @Test(arguments: Adapter.allCases) func `a request that the peer doesn't read ends at the idle deadline`(
            _ adapter: Adapter
        )
            async throws
        {
            let listener = try await SilentListener(backlog: 8, filled: false)
            defer { listener.close() }
            let error = try await expectTimeOut(adapter, ChappieDeadlines(idle: Self.short)) {
                HTTPExchangeRequest(
                    method: .post, url: try makeURL("http://127.0.0.1:\(listener.port)/"),
                    body: .init(bytes: [UInt8](repeating: 7, count: 32 << 20)))
            }
            #expect(error.stage == .request)
        }

        @Test(arguments: Adapter.allCases) func noDeadlineBoundsAStreamAsAWhole(_ adapter: Adapter) async throws {
            let head = Array("HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n".utf8)
            let drip: [ScriptedAnswer.Step] = (0..<12).flatMap { _ in [.wait(.milliseconds(100)), .send([65])] }
            let server = try await ScriptedServer.start { _ in ScriptedAnswer(steps: [.send(head)] + drip) }
            let deadlines = ChappieDeadlines(
                connect: .seconds(1), responseHead: .seconds(1), firstByte: .seconds(1), idle: .seconds(1))
            #expect(try await adapter.makeTransport(deadlines: deadlines).fetch(server.url()).body.count == 12)
            await server.stop()
        }

        /// Sends a request under `deadlines`, which must end it soon after the short one.
        private func expectTimeOut(
            _ adapter: Adapter, _ deadlines: ChappieDeadlines, _ request: () throws -> HTTPExchangeRequest
        ) async throws -> ChappieTransportError {
            let start = ContinuousClock.now
            let error = try await transportError {
                _ = try await adapter.makeTransport(deadlines: deadlines).fetch(request())
            }
            let time = ContinuousClock.now - start
            #expect(error.code == .timedOut, "\(error)")
            #expect(time >= Self.short - .milliseconds(2) && time < .seconds(4), "after \(time)")
            return error
        }
    }
}
