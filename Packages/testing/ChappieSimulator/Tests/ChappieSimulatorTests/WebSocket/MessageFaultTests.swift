import ChappieCore
import ChappieSimulatorServer
import Testing

@Suite(.timeLimit(.minutes(3)))
struct MessageFaultTests {
    // MARK: Errors

    @Test func errorsAreMessagesWithTheHeadersThatHTTPWouldHave() async throws {
        try await Simulator.withWebSocket(named: "ws-error-retry-after") { client, _ in
            for _ in 0..<2 {
                let error = client.ask("Hi").last
                #expect(error?["status"] == 429)
                #expect(error?["error"]?["code"] == "rate_limit_exceeded")
                #expect(error?["headers"] == ["retry-after": "1"])
            }
            #expect(client.ask("Hi").types.last == "response.completed")
        }
    }

    @Test(arguments: [
        ("ws-error-status-code", ChappieJSON?.none, ChappieJSON?.some(500)), ("ws-error-no-status", nil, nil),
    ])
    func aStatusCanHaveAnotherNameOrNone(name: String, status: ChappieJSON?, statusCode: ChappieJSON?) async throws {
        try await Simulator.withWebSocket(named: name) { client, _ in
            let error = client.ask("Hi").last
            #expect(error?["type"] == "error")
            #expect(error?["error"]?["type"] == "server_error")
            #expect(error?["status"] == status)
            #expect(error?["status_code"] == statusCode)
        }
    }

    @Test func aConnectionsTimeIsOver() async throws {
        try await Simulator.withWebSocket(named: "ws-connection-limit") { client, simulator in
            #expect(client.ask("Hi", [("generate", false)]).types.last == "response.completed")
            #expect(client.ask("Hi").types.last == "response.completed")
            for _ in 0..<2 {
                let error = client.ask("Hi").last
                #expect(error?["status"] == 400)
                #expect(error?["error"]?["code"] == "websocket_connection_limit_reached")
            }
            let second = try TestWebSocket(simulator)
            for _ in 0..<3 { #expect(second.ask("Hi").types.last == "response.completed") }
        }
    }

    @Test func whatIsNoStreamOfEventsIsFollowedByAClose() async throws {
        try await Simulator.withWebSocket(named: "html") { client, _ in
            client.send(TestWebSocket.create("Hi"))
            #expect(client.message()?.text.hasPrefix("<!DOCTYPE html>") == true)
            #expect(client.message()?.closeCode == 1000)
        }
    }

    // MARK: Ends

    @Test(arguments: [
        ("ws-close-1000", 8, 1000), ("ws-close-empty", 8, nil), ("ws-close-instead", 0, 1011),
    ])
    func closesInTheMiddleOfAnAnswer(name: String, messages: Int, code: Int?) async throws {
        try await Simulator.withWebSocket(named: name) { client, _ in
            client.send(TestWebSocket.create("Hi"))
            for _ in 0..<messages { #expect(client.message()?.opcode == 1) }
            let close = try #require(client.message())
            #expect(close.opcode == 8)
            #expect(close.closeCode == code)
            client.send(.init(opcode: 8, payload: close.payload, isMasked: true))
            #expect(client.socket.receiveToEnd() == .endOfStream(""))
        }
    }

    @Test func closesAfterAnAnswerAndByItself() async throws {
        try await Simulator.withWebSocket(named: "ws-close-after") { client, _ in
            #expect(client.ask("Hi").types.last == "response.completed")
            #expect(client.message()?.closeCode == 1000)
        }
        let idle =
            "{\"rules\":[{\"match\":{\"method\":\"GET\"},\"effect\":{\"handshake\":{\"close\":{\"code\":1001}}}}]}"
        try await Simulator.withWebSocket(scenario: idle) { client, _ in #expect(client.message()?.closeCode == 1001) }
    }

    @Test(arguments: [nil, TestWebSocket.deflateOffer])
    func cutsAReferenceAnswerAtEvery97thByte(offer: String?) async throws {
        @Sendable func bytes(of client: TestWebSocket, closing: Bool) -> Int? {
            client.send(TestWebSocket.create("Hi"))
            if closing { client.send(.init(opcode: 8, payload: [], isMasked: true)) }
            return client.socket.countToEnd()
        }
        // The close frame is two bytes.
        let whole =
            try #require(
                try await Simulator.withWebSocket(offer: offer) { client, _ in bytes(of: client, closing: true) }) - 2
        #expect(whole > (offer == nil ? 2000 : 500))
        for length in stride(from: 0, to: whole, by: 97) {
            let cut = "{\"rules\":[{\"match\":{\"method\":\"POST\"},\"effect\":{\"cut\":{\"afterBytes\":\(length)}}}]}"
            try await Simulator.withWebSocket(scenario: cut, offer: offer) { client, _ in
                #expect(bytes(of: client, closing: false) == length)
            }
        }
    }

    @Test func fallsSilentAfterItsFirstEventButAnswersPings() async throws {
        try await Simulator.withWebSocket(named: "ws-stall") { client, simulator in
            client.send(TestWebSocket.create("Hi"))
            #expect(client.message()?.json["type"] == "response.created")
            client.send(.init(opcode: 9, payload: Array("still there?".utf8), isMasked: true))
            #expect(client.frame()?.text == "still there?")
            let second = try TestWebSocket(simulator)
            #expect(second.ask("Hi").types.last == "response.completed")
        }
    }

    // MARK: Frames

    @Test(arguments: [nil, TestWebSocket.deflateOffer])
    func fragmentsAndPingsChangeNothing(offer: String?) async throws {
        let plain = try await Simulator.withWebSocket { client, _ in client.ask("Hi").text }
        for name in ["ws-fragmented", "ws-fragmented-pings", "ws-bad-json", "drip"] {
            try await Simulator.withWebSocket(named: name, offer: offer) { client, _ in
                #expect(client.ask("Hi").text == plain)
                #expect(client.controls.isEmpty == (name != "ws-fragmented-pings"))
                #expect(client.ask("Hi").text == plain)
            }
        }
    }

    /// The frames of the answer's third message.
    private func third(_ name: String, offer: String? = nil) async throws -> [TestWebSocket.Frame] {
        try await Simulator.withWebSocket(named: name, offer: offer) { client, _ in
            client.send(TestWebSocket.create("Hi"))
            _ = (client.frame(), client.frame())
            var frames = [try #require(client.frame())]
            while frames.last?.isFinal == false, let frame = client.frame() { frames.append(frame) }
            return frames
        }
    }

    @Test func sendsFramesThatBreakTheRules() async throws {
        #expect(try await third("ws-binary")[0].opcode == 2)
        #expect(try await third("ws-reserved-bit")[0].reservedBits == 2)
        #expect(try await third("ws-reserved-opcode")[0].opcode == 3)
        #expect(try await third("ws-masked")[0].isMasked)
        #expect(String(validating: try await third("ws-invalid-utf8")[0].payload, as: UTF8.self) == nil)
        let ping = try await third("ws-long-ping")[0]
        #expect([Int(ping.opcode), ping.payload.count] == [9, 126])
    }

    @Test func sendsFramesAndMessagesOfAnySize() async throws {
        let offer = TestWebSocket.deflateOffer
        #expect(try await third("ws-giant-frame", offer: offer).map(\.payload.count) == [17 << 20])
        #expect(try await third("ws-bomb", offer: offer)[0].payload.count < 1 << 20)
        let sizes = try await third("ws-giant-message").map(\.payload.count)
        #expect(sizes == Array(repeating: 8 << 20, count: 8) + [6 << 20])
    }

    @Test func aMessageFollowsTheEnd() async throws {
        try await Simulator.withWebSocket(named: "ws-text-after") { client, _ in
            for _ in 0..<2 {
                #expect(client.ask("Hi").types.last == "response.completed")
                #expect(client.message()?.json["delta"] == " too late")
            }
        }
    }
}
