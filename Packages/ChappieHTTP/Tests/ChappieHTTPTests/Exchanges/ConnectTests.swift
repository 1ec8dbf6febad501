import ChappieCore
import ChappieHTTP
import ChappieSimulator
import FoundationEssentials
import HTTPTypes
import TestFixtures
import Testing

extension OverTheWire {
    @Suite struct ConnectTests {
        @Test func namesAHostThatDoesNotResolve() async throws {
            let error = try await transportError {
                _ = try await makeTransport().fetch(makeURL("https://chappie.invalid/path?secret=1"))
            }
            #expect(error.code == .unknownHost)
            #expect(error.stage == .connect)
            #expect(error.host == "chappie.invalid")
            #expect(!(error.errorDescription ?? "").contains("secret"))
        }

        @Test func namesAPortThatNothingListensOn() async throws {
            let error = try await transportError {
                _ = try await makeTransport().fetch(makeURL("http://127.0.0.1:1/"))
            }
            #expect(error.code == .connectFailed)
            #expect(error.stage == .connect)
            #expect(error.host == "127.0.0.1:1")
            #expect(error.reason.contains("connection refused"))
        }

        @Test func afterShutdownNothingIsSent() async throws {
            let server = try await ScriptedServer.start { _ in ScriptedAnswer(steps: [.stall]) }
            let transport = makeTransport()
            let url = try server.url()
            let running = Task { try await transport.fetch(url) }
            #expect(try await eventually { server.receivedRequests.count == 1 })
            transport.shutdown()
            let error = try await transportError { _ = try await running.value }
            #expect(error.code == .unavailable)
            let later = try await transportError { _ = try await transport.fetch(url) }
            #expect(later.code == .unavailable)
            #expect(server.receivedRequests.count == 1)
            await server.stop()
        }

        @Test(arguments: ["/no/such/file.pem", "/etc", "/etc/hostname", "/dev/null", "/dev/zero"])
        func aBadCAFileIsNamedBeforeAnythingIsSent(file: String) async throws {
            let server = try await ScriptedServer.start { _ in .response(status: 200) }
            let error = try await transportError {
                _ = try await makeTransport(extraCAFile: file).fetch(server.url())
            }
            #expect(error.code == .invalidCAFile)
            #expect(error.stage == .configuration)
            #expect(error.reason.contains(file))
            #expect(server.connectionCount == 0)
            await server.stop()
        }
    }
}
