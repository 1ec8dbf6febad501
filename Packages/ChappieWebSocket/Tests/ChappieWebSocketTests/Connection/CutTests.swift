import ChappieCore
import ChappieSimulator
import ChappieTesting
import ChappieWebSocket
import HTTPTypes
import TestFixtures
import Testing

extension OverTheWire {
    /// A peer that goes away: at every offset there is a typed error behind what was whole, never a hang.
    @Suite struct CutTests {
        static let frames: [UInt8] =
            WebSocketFrames.text("one") + WebSocketFrames.ping("p")
            + WebSocketFrames.frame(1, Array("tw".utf8), isFinal: false)
            + WebSocketFrames.frame(0, Array("o".utf8)) + WebSocketFrames.frame(2, [UInt8](repeating: 9, count: 300))
        /// Where each message ends.
        static let ends = [5, 5 + 3 + 4 + 3, frames.count]

        @Test(arguments: [ScriptedWebSocketServer.Step.finish, .reset])
        func inTheFramesIsReportedAtEveryOffset(_ ending: ScriptedWebSocketServer.Step) async throws {
            let server = try ScriptedWebSocketServer.start { request in
                let offset = Int(request.target.dropFirst()) ?? 0
                // The pause keeps a reset from overtaking the bytes before it.
                return .upgrade(request, then: [.send(Array(Self.frames[..<offset])), .wait(.milliseconds(3)), ending])
            }
            let transport = makeTransport()
            for offset in 0...Self.frames.count {
                let connection = try await transport.connection(server.url("/\(offset)"))
                var received = 0
                let error = try await transportError {
                    while case .messages(let messages) = try await connection.receive(within: .seconds(20)) {
                        received += messages.count
                    }
                }
                #expect(error.code == .connectionLost, "at \(offset): \(error)")
                #expect(error.stage == .message, "at \(offset): \(error)")
                #expect(error.host == "127.0.0.1:\(server.port)")
                #expect(received == Self.ends.count { $0 <= offset }, "at \(offset)")
                #expect(!connection.isOpen)
            }
            server.stop()
        }

        @Test(arguments: [ScriptedWebSocketServer.Step.finish, .reset])
        func inTheHandshakeIsReportedAtEveryOffset(_ ending: ScriptedWebSocketServer.Step) async throws {
            let server = try ScriptedWebSocketServer.start { request in
                let offset = Int(request.target.dropFirst()) ?? 0
                guard case .raw(.send(let head))? = ScriptedWebSocketServer.Answer.upgrade(request).steps.first else {
                    return .init(steps: [])
                }
                return .init(steps: [.send(Array(head.prefix(offset))), .wait(.milliseconds(3)), ending])
            }
            let transport = makeTransport()
            // The head has 129 bytes.
            for offset in stride(from: 0, through: 128, by: 4) {
                let error = try await transportError { _ = try await transport.connection(server.url("/\(offset)")) }
                #expect(error.code == .connectionLost, "at \(offset): \(error)")
                #expect(error.stage == .responseHead, "at \(offset): \(error)")
            }
            server.stop()
        }

        @Test func oneByteAtATimeIsAsGoodAsAll() async throws {
            let server = try ScriptedWebSocketServer.start { request in
                guard case .raw(.send(let head))? = ScriptedWebSocketServer.Answer.upgrade(request).steps.first else {
                    return .init(steps: [])
                }
                return .init(steps: [.drip(head + Self.frames + WebSocketFrames.close(1000))])
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

        @Test func aBodyOfARefusalThatBreaksOffIsLost() async throws {
            let server = try ScriptedWebSocketServer.start { _ in
                .init(steps: [.send(Array("HTTP/1.1 500 No\r\ncontent-length: 9\r\n\r\nhalf".utf8)), .finish])
            }
            guard case .refused(let response) = try await makeTransport().open(server.url(), headerFields: [:]) else {
                throw ContractViolation("It was not refused.")
            }
            var body: [UInt8] = []
            let error = try await transportError { for try await chunk in response.body { body += chunk } }
            #expect(error.code == .connectionLost)
            #expect(error.stage == .responseBody)
            #expect(body == Array("half".utf8))
            server.stop()
        }

        /// What a peer may send that breaks the rules, and our close code.
        @Test(
            arguments: [
                (WebSocketFrames.frame(3, []), 1002), (WebSocketFrames.frame(1, [0xFF]), 1007),
                (WebSocketFrames.frame(1, [65], reserved: 4), 1002), (WebSocketFrames.frame(0, [65]), 1002),
                ([0x82, 127, 0, 0, 0, 1, 0, 0, 0, 0], 1009),
            ] as [([UInt8], UInt16)])
        func aViolationIsNamedAndClosedWithItsCode(_ frame: [UInt8], _ code: UInt16) async throws {
            let server = try ScriptedWebSocketServer.start {
                .upgrade($0, then: [.send(WebSocketFrames.text("fine") + frame + WebSocketFrames.text("late"))])
            }
            let connection = try await makeTransport(compression: .off).connection(server.url())
            #expect(try await connection.messages(1) == [.text("fine")])
            let error = try await transportError { _ = try await connection.receive(within: .seconds(20)) }
            #expect(error.code == (code == 1009 ? .bodyTooLarge : .protocolViolation))
            #expect(error.stage == .message)
            #expect(try await eventually { server.record.closeCodes == [code] })
            server.stop()
        }

        @Test(arguments: [
            "HTTP/1.1 101 Switching Protocols\r\n\r\n",
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
                + "sec-websocket-accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n\r\n",
            "SSH-2.0-OpenSSH_9.2\r\n\r\n",
        ])
        func anAnswerThatIsNoneToAHandshakeIsAViolation(_ answer: String) async throws {
            let server = try ScriptedWebSocketServer.start { _ in .init(steps: [.send(Array(answer.utf8))]) }
            let error = try await transportError { _ = try await makeTransport().connection(server.url()) }
            #expect(error.code == .protocolViolation)
            #expect(error.stage == .responseHead)
            #expect(try await eventually { server.record.openConnectionCount == 0 })
            server.stop()
        }
    }
}
