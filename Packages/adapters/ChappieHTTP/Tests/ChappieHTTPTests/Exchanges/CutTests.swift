import ChappieCore
import ChappieSimulatorServer
import HTTPTypes
import Testing

extension OverTheWire {
    /// A response that breaks off: at every offset there is a typed error, never a body that looks whole.
    @Suite struct CutTests {
        static let body = Array("data: {\"n\":1}\n\ndata: {\"n\":2}\n\ndata: [DONE]\n\n".utf8)
        static let withLength =
            Array("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: \(body.count)\r\n\r\n".utf8)
            + body
        static let chunked =
            Array("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\(String(body.count, radix: 16))\r\n".utf8)
            + body + Array("\r\n0\r\n\r\n".utf8)

        /// How an answer breaks off.
        struct Cut: CustomTestStringConvertible {
            let testDescription: String
            let answer: [UInt8]
            let ending: ScriptedAnswer.Step

            static let all = [
                Cut(testDescription: "a length, closed", answer: withLength, ending: .finish),
                Cut(testDescription: "a length, reset", answer: withLength, ending: .reset),
                Cut(testDescription: "chunks, closed", answer: chunked, ending: .finish),
                Cut(testDescription: "chunks, reset", answer: chunked, ending: .reset),
            ]
        }

        @Test(arguments: Adapter.allCases, Cut.all)
        func isReportedAtEveryOffset(by adapter: Adapter, _ cut: Cut) async throws {
            let answer = cut.answer
            let server = try await ScriptedServer.start { request in
                let offset = Int(request.target.dropFirst()) ?? 0
                // The pause keeps a reset from overtaking the bytes before it.
                return ScriptedAnswer(steps: [.send(Array(answer[..<offset])), .wait(.milliseconds(2)), cut.ending])
            }
            let transport = adapter.makeTransport()
            let headEnd = answer.count - Self.body.count - (answer == Self.chunked ? 10 : 0)
            // From the line of the last, empty chunk on, the body is whole (RFC 9112, section 8).
            let wholeFrom = answer == Self.chunked ? answer.count - 2 : answer.count
            let statusLine = "HTTP/1.1 200 OK\r\n".utf8.count
            for offset in 0..<wholeFrom {
                // FoundationNetworking ends the process here: CrashTests shows it.
                if adapter == .urlSession, cut.ending == .finish, (statusLine..<headEnd).contains(offset) { continue }
                var received: [UInt8] = []
                let error = try await transportError {
                    let response = try await transport.send(HTTPExchangeRequest(url: server.url("/\(offset)")))
                    for try await chunk in response.body { received.append(contentsOf: chunk) }
                }
                #expect(error.code == .connectionLost, "at \(offset): \(error)")
                #expect([.responseHead, .responseBody].contains(error.stage), "at \(offset): \(error)")
                #expect(error.host == "127.0.0.1:\(server.port)")
                #expect(Self.body.starts(with: received), "at \(offset)")
                if offset >= headEnd { #expect(error.stage == .responseBody, "at \(offset): \(error)") }
            }
            let whole = try await transport.fetch(server.url("/\(answer.count)"))
            #expect(whole.body == Self.body)
            await server.stop()
        }

        @Test(arguments: Adapter.allCases) func aBodyThatEndsWithTheConnectionIsWhole(_ adapter: Adapter) async throws {
            let server = try await ScriptedServer.start { _ in
                ScriptedAnswer(steps: [.send(Array("HTTP/1.0 200 OK\r\n\r\n".utf8) + Self.body), .finish])
            }
            #expect(try await adapter.makeTransport().fetch(server.url()).body == Self.body)
            await server.stop()
        }

        @Test(arguments: Adapter.allCases) func aDripOfOneByteAtATimeIsWhole(_ adapter: Adapter) async throws {
            let server = try await ScriptedServer.start { _ in
                ScriptedAnswer(steps: Self.chunked.flatMap { [.send([$0]), .wait(.microseconds(200))] })
            }
            #expect(try await adapter.makeTransport().fetch(server.url()).body == Self.body)
            await server.stop()
        }

        /// The first exchange leaves its connection in the pool; the second finds it dead once its request is out.
        @Test(arguments: Adapter.allCases) func `a request is not repeated when a pooled connection dies`(
            _ adapter: Adapter
        )
            async throws
        {
            let server = try await ScriptedServer.start { request in
                request.target == "/1"
                    ? .response(status: 200, body: Self.body)
                    : ScriptedAnswer(steps: [.wait(.milliseconds(20)), .finish])
            }
            let transport = adapter.makeTransport()
            _ = try await transport.fetch(server.url("/1"))
            let error = try await transportError {
                _ = try await transport.fetch(
                    HTTPExchangeRequest(method: .post, url: server.url("/2"), body: .init(bytes: Self.body)))
            }
            #expect(error.code == .connectionLost)
            #expect(error.stage == .responseHead)
            #expect(server.receivedRequests.map(\.target) == ["/1", "/2"])
            await server.stop()
        }
    }
}
