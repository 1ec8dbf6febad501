import ChappieCore
import ChappieHTTP
import ChappieSimulatorServer
import HTTPTypes
import Testing

extension OverTheWire {
    @Suite struct HostileServerTests {
        private static let kilobyte = String(repeating: "a", count: 1000)

        /// Bytes from a peer that aren't an HTTP response.
        static let nonsense = [
            "another protocol": "SSH-2.0-OpenSSH_9.2\r\n",
            "no head": "<html>no head at all</html>\r\n\r\n",
            "a bad status": "HTTP/1.1 2OO OK\r\n\r\n",
            "a bad length": "HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n",
            "a bad chunk": "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nnot hex\r\n",
            "an upgrade": "HTTP/1.1 101 Switching Protocols\r\nupgrade: something\r\n\r\n",
            "a long field": "HTTP/1.1 200 OK\r\nx: " + String(repeating: kilobyte, count: 200) + "\r\n\r\n",
            "large fields": "HTTP/1.1 200 OK\r\n" + String(repeating: "x: \(kilobyte)\r\n", count: 400),
            "many fields": "HTTP/1.1 200 OK\r\n" + String(repeating: "a:\n", count: 65_535) + "\r\n",
        ]

        @Test(arguments: nonsense.keys.sorted())
        func whatIsNotHTTPIsAViolation(_ name: String) async throws {
            let bytes = Array(try #require(Self.nonsense[name]).utf8)
            let server = try await ScriptedServer.start { _ in
                ScriptedAnswer(steps: [.send(bytes), .wait(.milliseconds(50)), .finish])
            }
            let error = try await transportError { _ = try await makeTransport().fetch(server.url()) }
            #expect(error.code == .protocolViolation, "\(error)")
            await server.stop()
        }

        /// Informational heads come and go, and fields that break the grammar are skipped.
        @Test func theFinalHeadCounts() async throws {
            let server = try await ScriptedServer.start { _ in
                .raw(
                    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nx-early: 1\r\n\r\n"
                        + "HTTP/1.1 200 OK\r\nbad name: 1\r\nx-bell: \u{7}\r\nx-late: 1\r\ncontent-length: 2\r\n\r\nok")
            }
            let response = try await makeTransport().send(HTTPExchangeRequest(url: server.url()))
            #expect(response.status == .ok)
            #expect(response.headerFields.map(\.name.canonicalName) == ["x-late", "content-length"])
            #expect(try await response.body.collect(upTo: 10) == Array("ok".utf8))
            await server.stop()
        }
    }
}
