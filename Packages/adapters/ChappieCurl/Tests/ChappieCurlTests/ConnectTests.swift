import ChappieCore
import ChappieHTTP
import ChappieSimulatorServer
import FoundationEssentials
import TestFixtures
import Testing

extension OverTheWire {
    /// On the way to a connection the adapters end in the same ways.
    @Suite struct ConnectTests {
        @Test(arguments: Adapter.allCases) func namesWhatStandsInTheWay(_ adapter: Adapter) async throws {
            let unknown = try await transportError {
                _ = try await adapter.exchange(
                    with: adapter.url("chappie.invalid", port: 443, path: "/path?secret=1"), under: .test())
            }
            #expect(unknown.code == .unknownHost)
            #expect(unknown.stage == .connect)
            #expect(unknown.host == "chappie.invalid")
            #expect(!(unknown.errorDescription ?? "").contains("secret"))
            let refused = try await transportError {
                _ = try await adapter.exchange(with: adapter.url(port: 1, isSecure: false), under: .test())
            }
            #expect(refused.code == .connectFailed)
            #expect(refused.stage == .connect)
            #expect(refused.host == "127.0.0.1:1")
            #expect(refused.reason.contains(adapter == .urlSession ? "no connection" : "connection refused"))
        }

        /// A listener that never accepts has room for few connections, and a further one is never answered. If there is
        /// room, the kernel accepts, and nothing answers the ClientHello.
        @Test(arguments: Adapter.allCases, [true, false])
        func silenceEndsAtTheConnectDeadline(_ adapter: Adapter, _ inHandshake: Bool) async throws {
            let listener = try await SilentListener(backlog: inHandshake ? 8 : 0, filled: !inHandshake)
            defer { listener.close() }
            let url = try adapter.url(port: listener.port, isSecure: inHandshake)
            let deadline = Duration.milliseconds(300)
            let start = ContinuousClock.now
            let error = try await transportError {
                _ = try await adapter.exchange(
                    with: url, under: .test(deadlines: ChappieDeadlines(connect: deadline)))
            }
            let time = ContinuousClock.now - start
            #expect(error.code == .timedOut)
            #expect(error.stage == (inHandshake && adapter != .urlSession ? .tls : .connect))
            // curl's own clock counts in milliseconds.
            #expect(time >= deadline - .milliseconds(2) && time < .seconds(4), "after \(time)")
        }

        /// Long before the deadline the task gets its error, and the attempt ends.
        @Test(arguments: Adapter.allCases, [true, false])
        func aCancelledTaskStopsConnecting(_ adapter: Adapter, _ inHandshake: Bool) async throws {
            let listener = try await SilentListener(backlog: inHandshake ? 8 : 0, filled: !inHandshake)
            defer { listener.close() }
            let url = try adapter.url(port: listener.port, isSecure: inHandshake)
            let start = ContinuousClock.now
            let task = Task { try await adapter.exchange(with: url, under: .test()) }
            let isThere = { try inHandshake ? listener.hasBeenSpokenTo : listener.isBeingDialled }
            #expect(try await eventually(isThere))
            task.cancel()
            await #expect(throws: CancellationError.self) { try await task.value }
            #expect(try await eventually { try !isThere() })
            #expect(ContinuousClock.now - start < .seconds(15))
        }

        @Test func afterShutdownNothingIsSent() async throws {
            let server = try await ScriptedServer.start { _ in ScriptedAnswer(steps: [.stall]) }
            let transport = CurlHTTPTransport(policy: .test())
            let request = HTTPExchangeRequest(url: try Adapter.http.url(port: server.port, isSecure: false))
            let running = Task { try await transport.send(request).status }
            #expect(try await eventually { server.receivedRequests.count == 1 })
            transport.shutdown()
            for task in [running, Task { try await transport.send(request).status }] {
                let error = try await transportError { _ = try await task.value }
                #expect(error.code == .unavailable)
            }
            #expect(server.receivedRequests.count == 1)
            await server.stop()
        }

        @Test func aBadSettingIsNamedBeforeAnythingIsSent() async throws {
            let server = try await ScriptedServer.start { _ in .response(status: 200) }
            let url = try Adapter.http.url(port: server.port, isSecure: false)
            let error = try await transportError {
                _ = try await Adapter.http.exchange(with: url, under: .test(extraCAFile: "/etc/hostname"))
            }
            #expect(error.code == .invalidCAFile)
            #expect(server.connectionCount == 0)
            await server.stop()
            // `check` says the same, though nothing listens there.
            func check(_ address: String, _ policy: ChappieNetworkPolicy) throws {
                try CurlHTTPTransport(policy: policy).check(#require(URL(string: address)))
            }
            try check("http://127.0.0.1:1/", .test())
            try check("https://host.invalid/", .test())
            let file = #expect(throws: ChappieTransportError.self) {
                try check("https://host.invalid/", .test(extraCAFile: "/etc/hostname"))
            }
            #expect(file?.code == .invalidCAFile)
            let plain = #expect(throws: ChappieTransportError.self) { try check("http://host.invalid/", .test()) }
            #expect(plain?.code == .insecureURL)
        }
    }
}
