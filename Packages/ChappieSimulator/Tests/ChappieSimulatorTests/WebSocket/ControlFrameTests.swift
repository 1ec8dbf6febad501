import ChappieCore
import ChappieSimulator
import Testing

@Suite(.timeLimit(.minutes(1)))
struct ControlFrameTests {
    @Test func pingsAreAnsweredWithTheirOwnBytes() async throws {
        try await Simulator.withWebSocket { client, simulator in
            for payload in [[], Array("hello".utf8), Array(repeating: 9, count: 125)] as [[UInt8]] {
                client.send(.init(opcode: 9, payload: payload, isMasked: true))
                #expect(client.frame() == .init(opcode: 10, payload: payload))
            }
            #expect(simulator.webSocketConnections[0].pingCount == 3)
            #expect(simulator.webSocketConnections[0].messageCount == 0)
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
            #expect(client.controls.map(\.payload) == (0..<20).map { [UInt8($0)] })
        }
    }

    @Test func theServerPingsAndCountsWhatComesBack() async throws {
        let configuration = SimulatorConfiguration(webSocketPingInterval: .milliseconds(10))
        try await Simulator.withWebSocket(configuration) { client, simulator in
            for _ in 0..<3 {
                let ping = try #require(client.frame())
                #expect(ping.opcode == 9)
                client.send(.init(opcode: 10, payload: ping.payload, isMasked: true))
            }
            client.send(.init(opcode: 8, payload: [], isMasked: true))
            while let frame = client.frame(), frame.opcode != 8 {}
            #expect(simulator.webSocketConnections[0].pongCount == 3)
        }
    }

    @Test func pingsGoUnansweredWhenTheScenarioSaysSo() async throws {
        let configuration = SimulatorConfiguration(scenario: try SimulatorScenario(named: "ws-no-pongs"))
        try await Simulator.withWebSocket(configuration) { client, _ in
            client.send(.init(opcode: 9, payload: [1], isMasked: true))
            #expect(client.ask("Hi").types.last == "response.completed")
            #expect(client.controls.isEmpty)
        }
    }

    @Test(arguments: [(1000, [0x03, 0xE8]), (nil, []), (4999, [0x13, 0x87])] as [(Int?, [UInt8])])
    func aCloseIsAnsweredWithItsCodeAndThenTheConnectionEnds(code: Int?, payload: [UInt8]) async throws {
        try await Simulator.withWebSocket { client, simulator in
            client.send(.init(opcode: 8, payload: payload, isMasked: true))
            #expect(client.frame() == .init(opcode: 8, payload: payload))
            #expect(client.socket.receiveToEnd() == .endOfStream(""))
            #expect(simulator.webSocketConnections[0].hasSentClose)
            #expect(simulator.webSocketConnections[0].closeCode.map(Int.init) == code)
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
            ([0x81, 0x01, 0x61], 1002), ([0xC1, 0x80, 0, 0, 0, 0], 1002), ([0x81, 0x81, 0, 0, 0, 0, 0xFF], 1007),
            ([0x81, 0xFF, 0, 0, 0, 0, 1, 16, 0, 0, 0, 0, 0, 0], 1009),
        ] as [([UInt8], Int)])
    func aBrokenRuleIsAnsweredWithItsCloseCode(bytes: [UInt8], code: Int) async throws {
        try await Simulator.withWebSocket { client, _ in
            client.socket.send(bytes)
            #expect(client.frame()?.closeCode == code)
            #expect(client.socket.receiveToEnd() == .endOfStream(""))
        }
    }

    @Test func garbageAfterACompressedStartIsNoMessage() async throws {
        try await Simulator.withWebSocket(offer: TestWebSocket.deflateOffer) { client, _ in
            client.send(.init(opcode: 1, payload: [0x07, 0xFF, 0xFF], reservedBits: 4, isMasked: true))
            #expect(client.frame()?.closeCode == 1002)
        }
    }
}
