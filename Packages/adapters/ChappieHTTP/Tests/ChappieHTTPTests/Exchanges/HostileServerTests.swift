import ChappieCore
import ChappieSimulatorServer
import HTTPTypes
import Testing

extension OverTheWire {
    @Suite struct HostileServerTests {
        /// The end of an exchange with a server that breaks rules, or takes liberties.
        enum Outcome: Equatable {
            case violation
            case lost
            case body(String)
        }

        /// The bytes of an answer, and what becomes of it.
        struct Answer: CustomTestStringConvertible {
            let testDescription: String
            let bytes: [UInt8]
            private let outcomes: [Adapter: Outcome]

            init(_ name: String, _ text: String, _ outcome: Outcome, urlSession: Outcome? = nil) {
                self.init(name, Array(text.utf8), outcome, urlSession: urlSession)
            }

            init(_ name: String, _ bytes: [UInt8], _ outcome: Outcome, urlSession: Outcome? = nil) {
                testDescription = name
                self.bytes = bytes
                outcomes = [.curl: outcome, .urlSession: urlSession ?? outcome]
            }

            func outcome(of adapter: Adapter) -> Outcome? { outcomes[adapter] }
        }

        private static let ok = "HTTP/1.1 200 OK\r\n"
        private static let okChunked = ok + "transfer-encoding: chunked\r\n\r\n"
        private static let kilobyte = String(repeating: "a", count: 1000)

        static let answers = [
            // What is not HTTP
            Answer("another protocol", "SSH-2.0-OpenSSH_9.2\r\n", .violation),
            Answer("no head", "<html>no head at all</html>\r\n\r\n", .violation),
            Answer("HTTP/0.9", "just a text", .violation),
            Answer("nothing", "", .lost),
            // Status lines
            Answer("a bad status", "HTTP/1.1 2OO OK\r\n\r\n", .violation),
            Answer("a version that does not exist", "HTTP/7.3 200 OK\r\n\r\n", .violation),
            Answer("an upgrade", "HTTP/1.1 101 Switching Protocols\r\nupgrade: something\r\n\r\n", .violation),
            // Fields
            Answer("a long field", ok + "x: " + String(repeating: kilobyte, count: 200) + "\r\n\r\n", .violation),
            Answer("large fields", ok + String(repeating: "x: \(kilobyte)\r\n", count: 400), .violation),
            Answer("many short fields", ok + String(repeating: "a:\n", count: 65_535) + "\r\n", .violation),
            Answer("many names", ok + (0..<5000).map { "a\($0):\r\n" }.joined() + "\r\n", .violation),
            Answer("a NUL in a field", ok + "x: a\0b\r\ncontent-length: 2\r\n\r\nok", .violation),
            Answer("a bare CR in a field", ok + "x: a\rb\r\ncontent-length: 2\r\n\r\nok", .body("ok")),
            Answer("a folded field", ok + "x: a\r\n b\r\ncontent-length: 2\r\n\r\nok", .body("ok")),
            // FoundationNetworking insists on CR LF and on UTF-8.
            Answer(
                "lines that end in LF alone", "HTTP/1.1 200 OK\ncontent-length: 2\n\nok", .body("ok"),
                urlSession: .violation),
            Answer(
                "a field in Latin-1",
                Array("\(ok)content-length: 2\r\nx: caf".utf8) + [0xE9] + Array("\r\n\r\nok".utf8), .body("ok"),
                urlSession: .violation),
            // Lengths
            Answer("a length in words", ok + "content-length: many\r\n\r\n", .violation),
            Answer("a negative length", ok + "content-length: -5\r\n\r\nabc", .violation),
            Answer("a length beyond all numbers", ok + "content-length: 99999999999999999999\r\n\r\nabc", .violation),
            Answer("two lengths", ok + "content-length: 2\r\ncontent-length: 3\r\n\r\nabc", .violation),
            Answer("the same length twice", ok + "content-length: 2\r\ncontent-length: 2\r\n\r\nok", .body("ok")),
            Answer(
                "a length and chunks",
                ok + "content-length: 9\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", .body("ok")),
            Answer("more than the length", ok + "content-length: 2\r\n\r\nokay", .body("ok")),
            Answer("less than the length", ok + "content-length: 3\r\n\r\nok", .lost),
            // Chunks
            Answer("a chunk size in words", okChunked + "not hex\r\n", .violation),
            Answer("a negative chunk size", okChunked + "-2\r\nok\r\n0\r\n\r\n", .violation),
            Answer("a chunk size beyond all numbers", okChunked + "fffffffffffffffff\r\nok", .violation),
            Answer("more than the chunk size", okChunked + "2\r\nokay\r\n0\r\n\r\n", .violation),
            Answer("an extension of a chunk", okChunked + "2;a=\"b\"\r\nok\r\n0\r\n\r\n", .body("ok")),
            Answer("no last chunk", okChunked + "2\r\nok\r\n", .lost),
            Answer("a chunk that is cut", okChunked + "3\r\nok", .lost),
            // FoundationNetworking removes a coding that nothing asked for.
            Answer(
                "a coding that is none", ok + "content-encoding: gzip\r\ncontent-length: 2\r\n\r\nok", .body("ok"),
                urlSession: .violation),
        ]

        @Test(arguments: Adapter.allCases, answers)
        func anAnswerThatBreaksRulesHasItsOutcome(_ adapter: Adapter, _ answer: Answer) async throws {
            let server = try await ScriptedServer.start { _ in
                ScriptedAnswer(steps: [.send(answer.bytes), .wait(.milliseconds(50)), .finish])
            }
            let outcome: Outcome
            do {
                let body = try await adapter.makeTransport().fetch(server.url()).body
                outcome = .body(String(decoding: body, as: UTF8.self))
            } catch let error as ChappieTransportError {
                outcome = error.code == .protocolViolation ? .violation : .lost
                #expect([.protocolViolation, .connectionLost].contains(error.code), "\(error)")
            }
            #expect(outcome == answer.outcome(of: adapter))
            await server.stop()
        }

        /// Informational heads come and go, and fields that break the grammar are skipped.
        @Test(arguments: Adapter.allCases) func theFinalHeadCounts(_ adapter: Adapter) async throws {
            // FoundationNetworking refuses a head with such fields.
            let bad = adapter == .curl ? "bad name: 1\r\nx-bell: \u{7}\r\n" : ""
            let server = try await ScriptedServer.start { _ in
                .raw(
                    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nx-early: 1\r\n\r\n"
                        + "HTTP/1.1 200 OK\r\n\(bad)x-late: 1\r\ncontent-length: 2\r\n\r\nok")
            }
            let response = try await adapter.makeTransport().send(HTTPExchangeRequest(url: server.url()))
            #expect(response.status == .ok)
            #expect(Set(response.headerFields.map(\.name.canonicalName)) == ["x-late", "content-length"])
            #expect(try await response.body.collect(upTo: 10) == Array("ok".utf8))
            await server.stop()
        }
    }
}
