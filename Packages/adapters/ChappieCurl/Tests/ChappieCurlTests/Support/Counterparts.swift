import ChappieSimulatorServer
import ChappieTesting
import TestFixtures
import Testing

extension Counterparts {
    @TaskLocal private static var running: Counterparts?
    @TaskLocal private static var echo: ScriptedWebSocketServer?

    /// Only within a suite that has the trait ``CounterpartsTrait``.
    static var current: Counterparts {
        get throws { try #require(running, "the suite lacks the counterparts trait") }
    }

    /// The WebSocket server behind all of nginx's, which echoes.
    var server: ScriptedWebSocketServer {
        get throws { try #require(Self.echo, "the suite lacks the counterparts trait") }
    }

    fileprivate func whileCurrent(
        with server: ScriptedWebSocketServer, _ function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        try await Self.$echo.withValue(server) { try await Self.$running.withValue(self, operation: function) }
    }
}

/// Runs a suite with nginx, a WebSocket server behind it, and tinyproxy beside it.
struct CounterpartsTrait: SuiteTrait, TestScoping {
    func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        let server = try ScriptedWebSocketServer.start(
            opening: {
                $0.target == "/no" ? .response(status: 403, body: Array("not you".utf8)) : .upgrade($0)
            },
            reply: { message, _ in [.send(WebSocketFrames.message(message))] })
        defer { server.stop() }
        let counterparts = try await Counterparts()
        defer { counterparts.end() }
        // A request that asks for no upgrade gets the greeting.
        try await counterparts.start(
            locations: """
                location / {
                    if ($http_upgrade = "") { return 200 "hello over $server_protocol"; }
                    proxy_pass http://127.0.0.1:\(server.port);
                    proxy_http_version 1.1;
                    proxy_set_header Upgrade $http_upgrade;
                    proxy_set_header Connection "upgrade";
                    proxy_buffering off;
                }
                location /files/ { alias \(counterparts.directory.path)/; }
                location /away { return 307 https://127.0.0.1:\(counterparts.selfSigned)/; }
                location /moved { return 308 /; }
                """)
        try await counterparts.whileCurrent(with: server, function)
    }
}

extension Trait where Self == CounterpartsTrait {
    static var counterparts: Self { Self() }
}
