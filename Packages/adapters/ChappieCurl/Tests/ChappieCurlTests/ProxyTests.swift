import ChappieCore
import ChappieSimulatorServer
import ChappieTesting
import Foundation
import Synchronization
import TestFixtures
import Testing

extension OverTheWire {
    @Suite(.counterparts) struct ProxyTests {
        @Test(arguments: Adapter.overCurl) func reachesAServerThroughATunnel(_ adapter: Adapter) async throws {
            let there = try Counterparts.current
            let policy = ChappieNetworkPolicy.test(
                proxy: .url("http://someone:s3cret@127.0.0.1:\(there.proxy)"), extraCAFile: there.authority)
            #expect(try await adapter.exchange(with: adapter.url(port: there.good), under: policy).hasPrefix("hello"))
            #expect(try there.proxyLog.contains("CONNECT 127.0.0.1:\(there.good)"))
        }

        /// No proxy passes frames on that it takes for HTTP, so that WebSocket needs a tunnel here as well.
        @Test func plainSchemesGoThroughAProxyOnThisMachine() async throws {
            let there = try Counterparts.current
            let origin = try await ScriptedServer.start { _ in .response(status: 200, body: Array("here".utf8)) }
            let policy = ChappieNetworkPolicy.test(proxy: .url("http://someone:s3cret@127.0.0.1:\(there.proxy)"))
            let answer = try await Adapter.http.exchange(
                with: Adapter.http.url(port: origin.port, isSecure: false), under: policy)
            #expect(answer == "here")
            #expect(try there.proxyLog.contains("GET http://127.0.0.1:\(origin.port)"))
            let port = try there.server.port
            let echo = try await Adapter.webSocket.exchange(
                with: Adapter.webSocket.url(port: port, isSecure: false), under: policy)
            #expect(echo == "hello")
            #expect(try there.proxyLog.contains("CONNECT 127.0.0.1:\(port)"))
            await origin.stop()
        }

        @Test func plainHTTPGoesRoundAProxyElsewhere() async throws {
            let origin = try await ScriptedServer.start { _ in .response(status: 200, body: Array("here".utf8)) }
            let answer = try await Adapter.http.exchange(
                with: Adapter.http.url(port: origin.port, isSecure: false),
                under: .test(proxy: .url("http://proxy.invalid:8080")))
            #expect(answer == "here")
            await origin.stop()
        }

        @Test(arguments: Adapter.overCurl) func namesTheProxyThatWantsOtherCredentials(_ adapter: Adapter) async throws
        {
            let there = try Counterparts.current
            let error = try await failure(of: adapter, through: "http://someone:wrong@127.0.0.1:\(there.proxy)")
            #expect(error.code == .proxyFailed)
            #expect(error.stage == .configuration)
            #expect(error.reason.contains("127.0.0.1:\(there.proxy)"))
            #expect(!error.localizedDescription.contains("wrong"))
        }

        @Test(arguments: Adapter.overCurl) func goesRoundTheProxyWhereTheExclusionsSay(_ adapter: Adapter) async throws
        {
            let there = try Counterparts.current
            let policy = ChappieNetworkPolicy.test(
                proxy: .url("http://someone:wrong@127.0.0.1:\(there.proxy)", excluding: "example.com,localhost"),
                extraCAFile: there.authority)
            let url = try adapter.url("localhost", port: there.good)
            #expect(try await adapter.exchange(with: url, under: policy).hasPrefix("hello"))
            #expect(try !there.proxyLog.contains("CONNECT localhost:\(there.good)"))
        }

        @Test(arguments: Adapter.overCurl) func aSocksProxyResolvesTheName(_ adapter: Adapter) async throws {
            let there = try Counterparts.current
            let asked = Mutex<[String]>([])
            let proxy = try RawServer.socksProxy { name in asked.withLock { $0.append(name) } }
            let policy = ChappieNetworkPolicy.test(
                proxy: .url("socks5h://127.0.0.1:\(proxy.port)"), extraCAFile: there.authority)
            let url = try adapter.url("localhost", port: there.good)
            #expect(try await adapter.exchange(with: url, under: policy).hasPrefix("hello"))
            #expect(asked.withLock { $0 } == ["localhost"])
        }

        @Test(arguments: Adapter.overCurl) func namesAProxyThatIsNotThere(_ adapter: Adapter) async throws {
            let missing = try await failure(of: adapter, through: "http://a:secret@127.0.0.1:1")
            #expect(missing.code == .proxyFailed)
            #expect(missing.reason == "the proxy 127.0.0.1:1 can't be reached: connection refused")
            let unknown = try await failure(of: adapter, through: "http://a:secret@proxy.invalid:8080")
            #expect(unknown.code == .proxyFailed)
            #expect(!unknown.localizedDescription.contains("secret"))
        }

        @Test(arguments: Adapter.overCurl) func aProxysRefusalIsNoAnswerOfTheServer(_ adapter: Adapter) async throws {
            for (status, words) in [(403, "refused with status 403"), (407, "wants other credentials (status 407)")] {
                let proxy = try await ScriptedServer.start { _ in
                    .response(status: status, headers: [("proxy-authenticate", "Basic realm=\"here\"")])
                }
                let error = try await failure(of: adapter, through: "http://a:secret@127.0.0.1:\(proxy.port)")
                #expect(error.code == .proxyFailed)
                #expect(error.reason == "the proxy 127.0.0.1:\(proxy.port) \(words)")
                await proxy.stop()
            }
            // Without a tunnel, the proxy's answer stands in the place of the server's.
            let proxy = try await ScriptedServer.start { _ in .response(status: 407) }
            let error = try await transportError {
                _ = try await Adapter.http.exchange(
                    with: Adapter.http.url(port: 1, isSecure: false),
                    under: .test(proxy: .url("http://a:secret@127.0.0.1:\(proxy.port)")))
            }
            #expect(error.reason == "the proxy 127.0.0.1:\(proxy.port) wants other credentials (status 407)")
            await proxy.stop()
        }

        @Test(arguments: Adapter.overCurl)
        func `a proxy that opens a tunnel and sends a page is named`(_ adapter: Adapter) async throws {
            let proxy = try RawServer.answeringTunnels(with: "<html>Please sign in to this network</html>")
            let error = try await failure(of: adapter, through: "http://127.0.0.1:\(proxy.port)")
            #expect(error.code == .proxyFailed)
            #expect(error.reason.hasPrefix("the proxy 127.0.0.1:\(proxy.port) opened no tunnel"), "\(error.reason)")
        }

        @Test(arguments: Adapter.overCurl) func `a proxy that offers NTLM alone is named so`(_ adapter: Adapter)
            async throws
        {
            let proxy = try await ScriptedServer.start { _ in
                .response(status: 407, headers: [("proxy-authenticate", "NTLM")])
            }
            let error = try await failure(of: adapter, through: "http://a:secret@127.0.0.1:\(proxy.port)")
            #expect(
                error.reason
                    == "the proxy 127.0.0.1:\(proxy.port) offers only NTLM to sign in, and that is not supported")
            await proxy.stop()
        }

        @Test(arguments: Adapter.overCurl)
        func `a setting that makes no sense does not matter for an excluded host`(_ adapter: Adapter) async throws {
            let there = try Counterparts.current
            let policy = ChappieNetworkPolicy.test(
                proxy: .url("ftp://nowhere", excluding: "127.0.0.0/8"), extraCAFile: there.authority)
            #expect(try await adapter.exchange(with: adapter.url(port: there.good), under: policy).hasPrefix("hello"))
        }

        @Test(arguments: Adapter.overCurl)
        func `a proxy that never answers times out at the connect deadline`(_ adapter: Adapter) async throws {
            let listener = try await SilentListener(backlog: 8, filled: false)
            defer { listener.close() }
            let error = try await failure(
                of: adapter, through: "http://127.0.0.1:\(listener.port)",
                deadlines: ChappieDeadlines(connect: .milliseconds(300)))
            #expect(error.code == .timedOut)
            #expect(error.stage == .connect)
        }

        /// A proxy that is not used must not be passed over in silence.
        @Test func foundationNetworkingCanNotBeGivenAProxy() async throws {
            let error = try await transportError {
                _ = try await Adapter.urlSession.exchange(
                    with: Adapter.urlSession.url(port: 1), under: .test(proxy: .url("http://127.0.0.1:1")))
            }
            #expect(error.code == .unavailable && error.stage == .configuration)
            #expect(error.reason == "FoundationNetworking can't use a proxy that is not in the environment")
        }

        private func failure(
            of adapter: Adapter, through proxy: String, deadlines: ChappieDeadlines = .ample
        ) async throws -> ChappieTransportError {
            let there = try Counterparts.current
            let error = try await transportError {
                _ = try await adapter.exchange(
                    with: adapter.url(port: there.good),
                    under: .test(proxy: .url(proxy), extraCAFile: there.authority, deadlines: deadlines))
            }
            #expect(error.host == "127.0.0.1:\(there.good)")
            return error
        }
    }
}
