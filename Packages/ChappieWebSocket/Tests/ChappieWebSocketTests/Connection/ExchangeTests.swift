import ChappieCore
import ChappieSimulator
import ChappieTesting
import ChappieWebSocket
import HTTPTypes
import TestFixtures
import Testing

extension OverTheWire {
    @Suite struct ExchangeTests {
        @Test func messagesGoBothWays() async throws {
            let server = try ScriptedWebSocketServer.start(reply: { message, _ in
                [.send(WebSocketFrames.message(message))]
            })
            let connection = try await makeTransport().connection(server.url())
            let sent: [WebSocketMessage] = [.text("hello"), .binary([0, 1, 255]), .text("größer ✓"), .text("")]
            for message in sent { try await connection.send(message) }
            #expect(try await connection.messages(4) == sent)
            #expect(server.record.messages == sent)
            #expect(connection.isOpen)
            await connection.close(.normal)
            #expect(server.record.closeCodes == [1000])
            #expect(!connection.isOpen)
            #expect(try await connection.receive(within: nil) == .closed(.normal))
            #expect(try await connection.receive(within: nil) == .closed(.normal))
            server.stop()
        }

        @Test func theHandshakeCarriesTheFieldsAndBringsBackTheServers() async throws {
            let server = try ScriptedWebSocketServer.start { .upgrade($0, headers: [("x-answer", "42")]) }
            let opening = try await makeTransport().open(
                server.url("/a?b=c#d"), headerFields: [.authorization: "Bearer made-up", .userAgent: "chappie/1"])
            guard case .opened(_, let fields) = opening else { throw ContractViolation("It was refused.") }
            #expect(fields[try #require(HTTPField.Name("x-answer"))] == "42")
            let request = try #require(server.record.requests.first)
            #expect(request.target == "/a?b=c")
            #expect(request.header("host") == "127.0.0.1:\(server.port)")
            #expect(request.header("authorization") == "Bearer made-up")
            #expect(request.header("user-agent") == "chappie/1")
            #expect(request.header("sec-websocket-version") == "13")
            server.stop()
        }

        @Test func aRefusalIsAnAnswerWithTheBeginningOfItsBody() async throws {
            let body = [UInt8](repeating: 7, count: 8 << 20)
            let server = try ScriptedWebSocketServer.start { _ in
                .init(.response(status: 426, headers: [("x-why", "old")], body: body))
            }
            guard case .refused(let response) = try await makeTransport().open(server.url(), headerFields: [:]) else {
                throw ContractViolation("It was not refused.")
            }
            #expect(response.status.code == 426)
            #expect(response.headerFields[try #require(HTTPField.Name("x-why"))] == "old")
            // As much as says why; no one reads a page of megabytes for that.
            #expect(try await response.body.collect(upTo: 16 << 20) == Array(body.prefix(64 << 10)))
            #expect(try await eventually { server.record.openConnectionCount == 0 })
            server.stop()
        }

        @Test func messagesThatCameTogetherArriveTogether() async throws {
            let texts = (0..<20_000).map { "message \($0)" }
            let server = try ScriptedWebSocketServer.start {
                .upgrade($0, then: [.send(texts.flatMap { WebSocketFrames.text($0) })])
            }
            let connection = try await makeTransport().connection(server.url())
            var arrivals = 0
            var received: [WebSocketMessage] = []
            while received.count < texts.count {
                guard case .messages(let messages) = try await connection.receive(within: .seconds(20)) else { break }
                arrivals += 1
                received += messages
            }
            #expect(received == texts.map { .text($0) })
            #expect(arrivals < 200, "\(arrivals) arrivals")
            server.stop()
        }
    }
}
