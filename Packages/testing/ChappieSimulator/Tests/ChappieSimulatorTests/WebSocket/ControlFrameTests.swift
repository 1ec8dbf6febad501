import ChappieCore
import ChappieSimulatorServer
import Testing

@Suite(.timeLimit(.minutes(3)))
struct ControlFrameTests {
    @Test func pingsAreAnsweredWithTheirOwnBytes() async throws {
        try await Simulator.withWebSocket { client, simulator in
            for payload in [[], Array("hello".utf8), Array(repeating: 9, count: 125)] as [[UInt8]] {
                client.send(.init(opcode: 9, payload: payload, isMasked: true))
                #expect(client.frame() == .init(opcode: 10, payload: payload))
            }
            #expect(simulator.receivedMessages.isEmpty)
        }
    }

    @Test func aPingIsAnsweredWhileAnAnswerDripsAndNeverInsideAFrame() async throws {
        let drip = "{\"rules\":[{\"match\":{\"method\":\"POST\"},\"effect\":{\"drip\":{\"bytes\":3,\"pause\":0}}}]}"
        try await Simulator.withWebSocket(scenario: drip) { client, _ in
            client.send(TestWebSocket.create("Hi"))
            #expect(client.message()?.json["type"] == "response.created")
            for index in 0..<20 { client.send(.init(opcode: 9, payload: [UInt8(index)], isMasked: true)) }
            let events = client.answer()
            #expect(events.types.last == "response.completed")
            client.send(.init(opcode: 8, payload: [], isMasked: true))
            #expect(client.message()?.opcode == 8)
            // A slow machine sees the server's own pings as well.
            let pongs = client.controls.filter { $0.opcode == 10 }
            #expect(pongs.map(\.payload) == (0..<20).map { [UInt8($0)] })
        }
    }

    @Test func theServerPings() async throws {
        let configuration = SimulatorConfiguration(webSocketPingInterval: .milliseconds(10))
        try await Simulator.withWebSocket(configuration) { client, _ in
            for _ in 0..<3 { #expect(client.frame() == .init(opcode: 9, payload: Array("chappie".utf8))) }
        }
    }

    @Test(arguments: [[0x03, 0xE8], [], [0x13, 0x87]] as [[UInt8]])
    func aCloseIsAnsweredWithItsCodeAndThenTheConnectionEnds(payload: [UInt8]) async throws {
        try await Simulator.withWebSocket { client, _ in
            client.send(.init(opcode: 8, payload: payload, isMasked: true))
            #expect(client.frame() == .init(opcode: 8, payload: payload))
            #expect(client.socket.receiveToEnd() == .endOfStream(""))
        }
    }

    @Test func aCloseEndsAnAnswerThatIsBeingStreamed() async throws {
        try await Simulator.withWebSocket(SimulatorConfiguration(deltasPerSecond: 10)) { client, _ in
            client.send(TestWebSocket.create("repeat 1000 words"))
            #expect(client.message()?.json["type"] == "response.created")
            client.send(.init(opcode: 8, payload: [0x03, 0xE9], isMasked: true))
            var last: TestWebSocket.Frame?
            while let message = client.message() {
                last = message
                if message.opcode == 8 { break }
            }
            #expect(last?.closeCode == 1001)
            #expect(client.socket.receiveToEnd() == .endOfStream(""))
        }
    }

    @Test func aBinaryMessageGetsAnErrorAndAClose() async throws {
        try await Simulator.withWebSocket { client, _ in
            client.send(.init(opcode: 2, payload: [1, 2, 3], isMasked: true))
            #expect(client.frame()?.json["error"]?["code"] == "invalid_message")
            #expect(client.frame()?.closeCode == 1003)
            #expect(client.socket.receiveToEnd() == .endOfStream(""))
        }
    }

    @Test(
        arguments: [
            ([0x81, 0x01, 0x61], 1002, "an unmasked frame"),
            ([0xC1, 0x80, 0, 0, 0, 0], 1002, "RSV1 without compression"),
            ([0xA1, 0x80, 0, 0, 0, 0], 1002, "RSV2"),
            ([0x83, 0x80, 0, 0, 0, 0], 1002, "a reserved opcode"),
            ([0x8B, 0x80, 0, 0, 0, 0], 1002, "a reserved control opcode"),
            ([0x80, 0x80, 0, 0, 0, 0], 1002, "a continuation of nothing"),
            ([0x01, 0x80, 0, 0, 0, 0, 0x81, 0x80, 0, 0, 0, 0], 1002, "a message inside a message"),
            ([0x09, 0x80, 0, 0, 0, 0], 1002, "a ping in fragments"),
            ([0x89, 0xFE, 0, 126, 0, 0, 0, 0], 1002, "a ping of 126 bytes"),
            ([0x88, 0x81, 0, 0, 0, 0, 3], 1002, "half a close code"),
            ([0x88, 0x82, 0, 0, 0, 0, 0x03, 0xED], 1002, "close code 1005"),
            ([0x88, 0x83, 0, 0, 0, 0, 0x03, 0xE8, 0xFF], 1007, "a close reason that is not UTF-8"),
            ([0x81, 0x82, 0, 0, 0, 0, 0xC3, 0x28], 1007, "text that is not UTF-8"),
            ([0x82, 0xFF, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0], 1009, "a frame of 16 MiB and a byte"),
            ([0x82, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 1009, "a length beyond any"),
        ] as [([UInt8], Int, String)])
    func aBrokenRuleIsAnsweredWithItsCloseCode(bytes: [UInt8], code: Int, name: String) async throws {
        try await Simulator.withWebSocket { client, _ in
            client.socket.send(bytes)
            #expect(client.frame()?.closeCode == code, "\(name)")
            #expect(client.socket.receiveToEnd() == .endOfStream(""))
        }
    }

    @Test(arguments: [1, 3, 64])
    func readsFramesInPiecesOfAnySize(size: Int) async throws {
        func masked(_ opcode: UInt8, _ text: String, isFinal: Bool = true) -> [UInt8] {
            TestWebSocket.bytes(of: .init(opcode: opcode, payload: Array(text.utf8), isFinal: isFinal, isMasked: true))
        }
        let question = TestWebSocket.create("Hello 🌙").serialized()
        let (first, rest) = (String(question.prefix(5)), String(question.dropFirst(5)))
        let bytes = masked(1, first, isFinal: false) + masked(9, "in") + masked(0, "", isFinal: false) + masked(0, rest)
        try await Simulator.withWebSocket { client, simulator in
            for start in stride(from: 0, to: bytes.count, by: size) {
                client.socket.send(Array(bytes[start..<min(start + size, bytes.count)]))
            }
            #expect(client.answer().types.last == "response.completed")
            let message = try #require(simulator.receivedMessages.first)
            #expect(String(decoding: message.body, as: UTF8.self) == question)
            #expect(message.wireByteCount == bytes.count - 8)
            #expect(client.controls.map(\.text) == ["in"])
        }
    }

    @Test func garbageAfterACompressedStartIsNoMessage() async throws {
        try await Simulator.withWebSocket(offer: TestWebSocket.deflateOffer) { client, _ in
            client.send(.init(opcode: 1, payload: [0x07, 0xFF, 0xFF], reservedBits: 4, isMasked: true))
            #expect(client.frame()?.closeCode == 1002)
        }
    }
}
