import ChappieCore
import ChappieSimulator
import ChappieTesting
import ChappieWebSocket
import Foundation
import TestFixtures
import Testing

extension OverTheWire {
    @Suite(.counterparts) struct ProxyTests {
        @Test func reachesAServerThroughATunnelWithCredentials() async throws {
            let there = try Counterparts.current
            let proxy = ChappieNetworkPolicy.Proxy.url("http://someone:s3cret@127.0.0.1:\(there.proxy)")
            let transport = makeTransport(proxy: proxy, extraCAFile: there.authority)
            // Plain ones go through a tunnel as well: no proxy passes frames on that it takes for HTTP.
            let servers = [("wss", there.good), ("ws", try there.server.port)]
            for (scheme, port) in servers {
                let connection = try await transport.connection(makeURL("\(scheme)://127.0.0.1:\(port)/"))
                try await connection.send(.text("hello"))
                #expect(try await connection.messages(1) == [.text("hello")])
                #expect(try there.proxyLog.contains("CONNECT 127.0.0.1:\(port)"))
            }
        }

        @Test func namesTheProxyThatWantsOtherCredentials() async throws {
            let there = try Counterparts.current
            let transport = makeTransport(
                proxy: .url("http://someone:wrong@127.0.0.1:\(there.proxy)"), extraCAFile: there.authority)
            let error = try await transportError {
                _ = try await transport.connection(makeURL("wss://127.0.0.1:\(there.good)/"))
            }
            #expect(error.code == .proxyFailed)
            #expect(error.stage == .connect)
            #expect(error.host == "127.0.0.1:\(there.good)")
            #expect(error.reason.contains("127.0.0.1:\(there.proxy)"))
            #expect(!error.localizedDescription.contains("wrong"))
        }

        @Test func aProxysRefusalIsNoRefusalOfTheServer() async throws {
            let proxy = try await ScriptedServer.start { _ in .response(status: 403) }
            let error = try await transportError {
                _ = try await makeTransport(proxy: .url("http://127.0.0.1:\(proxy.port)"))
                    .connection(makeURL("ws://127.0.0.1:1/"))
            }
            #expect(error.code == .proxyFailed)
            #expect(error.reason == "the proxy 127.0.0.1:\(proxy.port) refused with status 403")
            await proxy.stop()
        }

        @Test func goesRoundTheProxyWhereTheExclusionsSay() async throws {
            let there = try Counterparts.current
            let transport = makeTransport(
                proxy: .url("http://someone:wrong@127.0.0.1:\(there.proxy)", excluding: "example.com,localhost"),
                extraCAFile: there.authority)
            let connection = try await transport.connection(makeURL("wss://localhost:\(there.good)/"))
            try await connection.send(.text("hello"))
            #expect(try await connection.messages(1) == [.text("hello")])
            #expect(try !there.proxyLog.contains("CONNECT localhost:\(there.good)"))
        }

        @Test func aSocksProxyResolvesTheName() async throws {
            let proxy = try SocksProxy()
            let server = try Counterparts.current.server
            let connection = try await makeTransport(proxy: .url("socks5h://127.0.0.1:\(proxy.port)"))
                .connection(makeURL("ws://localhost:\(server.port)/"))
            try await connection.send(.text("hello"))
            #expect(try await connection.messages(1) == [.text("hello")])
            #expect(proxy.askedName == "localhost")
        }

        @Test func namesAProxyThatIsNotThere() async throws {
            let there = try Counterparts.current
            let error = try await transportError {
                _ = try await makeTransport(proxy: .url("http://a:secret@127.0.0.1:1"))
                    .connection(makeURL("wss://127.0.0.1:\(there.good)/"))
            }
            #expect(error.code == .proxyFailed)
            #expect(error.reason == "the proxy 127.0.0.1:1 can't be reached: connection refused")
        }

        @Test func aProxyThatNeverAnswersRunsIntoTheConnectDeadline() async throws {
            let listener = try await SilentListener(backlog: 8, filled: false)
            defer { listener.close() }
            let error = try await transportError {
                _ = try await makeTransport(
                    proxy: .url("http://127.0.0.1:\(listener.port)"),
                    deadlines: ChappieDeadlines(connect: .milliseconds(300))
                ).connection(makeURL("wss://127.0.0.1:1/"))
            }
            #expect(error.code == .timedOut)
            #expect(error.stage == .connect)
        }
    }
}
