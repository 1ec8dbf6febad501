import ChappieCore
import ChappieSimulatorServer
import TestFixtures
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

    @Test func refusesStrangers() async throws {
        try await Simulator.during { simulator in
            let stranger = try TestWebSocket(simulator, token: "stolen")
            #expect(stranger.status == 401)
            #expect(stranger.header("connection") == "close")
            #expect(try stranger.socket.rest().contains("invalid_token"))
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
            let socket = try LoopbackConnection(port: simulator.port)
            socket.send(request(simulator, instead: [line: instead]))
            let head = socket.receive(until: "\r\n\r\n")
            #expect(head.hasPrefix("HTTP/1.1 \(status) "))
            #expect(head.lowercased().contains("connection: close"))
        }
    }
}
