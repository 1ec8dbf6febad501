import ChappieCore
import ChappieSimulator
import TestFixtures
import Testing

@Suite(.timeLimit(.minutes(1)))
struct HandshakeTests {
    private func handshake<Value: Sendable>(
        _ scenario: String, offer: String? = nil, headers: [String] = [],
        _ body: @escaping @Sendable (TestWebSocket, Simulator) throws -> Value
    ) async throws -> Value {
        let configuration = SimulatorConfiguration(scenario: try SimulatorScenario(named: scenario))
        return try await Simulator.withWebSocket(configuration, offer: offer, headers: headers, body)
    }

    @Test func isTheOneOfTheStandardWithTheHeadersClientsRead() async throws {
        let headers = ["x-codex-routing-hint: model=gpt-5.5;tier=priority", "x-codex-turn-state: sticky"]
        try await Simulator.withWebSocket(headers: headers) { client, simulator in
            #expect(client.head.hasPrefix("HTTP/1.1 101 Switching Protocols\r\n"))
            // The example of RFC 6455, 1.3.
            #expect(client.header("sec-websocket-accept") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
            #expect(client.header("upgrade") == "websocket")
            #expect(client.header("connection") == "Upgrade")
            #expect(client.header("openai-model") == "gpt-5.5")
            #expect(client.header("x-codex-turn-state") == "sticky")
            #expect(client.header("x-codex-primary-used-percent") == "12.0")
            for name in ["x-request-id", "x-models-etag", "x-codex-secondary-reset-at"] {
                #expect(client.header(name)?.isEmpty == false, "\(name)")
            }
            #expect(client.header("sec-websocket-extensions") == nil)
            #expect(client.header("content-length") == nil)
            #expect(simulator.webSocketConnections.map(\.connection) == [0])
        }
    }

    @Test func letsNobodyInWithoutAToken() async throws {
        try await Simulator.during { simulator in
            try await onOwnThread {
                let stranger = try TestWebSocket(simulator, token: "stolen")
                #expect(stranger.status == 401)
                #expect(stranger.header("connection") == "close")
                guard case .endOfStream(let body) = stranger.socket.receiveToEnd() else {
                    Issue.record("the connection did not end")
                    return
                }
                #expect(body.contains("invalid_token"))
                let guest = try TestWebSocket(simulator, headers: ["chatgpt-account-id: other"])
                #expect(guest.status == 403)
                #expect(simulator.webSocketConnections.isEmpty)
            }
        }
    }

    @Test(arguments: [
        ("Sec-WebSocket-Version: 13", "Sec-WebSocket-Version: 8", 426),
        ("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Key: short", 400),
        ("Upgrade: websocket", "Upgrade: h2c", 405),
    ])
    func refusesWhatIsNoHandshake(line: String, instead: String, status: Int) async throws {
        try await Simulator.during { simulator in
            let head = try await onOwnThread {
                let socket = try TestSocket(port: simulator.port)
                let lines = [
                    "GET /backend-api/codex/responses HTTP/1.1", "Host: x", "Connection: Upgrade", "Upgrade: websocket",
                    "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
                    "Authorization: Bearer \(simulator.issueCredential().accessToken)",
                ]
                socket.send(lines.map { $0 == line ? instead : $0 }.joined(separator: "\r\n") + "\r\n\r\n")
                return socket.receive(until: "\r\n\r\n")
            }
            #expect(head.hasPrefix("HTTP/1.1 \(status) "))
            #expect(head.lowercased().contains("connection: close"))
        }
    }

    @Test func answersAHandshakeThatWaitsBehindAnotherRequest() async throws {
        try await Simulator.during { simulator in
            let answers = try await onOwnThread {
                let socket = try TestSocket(port: simulator.port)
                let token = simulator.issueCredential().accessToken
                socket.send(
                    "GET /codex/device HTTP/1.1\r\nHost: localhost\r\n\r\nGET /backend-api/codex/responses HTTP/1.1\r\n"
                        + "Host: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                        + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: Bearer \(token)\r\n\r\n")
                let page = socket.receive(until: "</html>")
                return [page, socket.receive(until: "\r\n\r\n")]
            }
            #expect(answers[0].hasPrefix("HTTP/1.1 200 OK"))
            #expect(answers[1].contains("HTTP/1.1 101 "))
        }
    }

    @Test func whatFollowsAHandshakeWithABodyIsNoRequest() async throws {
        try await Simulator.during { simulator in
            let sizes = try await onOwnThread {
                let token = simulator.issueCredential().accessToken
                let request =
                    "GET /backend-api/codex/responses HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"
                    + "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nContent-Length: 5\r\n"
                    + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: Bearer \(token)\r\n\r\nhello"
                let socket = try TestSocket(port: simulator.port)
                socket.send(request + request + "GET / HTTP/1.1\r\n\r\n")
                #expect(socket.receive(until: "\r\n\r\n").hasPrefix("HTTP/1.1 101 "))
                socket.send(request)
                // The G of GET is a frame that is not masked, and has reserved bits.
                #expect(socket.receive(count: 2)?.first == 0x88)
                return simulator.receivedRequests.count
            }
            #expect(sizes == 1)
        }
    }

    @Test(arguments: [
        ("ws-426", 426), ("ws-200", 200), ("ws-403", 403), ("ws-404", 404), ("ws-500", 500), ("ws-503", 503),
        ("ws-401", 401), ("ws-usage-limit", 429),
    ])
    func isRefusedAsOftenAsTheScenarioSays(name: String, status: Int) async throws {
        try await handshake(name) { client, simulator in
            #expect(client.status == status)
            guard case .endOfStream = client.socket.receiveToEnd() else {
                Issue.record("the connection did not end")
                return
            }
            let second = try TestWebSocket(simulator)
            #expect(second.status == status)
            // A turn by POST is none of the scenario's business.
            let post = try simulator.ask("Hi")
            #expect(post.status == 200)
        }
    }

    @Test(arguments: ["ws-503-once", "ws-401-once", "ws-rst-once"])
    func isRefusedOnceAndThenGranted(name: String) async throws {
        try await handshake(name) { client, simulator in
            #expect(client.status != 101)
            let second = try TestWebSocket(simulator)
            #expect(second.status == 101)
            #expect(simulator.webSocketConnections.count == 1)
        }
    }

    @Test func hangsWithoutAWord() async throws {
        let configuration = SimulatorConfiguration(scenario: try SimulatorScenario(named: "ws-hang-once"))
        try await Simulator.during(configuration) { simulator in
            try await onOwnThread {
                let first = try TestWebSocket(simulator, patience: 0.2)
                #expect(first.head.isEmpty)
                #expect(simulator.webSocketConnections.isEmpty)
                let second = try TestWebSocket(simulator)
                #expect(second.status == 101)
                #expect(simulator.webSocketConnections.map(\.connection) == [1])
            }
        }
    }

    @Test func breaksOffWhereItSays() async throws {
        try await handshake("ws-hang-up") { client, _ in #expect(client.head.utf8.count == 40) }
        try await handshake("ws-rst") { client, _ in #expect(client.head.isEmpty) }
        try await handshake("ws-drip") { client, _ in
            #expect(client.status == 101)
            #expect(client.ask("Hi").types.last == "response.completed")
        }
    }

    @Test func provesWhatItIsToldToProve() async throws {
        try await handshake("ws-wrong-accept") { client, _ in
            #expect(client.status == 101)
            #expect(client.header("sec-websocket-accept") == "KioqKioqKioqKioqKioqKioqKio=")
        }
        try await handshake("ws-no-accept") { client, _ in
            #expect(client.status == 101)
            #expect(client.header("sec-websocket-accept") == nil)
        }
        try await handshake("ws-unknown-extension") { client, _ in
            #expect(client.header("sec-websocket-extensions") == "x-hologram; depth=3")
        }
        try await handshake("ws-unknown-subprotocol") { client, _ in
            #expect(client.header("sec-websocket-protocol") == "hologram")
        }
    }

    @Test func compressionIsAgreedAsTheSettingsSay() async throws {
        let offer = TestWebSocket.deflateOffer
        try await Simulator.withWebSocket(offer: offer) { client, simulator in
            #expect(client.header("sec-websocket-extensions") == "permessage-deflate")
            #expect(simulator.webSocketConnections[0].isCompressed)
        }
        try await Simulator.withWebSocket(SimulatorConfiguration(webSocketDeflate: false), offer: offer) { client, _ in
            #expect(client.header("sec-websocket-extensions") == nil)
            #expect(client.ask("Hi").types.last == "response.completed")
        }
        try await handshake("ws-no-deflate", offer: offer) { client, _ in
            #expect(client.header("sec-websocket-extensions") == nil)
        }
        try await handshake("ws-small-windows", offer: offer) { client, _ in
            #expect(
                client.header("sec-websocket-extensions")
                    == "permessage-deflate; server_max_window_bits=9; client_max_window_bits=9")
        }
        try await handshake("ws-no-context", offer: offer) { client, _ in
            #expect(
                client.header("sec-websocket-extensions")
                    == "permessage-deflate; server_no_context_takeover; client_no_context_takeover")
        }
    }
}
