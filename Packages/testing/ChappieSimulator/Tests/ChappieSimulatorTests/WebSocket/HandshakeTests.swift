import ChappieCore
import ChappieSimulatorServer
import Testing

@testable import ChappieSimulator

@Suite(.timeLimit(.minutes(3)))
struct HandshakeTests {
    /// A handshake by hand; its last line is empty.
    private func request(_ simulator: Simulator, instead: [String: String] = [:], more: String = "") -> String {
        let lines = [
            "GET /backend-api/codex/responses HTTP/1.1", "Host: x", "Connection: Upgrade", "Upgrade: websocket",
            "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
            "Authorization: Bearer \(simulator.signIn().accessToken)",
            Simulator.versionHeader, Simulator.routingHint("gpt-6.1-sol"),
        ]
        return lines.map { instead[$0] ?? $0 }.joined(separator: "\r\n") + "\r\n\(more)\r\n"
    }

    @Test func isTheOneOfTheStandardWithTheHeadersClientsRead() async throws {
        try await Simulator.withWebSocket(headers: ["x-codex-turn-state: sticky"]) { client, simulator in
            #expect(client.head.hasPrefix("HTTP/1.1 101 Switching Protocols\r\n"))
            let expected = [
                // The example of RFC 6455, 1.3.
                "sec-websocket-accept": "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", "upgrade": "websocket",
                "connection": "Upgrade", "x-codex-turn-state": "sticky",
                "x-codex-primary-used-percent": "12.0", "sec-websocket-extensions": nil, "content-length": nil,
            ]
            for (name, value) in expected { #expect(client.header(name) == value, "\(name)") }
            for name in ["x-request-id", "x-models-etag", "x-codex-secondary-reset-at"] {
                #expect(client.header(name)?.isEmpty == false, "\(name)")
            }
            #expect(simulator.webSocketConnections.map(\.connection) == [0])
        }
    }

    @Test func refusesStrangers() async throws {
        try await Simulator.during { simulator in
            let stranger = try TestWebSocket(simulator, token: "stolen")
            #expect(stranger.status == 401)
            #expect(stranger.header("connection") == "close")
            guard case .endOfStream(let body) = stranger.socket.receiveToEnd() else {
                Issue.record("the connection did not end")
                return
            }
            #expect(body.contains("invalid_token"))
            #expect(try TestWebSocket(simulator, headers: ["chatgpt-account-id: other"]).status == 403)
            #expect(simulator.webSocketConnections.isEmpty)
        }
    }

    @Test(arguments: [
        ("Sec-WebSocket-Version: 13", "Sec-WebSocket-Version: 8", 400),
        ("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "X-Nothing: x", 400),
        ("Upgrade: websocket", "Upgrade: h2c", 405),
    ])
    func refusesWhatIsNoHandshake(line: String, instead: String, status: Int) async throws {
        try await Simulator.during { simulator in
            let socket = try TestSocket(port: simulator.port)
            socket.send(request(simulator, instead: [line: instead]))
            let head = socket.receive(until: "\r\n\r\n")
            #expect(head.hasPrefix("HTTP/1.1 \(status) "))
            #expect(head.lowercased().contains("connection: close"))
        }
    }

    @Test func whatFollowsAHandshakeWithABodyIsNoRequest() async throws {
        try await Simulator.during { simulator in
            let request = request(simulator, more: "Content-Length: 5\r\n") + "hello"
            let socket = try TestSocket(port: simulator.port)
            socket.send(request + request + "GET / HTTP/1.1\r\n\r\n")
            #expect(socket.receive(until: "\r\n\r\n").hasPrefix("HTTP/1.1 101 "))
            socket.send(request)
            // The G of GET is a frame that is not masked, and has reserved bits.
            #expect(socket.receive(count: 2)?.first == 0x88)
            #expect(simulator.receivedRequests.count == 1)
        }
    }

    @Test func isRefusedOnceAndThenGranted() async throws {
        try await Simulator.withWebSocket(named: "ws-503-once") { client, simulator in
            #expect(client.status == 503)
            guard case .endOfStream = client.socket.receiveToEnd() else {
                Issue.record("the connection did not end")
                return
            }
            let second = try TestWebSocket(simulator)
            #expect(second.status == 101)
            #expect(simulator.webSocketConnections.count == 1)
        }
    }

    @Test func hangsWithoutAWord() async throws {
        try await Simulator.during(named: "ws-hang-once") { simulator in
            let first = try TestWebSocket(simulator, patience: 0.2)
            #expect(first.head.isEmpty)
            #expect(simulator.webSocketConnections.isEmpty)
            let second = try TestWebSocket(simulator)
            #expect(second.status == 101)
            #expect(simulator.webSocketConnections.map(\.connection) == [1])
        }
    }

    @Test func breaksOffWhereItSays() async throws {
        try await Simulator.withWebSocket(named: "ws-hang-up") { client, _ in #expect(client.head.utf8.count == 40) }
        try await Simulator.withWebSocket(named: "ws-drip") { client, _ in #expect(client.status == 101) }
    }

    private static let deflate = "permessage-deflate"

    @Test(arguments: [
        ("ws-wrong-accept", "sec-websocket-accept", "KioqKioqKioqKioqKioqKioqKio="),
        ("ws-no-accept", "sec-websocket-accept", nil),
        ("ws-unknown-extension", "sec-websocket-extensions", "x-hologram; depth=3"),
        ("ws-unknown-subprotocol", "sec-websocket-protocol", "hologram"),
        ("ws-no-deflate", "sec-websocket-extensions", nil),
        (
            "ws-small-windows", "sec-websocket-extensions",
            deflate + "; server_max_window_bits=9; client_max_window_bits=9"
        ),
        (
            "ws-no-context", "sec-websocket-extensions",
            deflate + "; server_no_context_takeover; client_no_context_takeover"
        ),
        ("ws-pings", "sec-websocket-extensions", deflate),
    ])
    func agreesToWhatTheScenarioSays(name: String, header: String, value: String?) async throws {
        try await Simulator.withWebSocket(named: name, offer: TestWebSocket.deflateOffer) { client, _ in
            #expect(client.status == 101)
            #expect(client.header(header) == value)
        }
    }

    @Test(arguments: [true, false])
    func compressionIsAgreedAsTheSettingsSay(isOn: Bool) async throws {
        let configuration = SimulatorConfiguration(webSocketDeflate: isOn)
        try await Simulator.withWebSocket(configuration, offer: TestWebSocket.deflateOffer) { client, simulator in
            #expect(client.header("sec-websocket-extensions") == (isOn ? "permessage-deflate" : nil))
            #expect(client.ask("Hi").types.last == "response.completed")
            #expect(simulator.receivedMessages[0].isCompressed == isOn)
        }
    }
}
