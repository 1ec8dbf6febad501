public import ChappieCore
@_spi(ChappieInternals) import ChappieSimulator
public import ChappieSimulatorServer
import HTTPTypes

/// The behaviour of every ``WebSocketTransport``, as a list of cases that any testing framework can run.
///
/// Each case opens connections to a server that follows a script. For an adapter, it is a real server
/// (``startServer()``). For the fake, it is the same script in memory (``makeFake()``).
///
/// ```swift
/// @Test(arguments: WebSocketTransportContract.cases)
/// func keepsTheContract(_ contractCase: WebSocketTransportContract.Case) async throws {
///     let server = try WebSocketTransportContract.startServer()
///     try await contractCase.run(MyTransport(), at: WebSocketTransportContract.baseURL(of: server))
/// }
/// ```
///
/// The wire (frames, compression, pings, TLS, proxies) has no counterpart in a fake. The tests of the adapter cover it.
public enum WebSocketTransportContract {
    /// One requirement for a transport.
    public typealias Case = TransportContractCase<any WebSocketTransport>

    /// Returns a transport that plays the script in memory. Any base URL on loopback is suitable.
    public static func makeFake() -> ScriptedWebSocketTransport {
        ScriptedWebSocketTransport { opening(at: $0.url.path(), asking: $0.headerFields[.contractQuestion]) }
    }

    /// Starts a real server on loopback that plays the script. The caller stops it.
    public static func startServer() throws -> ScriptedWebSocketServer {
        try ScriptedWebSocketServer.start { request in
            opening(at: request.target, asking: request.header("x-question")).onTheWire(request)
        } reply: { message, number in
            reply(to: message, number).compactMap(\.onTheWire)
        }
    }

    /// Returns the address of `server`.
    public static func baseURL(of server: ScriptedWebSocketServer) throws -> URL {
        guard let url = URL(string: "ws://127.0.0.1:\(server.port)") else {
            throw ContractViolation("The server's port \(server.port) makes no URL.")
        }
        return url
    }

    /// Every case.
    public static let cases: [Case] = [
        Case("header fields go there, and those of the answer come back; http is as good as ws") { transport, baseURL in
            let plain = URL(string: baseURL.absoluteString.replacing("ws://", with: "http://")) ?? baseURL
            for url in [baseURL, plain] {
                let opening = try await transport.open(
                    url.appending(path: "echo"), headerFields: [.contractQuestion: "how many"])
                guard case .opened(_, let fields) = opening else { throw ContractViolation("It was refused.") }
                try require(fields[.contractAnswer] == "how many", "The answer's fields are \(fields).")
            }
        },
        Case("messages of both kinds go there and come back as they were") { transport, baseURL in
            let connection = try await open("echo", transport, baseURL)
            let sent: [WebSocketMessage] = [
                .text("hello"), .binary([0, 255, 10]), .text(""), .text("größer ✓ 𝄞"), .binary([]),
                .binary([UInt8](repeating: 3, count: 100_000)),
            ]
            for message in sent { try await connection.send(message) }
            try await expect(sent, from: connection)
        },
        Case("messages come in their order, and none twice") { transport, baseURL in
            let connection = try await open("greeting", transport, baseURL)
            try await expect([.text("one"), .text("two"), .text("three")], from: connection)
            try await connection.send(.text("four"))
            try await expect([.text("four")], from: connection)
        },
        Case("an answer other than 101, a redirect too, is a refusal with fields and body") { transport, baseURL in
            for (path, status, body) in [("refused", 403, "not you"), ("moved", 307, "")] {
                let opening = try await transport.open(baseURL.appending(path: path), headerFields: [:])
                guard case .refused(let response) = opening else { throw ContractViolation("It was opened.") }
                try require(response.status.code == status, "The status is \(response.status), not \(status).")
                try require(response.headerFields[.contractAnswer] == "no", "Its fields are gone.")
                let received = try await response.body.collect(upTo: 1000)
                try require(received == Array(body.utf8), "Its body is gone.")
            }
        },
        .refusing(
            "plain ws goes to this machine only",
            ["ws://chappie.invalid/", "http://192.0.2.1/", "ws://localhost.chappie.invalid/"], .insecureURL, opening),
        .refusing(
            "an address that no WebSocket has is refused",
            ["ftp://127.0.0.1/", "file:///etc/hostname", "/just/a/path"], .invalidURL, opening),
        .failing(
            "a cut before the answer is a lost connection", at: "cut-before-answer", .connectionLost, .responseHead,
            opening),
        Case("what came before a close arrives, then the close, again and again") { transport, baseURL in
            let connection = try await open("goodbye", transport, baseURL)
            try await expect([.text("last words")], from: connection)
            for _ in 0..<3 { try await expectClose(WebSocketCloseReason(code: 1001, reason: "bye"), of: connection) }
            try await expectEnd(of: connection)
        },
        Case("what came before a cut arrives, then the loss, again and again") { transport, baseURL in
            let connection = try await open("cut", transport, baseURL)
            try await expect([.text("last words")], from: connection)
            for _ in 0..<3 {
                try await ChappieTesting.expect(.connectionLost, at: .message) {
                    _ = try await connection.receive(within: .seconds(20))
                }
            }
            try await expectEnd(of: connection)
        },
        Case("closing ends it for both sides") { transport, baseURL in
            let connection = try await open("echo", transport, baseURL)
            await connection.close(.normal)
            try await expectEnd(of: connection)
            try await expectClose(.normal, of: connection)
            await connection.close(.goingAway)
        },
        Case("what was sent before a close goes out") { transport, baseURL in
            let connection = try await open("echo", transport, baseURL)
            let sent = (0..<100).map { WebSocketMessage.text("message \($0)") }
            for message in sent { try await connection.send(message) }
            await connection.close(.normal)
            try await expect(sent, from: connection)
        },
        Case("dropping it ends it at once, for a receiver too") { transport, baseURL in
            let connection = try await open("silence", transport, baseURL)
            let receiver = Task { _ = try await connection.receive(within: nil) }
            try await Task.sleep(for: .milliseconds(20))
            connection.cancel()
            connection.cancel()
            guard case .failure(let error) = await receiver.result, error is ChappieTransportError else {
                throw ContractViolation("The receiver of a dropped connection was not told by an error of the port.")
            }
            try await expectEnd(of: connection)
            await connection.close(.normal)
        },
        Case("a ping is answered by a peer that lives") { transport, baseURL in
            let connection = try await open("echo", transport, baseURL)
            connection.ping(within: .seconds(20))
            try await connection.pong()
            try await expectEcho(from: connection)
        },
        Case("a peer that sends no byte is given up after a ping") { transport, baseURL in
            let connection = try await open("silence", transport, baseURL)
            connection.ping(within: .milliseconds(200))
            for _ in 0..<2 {
                do {
                    try await connection.pong()
                    throw ContractViolation("A ping was answered in silence.")
                } catch let error as ChappieTransportError {
                    try require(error.code == .timedOut && error.stage == .firstByte, "It failed with \(error).")
                }
            }
            try await expectEnd(of: connection)
        },
        waiting("zero", .zero),
        waiting("50 ms", .milliseconds(50)),
        Case("a deadline of zero gives what has arrived") { transport, baseURL in
            let connection = try await open("greeting", transport, baseURL)
            var count = 0
            for _ in 0..<2000 where count < 3 {
                do {
                    if case .messages(let more) = try await connection.receive(within: .zero) { count += more.count }
                } catch let error as ChappieTransportError where error.code == .timedOut {
                    try await Task.sleep(for: .milliseconds(5))
                }
            }
            try require(count == 3, "It gave \(count) of the 3 messages.")
        },
        .cancelling("receiving", at: "") { transport, baseURL in
            let connection = try await open("echo", transport, baseURL)
            do {
                _ = try await connection.receive(within: .seconds(20))
            } catch let error as CancellationError {
                try await Task { try await expectEcho(from: connection) }.value
                throw error
            }
        },
        .cancelling("opening", at: "no-answer", opening),
        .cancelledBefore(at: "echo", opening),
    ]

    private static let opening: Case.Check = { transport, url in
        _ = try await transport.open(url, headerFields: [:])
    }

    /// Returns a case in which a receiver's deadline ends the wait and nothing else.
    private static func waiting(_ name: String, _ deadline: Duration) -> Case {
        Case("a receiver's deadline of \(name) ends the wait and nothing else") { transport, baseURL in
            let connection = try await open("echo", transport, baseURL)
            let receiving = Case.failing("", at: "", .timedOut, .message, deadline: deadline) { _, _ in
                _ = try await connection.receive(within: deadline)
            }
            try await receiving.run(transport, at: baseURL)
            try await expectEcho(from: connection)
        }
    }

    private static func open(
        _ path: String, _ transport: any WebSocketTransport, _ baseURL: URL
    ) async throws -> any WebSocketConnection {
        switch try await transport.open(baseURL.appending(path: path), headerFields: [:]) {
        case .opened(let connection, _): return connection
        case .refused(let response): throw ContractViolation("It was refused with status \(response.status.code).")
        }
    }

    /// Checks that these messages arrive, in any number of arrivals.
    private static func expect(
        _ expected: [WebSocketMessage], from connection: any WebSocketConnection
    ) async throws {
        var messages: [WebSocketMessage] = []
        while messages.count < expected.count {
            switch try await connection.receive(within: .seconds(20)) {
            case .messages(let more):
                try require(!more.isEmpty, "It delivered an arrival without a message.")
                messages += more
            case .closed(let closure):
                throw ContractViolation("It closed with \(closure) before the messages had come.")
            }
        }
        try require(messages == expected, "\(messages.count) messages came, not those that were sent.")
    }

    private static func expectEcho(from connection: any WebSocketConnection) async throws {
        try require(connection.isOpen, "It calls itself closed.")
        try await connection.send(.text("still there"))
        try await expect([.text("still there")], from: connection)
    }

    private static func expectClose(
        _ reason: WebSocketCloseReason, of connection: any WebSocketConnection
    ) async throws {
        let inbound = try await connection.receive(within: .seconds(20))
        try require(inbound == .closed(reason), "The close arrived as \(inbound).")
    }

    /// Checks that the connection reports itself as closed, and that sending fails.
    private static func expectEnd(of connection: any WebSocketConnection) async throws {
        try require(!connection.isOpen, "It still calls itself open.")
        do {
            try await connection.send(.text("is anybody there"))
        } catch is ChappieTransportError {
            return
        }
        throw ContractViolation("Sending succeeded where it had to fail.")
    }
}

extension HTTPField.Name {
    fileprivate static var contractQuestion: HTTPField.Name { .init("x-question")! }
    fileprivate static var contractAnswer: HTTPField.Name { .init("x-answer")! }
}

// MARK: The script

extension WebSocketTransportContract {
    /// Returns the script's opening at a path. It is the same from a fake and from a server.
    static func opening(at path: String, asking question: String?) -> ScriptedWebSocketOpening {
        switch path {
        case "/echo":
            .opened(headerFields: [.contractAnswer: question ?? "nothing asked"], reply: reply)
        case "/greeting": .opened(greeting: [.deliver(["one", "two", "three"])], reply: reply)
        case "/goodbye":
            .opened(greeting: [.deliver(["last words"]), .close(WebSocketCloseReason(code: 1001, reason: "bye"))])
        case "/cut": .opened(greeting: [.deliver(["last words"]), .cut])
        case "/silence": .opened(greeting: [.silence])
        case "/no-answer": .hangs
        case "/cut-before-answer":
            .refused(ScriptedHTTPAnswer(beforeHead: [.cut]))
        case "/refused":
            .refused(.response(status: .forbidden, headerFields: [.contractAnswer: "no"], body: "not you"))
        case "/moved":
            .refused(.response(status: .temporaryRedirect, headerFields: [.location: "/echo", .contractAnswer: "no"]))
        default: .refused(.response(status: .badRequest, body: "the contract has no such path"))
        }
    }

    /// Returns a step that sends the message back.
    static func reply(to message: WebSocketMessage, _ number: Int) -> [ScriptedWebSocketStep] { [.deliver([message])] }
}

extension ScriptedWebSocketOpening {
    /// Returns the answer over a real socket. A gate is only for the fake.
    func onTheWire(_ request: ReceivedRequest) -> ScriptedWebSocketServer.Answer {
        switch answer {
        case .opened(let fields, let greeting, _):
            .upgrade(
                request, headers: fields.map { ($0.name.rawName, $0.value) }, then: greeting.compactMap(\.onTheWire))
        case .refused(let answer): answer.onTheWire
        case .failed: ScriptedAnswer(steps: [.finish])
        }
    }
}

extension ScriptedWebSocketStep {
    var onTheWire: ScriptedWebSocketServer.Step? {
        switch self {
        case .deliver(let messages): .send(messages.flatMap { WebSocketFrames.message($0) })
        case .close(let closure): .send(WebSocketFrames.close(closure.code, reason: closure.reason))
        case .cut, .fail: .finish
        case .silence: .stall
        case .pause(let pause): .wait(pause)
        case .wait: nil
        }
    }
}
