import ChappieCore
import ChappieSimulatorServer
import ChappieTesting
import ChappieWebSocket
import HTTPTypes
import TestFixtures
import Testing

extension OverTheWire {
    @Suite struct ExchangeTests {
        @Test(.tags(.measured), arguments: WebSocketTransportContract.cases)
        func theCurlTransportKeepsTheContract(_ contractCase: WebSocketTransportContract.Case) async throws {
            let server = try WebSocketTransportContract.startServer()
            let transport = makeTransport(offersCompression: true)
            try await contractCase.run(transport, at: WebSocketTransportContract.baseURL(of: server))
            transport.shutdown()
            server.stop()
        }

        @Test(arguments: WebSocketTransportContract.cases)
        func theScriptedTransportKeepsTheContract(_ contractCase: WebSocketTransportContract.Case) async throws {
            try await contractCase.run(WebSocketTransportContract.makeFake(), at: makeURL("ws://127.0.0.1:8080"))
        }

        @Test func `the handshake sends the fields and returns the server's fields`() async throws {
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

        /// A peer that goes away: at every offset there is a typed error behind what was whole, never a hang.
        @Test(arguments: [ScriptedWebSocketServer.Step.finish, .reset])
        func aCutIsReportedAtEveryOffset(_ ending: ScriptedWebSocketServer.Step) async throws {
            let server = try ScriptedWebSocketServer.start { request in
                let offset = Int(request.target.dropFirst()) ?? 0
                // The pause keeps a reset from overtaking the bytes before it.
                return .init(
                    steps: [.send(Array(Self.answer(to: request).prefix(offset))), .wait(.milliseconds(3)), ending])
            }
            let transport = makeTransport()
            for offset in stride(from: 0, to: Self.headBytes, by: 4) {
                let error = try await transportError { _ = try await transport.connection(server.url("/\(offset)")) }
                #expect(error.code == .connectionLost && error.stage == .responseHead, "at \(offset): \(error)")
            }
            for offset in 0...Self.frames.count {
                let connection = try await transport.connection(server.url("/\(Self.headBytes + offset)"))
                var received = 0
                let error = try await transportError {
                    while case .messages(let messages) = try await connection.receive(within: .seconds(20)) {
                        received += messages.count
                    }
                }
                #expect(error.code == .connectionLost && error.stage == .message, "at \(offset): \(error)")
                #expect(error.host == "127.0.0.1:\(server.port)")
                #expect(received == Self.ends.count { $0 <= offset }, "at \(offset)")
                #expect(!connection.isOpen)
            }
            server.stop()
        }

        @Test func oneByteAtATimeIsAsGoodAsAll() async throws {
            let server = try ScriptedWebSocketServer.start {
                .init(steps: [.drip(Self.answer(to: $0) + WebSocketFrames.close(1000))])
            }
            let connection = try await makeTransport().connection(server.url())
            let expected: [WebSocketMessage] = [
                .text("one"), .text("two"), .binary([UInt8](repeating: 9, count: 300)),
            ]
            #expect(try await connection.messages(3) == expected)
            #expect(try await connection.receive(within: .seconds(20)) == .closed(.normal))
            #expect(server.record.pongCount == 1)
            server.stop()
        }

        private static let frames: [UInt8] =
            WebSocketFrames.text("one") + WebSocketFrames.ping("p")
            + WebSocketFrames.frame(1, Array("tw".utf8), isFinal: false)
            + WebSocketFrames.frame(0, Array("o".utf8)) + WebSocketFrames.frame(2, [UInt8](repeating: 9, count: 300))
        /// The position at which each message ends.
        private static let ends = [5, 5 + 3 + 4 + 3, frames.count]
        private static let headBytes = 129

        /// A head and frames.
        private static func answer(to request: ReceivedRequest) -> [UInt8] {
            guard case .send(let head)? = ScriptedAnswer.switchingToWebSocket(request).steps.first else { return [] }
            return head + frames
        }

        @Test func aViolationIsNamedAndClosedWithItsCode() async throws {
            let frames = WebSocketFrames.text("fine") + WebSocketFrames.frame(1, [0xFF]) + WebSocketFrames.text("late")
            let server = try ScriptedWebSocketServer.start {
                $0.target == "/" ? .upgrade($0, then: [.send(frames)]) : .init(steps: [.send(Array("SSH-2\r\n".utf8))])
            }
            let connection = try await makeTransport().connection(server.url())
            #expect(try await connection.messages(1) == [.text("fine")])
            let wrongFrame = try await transportError { _ = try await connection.receive(within: .seconds(20)) }
            #expect(wrongFrame.code == .protocolViolation && wrongFrame.stage == .message)
            #expect(try await eventually { server.record.closeCodes == [1007] })
            let wrongAnswer = try await transportError { _ = try await makeTransport().connection(server.url("/ssh")) }
            #expect(wrongAnswer.code == .protocolViolation && wrongAnswer.stage == .responseHead)
            #expect(try await eventually { server.record.openConnectionCount == 0 })
            server.stop()
        }
    }
}
