import ChappieCore
import ChappieHTTP
import ChappieSimulator
import HTTPTypes
import Testing

extension OverTheWire {
    @Suite struct HostileServerTests {
        /// What a peer may send that isn't an HTTP response.
        enum Nonsense: String, CaseIterable, CustomTestStringConvertible {
            case anotherProtocol, noHead, badStatus, badLength, badChunk, upgrade, longField, manyFields, tinyFields

            var testDescription: String { rawValue }

            var bytes: [UInt8] { Array(text.utf8) }

            private var text: String {
                let kilobyte = String(repeating: "a", count: 1000)
                return switch self {
                case .anotherProtocol: "SSH-2.0-OpenSSH_9.2\r\n"
                case .noHead: "<html>no head at all</html>\r\n\r\n"
                case .badStatus: "HTTP/1.1 2OO OK\r\n\r\n"
                case .badLength: "HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n"
                case .badChunk: "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nnot hex\r\n"
                case .upgrade: "HTTP/1.1 101 Switching Protocols\r\nupgrade: something\r\n\r\n"
                case .longField: "HTTP/1.1 200 OK\r\nx: " + String(repeating: kilobyte, count: 200) + "\r\n\r\n"
                case .manyFields: "HTTP/1.1 200 OK\r\n" + String(repeating: "x: \(kilobyte)\r\n", count: 400)
                case .tinyFields: "HTTP/1.1 200 OK\r\n" + String(repeating: "a:\n", count: 65_535) + "\r\n"
                }
            }
        }

        @Test(arguments: Nonsense.allCases)
        func whatIsNotHTTPIsAViolation(_ nonsense: Nonsense) async throws {
            let server = try await ScriptedServer.start { _ in
                ScriptedAnswer(steps: [.send(nonsense.bytes), .wait(.milliseconds(50)), .finish])
            }
            let error = try await transportError { _ = try await makeTransport().fetch(server.url()) }
            #expect(error.code == .protocolViolation, "\(error)")
            await server.stop()
        }

        @Test func informationalHeadsComeAndGo() async throws {
            let server = try await ScriptedServer.start { _ in
                .raw(
                    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nx-early: 1\r\n\r\n"
                        + "HTTP/1.1 200 OK\r\nx-late: 1\r\ncontent-length: 2\r\n\r\nok")
            }
            let response = try await makeTransport().send(HTTPExchangeRequest(url: server.url()))
            #expect(response.status == .ok)
            #expect(response.headerFields.count == 2)
            #expect(try await response.body.collect(upTo: 10) == Array("ok".utf8))
            await server.stop()
        }

        @Test func fieldsThatBreakTheGrammarAreSkipped() async throws {
            let server = try await ScriptedServer.start { _ in
                .raw("HTTP/1.1 200 OK\r\nbad name: 1\r\nx-bell: \u{7}\r\nx-good: 1\r\ncontent-length: 0\r\n\r\n")
            }
            let response = try await makeTransport().send(HTTPExchangeRequest(url: server.url()))
            #expect(response.headerFields.map(\.name.canonicalName) == ["x-good", "content-length"])
            await server.stop()
        }
    }
}
