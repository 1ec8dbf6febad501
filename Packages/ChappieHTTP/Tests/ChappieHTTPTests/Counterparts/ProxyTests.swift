import ChappieCore
import ChappieHTTP
import ChappieSimulator
import Foundation
import HTTPTypes
import TestFixtures
import Testing

extension OverTheWire {
    @Suite(.counterparts) struct ProxyTests {
        @Test func reachesTheServerThroughATunnel() async throws {
            let server = try Counterparts.current
            let transport = makeTransport(
                proxy: .url("http://someone:s3cret@127.0.0.1:\(server.proxy)"), extraCAFile: server.authority)
            let answer = try await transport.fetch(makeURL("https://127.0.0.1:\(server.good)/"))
            #expect(answer.status == 200)
            #expect(answer.body == Array("hello over HTTP/2.0\n".utf8))
            #expect(try server.proxyLog.contains("CONNECT 127.0.0.1:\(server.good)"))
        }

        @Test func namesTheProxyThatWantsOtherCredentials() async throws {
            let server = try Counterparts.current
            let transport = makeTransport(
                proxy: .url("http://someone:wrong@127.0.0.1:\(server.proxy)"), extraCAFile: server.authority)
            let error = try await transportError {
                _ = try await transport.fetch(makeURL("https://127.0.0.1:\(server.good)/"))
            }
            #expect(error.code == .proxyFailed)
            #expect(error.host == "127.0.0.1:\(server.good)")
            #expect(error.reason.contains("127.0.0.1:\(server.proxy)"))
            #expect(!error.localizedDescription.contains("wrong"))
        }

        @Test func goesRoundTheProxyWhereTheExclusionsSay() async throws {
            let server = try Counterparts.current
            let transport = makeTransport(
                proxy: .url("http://someone:wrong@127.0.0.1:\(server.proxy)", excluding: "example.com,localhost"),
                extraCAFile: server.authority)
            #expect(try await transport.fetch(makeURL("https://localhost:\(server.good)/")).status == 200)
            #expect(try !server.proxyLog.contains("CONNECT localhost:\(server.good)"))
        }

        @Test func plainHTTPGoesThroughAProxyOnThisMachine() async throws {
            let server = try Counterparts.current
            let origin = try await ScriptedServer.start { _ in .response(status: 200, body: Array("here".utf8)) }
            let address = "http://someone:s3cret@127.0.0.1:\(server.proxy)"
            #expect(try await makeTransport(proxy: .url(address)).fetch(origin.url()).body == Array("here".utf8))
            #expect(try server.proxyLog.contains("GET http://127.0.0.1:\(origin.port)"))
            await origin.stop()
        }

        @Test func aProxysRefusalIsNoAnswerOfTheServer() async throws {
            let proxy = try await ScriptedServer.start { _ in
                .response(status: 407, headers: [("proxy-authenticate", "Basic realm=\"here\"")])
            }
            let error = try await transportError {
                _ = try await makeTransport(proxy: .url("http://a:secret@127.0.0.1:\(proxy.port)")).fetch(
                    makeURL("http://127.0.0.1:1/"))
            }
            #expect(error.code == .proxyFailed)
            #expect(error.host == "127.0.0.1:1")
            #expect(error.reason == "the proxy 127.0.0.1:\(proxy.port) wants other credentials (status 407)")
            await proxy.stop()
        }

        @Test func plainHTTPGoesRoundAProxyElsewhere() async throws {
            let origin = try await ScriptedServer.start { _ in .response(status: 200, body: Array("here".utf8)) }
            let transport = makeTransport(proxy: .url("http://proxy.invalid:8080"))
            #expect(try await transport.fetch(origin.url()).body == Array("here".utf8))
            await origin.stop()
        }

        @Test func namesAProxyThatIsNotThere() async throws {
            let server = try Counterparts.current
            let error = try await transportError {
                _ = try await makeTransport(proxy: .url("http://a:secret@127.0.0.1:1")).fetch(
                    makeURL("https://127.0.0.1:\(server.good)/"))
            }
            #expect(error.code == .proxyFailed)
            #expect(error.reason == "the proxy 127.0.0.1:1 can't be reached: connection refused")
        }

        @Test func namesAProxyWhoseNameDoesNotResolve() async throws {
            let error = try await transportError {
                _ = try await makeTransport(proxy: .url("http://a:secret@proxy.invalid:8080")).fetch(
                    makeURL("https://127.0.0.1:1/"))
            }
            #expect(error.code == .proxyFailed)
            #expect(!error.localizedDescription.contains("secret"))
        }

        @Test func aProxyThatNeverAnswersRunsIntoTheConnectDeadline() async throws {
            let listener = try await SilentListener(backlog: 8, filled: false)
            defer { listener.close() }
            let error = try await transportError {
                _ = try await makeTransport(
                    proxy: .url("http://127.0.0.1:\(listener.port)"),
                    deadlines: ChappieDeadlines(connect: .milliseconds(300))
                ).fetch(makeURL("https://127.0.0.1:1/"))
            }
            #expect(error.code == .timedOut)
            #expect(error.stage == .connect)
        }
    }
}
