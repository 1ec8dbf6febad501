public import ChappieCore
import ChappieSimulator
public import FoundationEssentials
import HTTPTypes

/// The behaviour of every ``WebSocketTransport``, as a list of cases that any testing framework can run.
///
/// Each case opens connections to a server that behaves by its script: for an adapter a real one (``startServer()``), for
/// the fake the same script in memory (``makeFake()``).
///
/// ```swift
/// @Test(arguments: WebSocketTransportContract.cases)
/// func keepsTheContract(_ contractCase: WebSocketTransportContract.Case) async throws {
///     let server = try WebSocketTransportContract.startServer()
///     try await contractCase.run(MyTransport(), at: WebSocketTransportContract.baseURL(of: server))
/// }
/// ```
///
/// The wire (frames, compression, pings, TLS, proxies) has no counterpart in a fake and is for the tests
/// of the adapter.
public enum WebSocketTransportContract {
    /// One demand on a transport.
    public struct Case: Sendable, CustomStringConvertible {
        /// The demand as a fact: `a refusal is an answer`.
        public let name: String
        let check: @Sendable (_ transport: any WebSocketTransport, _ baseURL: URL) async throws -> Void

        /// - Parameter baseURL: where the contract's server listens; the cases add their paths.
        /// - Throws: ``ContractViolation`` when the demand is not met, and whatever the transport should not have thrown.
        public func run(_ transport: any WebSocketTransport, at baseURL: URL) async throws {
            try await check(transport, baseURL)
        }

        /// The name.
        public var description: String { name }
    }

    /// Every demand.
    public static let cases: [Case] = exchangeCases + endingCases + waitingCases

    /// A transport that keeps the script in memory; any base URL on loopback will do.
    public static func makeFake() -> ScriptedWebSocketTransport {
        ScriptedWebSocketTransport { opening(at: $0.url.path(), asking: $0.headerFields[.contractQuestion]) }
    }

    /// Starts a real server on loopback that plays the script; stop it when done.
    public static func startServer() throws -> ScriptedWebSocketServer {
        try ScriptedWebSocketServer.start { request in
            opening(at: request.target, asking: request.header("x-question")).onTheWire(request)
        } reply: { message, number in
            reply(to: message, number).compactMap(\.onTheWire)
        }
    }

    /// Where `server` is reached.
    public static func baseURL(of server: ScriptedWebSocketServer) throws -> URL {
        guard let url = URL(string: "ws://127.0.0.1:\(server.port)") else {
            throw ContractViolation("The server's port \(server.port) makes no URL.")
        }
        return url
    }

    // MARK: For the cases

    static func open(
        _ path: String, _ transport: any WebSocketTransport, _ baseURL: URL
    ) async throws -> any WebSocketConnection {
        switch try await transport.open(baseURL.appending(path: path), headerFields: [:]) {
        case .opened(let connection, _): return connection
        case .refused(let response): throw ContractViolation("It was refused with status \(response.status.code).")
        }
    }

    /// As many messages as that, however many arrivals they take.
    static func messages(
        _ count: Int, from connection: any WebSocketConnection
    ) async throws -> [WebSocketMessage] {
        var messages: [WebSocketMessage] = []
        while messages.count < count {
            switch try await connection.receive(within: .seconds(20)) {
            case .messages(let more):
                try require(!more.isEmpty, "It delivered an arrival without a message.")
                messages += more
            case .closed(let closure):
                throw ContractViolation("It closed with \(closure) before the messages had come.")
            }
        }
        return messages
    }
}

extension HTTPField.Name {
    static var contractQuestion: HTTPField.Name { .init("x-question")! }
    static var contractAnswer: HTTPField.Name { .init("x-answer")! }
}

// MARK: Cases

extension WebSocketTransportContract {
    static let exchangeCases: [Case] = [
        Case(name: "header fields go there, and those of the answer come back") { transport, baseURL in
            let opening = try await transport.open(
                baseURL.appending(path: "echo"), headerFields: [.contractQuestion: "how many"])
            guard case .opened(_, let fields) = opening else { throw ContractViolation("It was refused.") }
            try require(
                fields[.contractAnswer] == "how many", "The answer's fields are \(fields), not those of the server.")
        },
        Case(name: "messages of both kinds go there and come back as they were") { transport, baseURL in
            let connection = try await open("echo", transport, baseURL)
            let sent: [WebSocketMessage] = [
                .text("hello"), .binary([0, 255, 10]), .text(""), .text("größer ✓ 𝄞"), .binary([]),
                .binary([UInt8](repeating: 3, count: 100_000)),
            ]
            for message in sent { try await connection.send(message) }
            let received = try await messages(sent.count, from: connection)
            try require(received == sent, "What came back is not what was sent.")
        },
        Case(name: "messages come in their order, and none twice") { transport, baseURL in
            let connection = try await open("greeting", transport, baseURL)
            let first = try await messages(3, from: connection)
            try require(
                first == [.text("one"), .text("two"), .text("three")], "The greeting arrived as \(first).")
            try await connection.send(.text("four"))
            let next = try await messages(1, from: connection)
            try require(next == [.text("four")], "After the greeting came \(next).")
        },
        Case(name: "an answer other than 101 is a refusal with fields and body") { transport, baseURL in
            let url = baseURL.appending(path: "refused")
            guard case .refused(let response) = try await transport.open(url, headerFields: [:]) else {
                throw ContractViolation("A status of 403 opened a connection.")
            }
            try require(response.status == .forbidden, "The status is \(response.status), not 403.")
            try require(response.headerFields[.contractAnswer] == "no", "Its fields are gone.")
            let body = try await response.body.collect(upTo: 1000)
            try require(body == Array("not you".utf8), "Its body is gone.")
        },
        Case(name: "a redirect is a refusal") { transport, baseURL in
            let url = baseURL.appending(path: "moved")
            guard case .refused(let response) = try await transport.open(url, headerFields: [:]) else {
                throw ContractViolation("A redirect opened a connection.")
            }
            try require(
                response.status == .temporaryRedirect, "The status is \(response.status), not 307.")
        },
        Case(name: "http is as good as ws") { transport, baseURL in
            guard let url = URL(string: baseURL.absoluteString.replacing("ws://", with: "http://") + "/echo") else {
                throw ContractViolation("'\(baseURL)' has no sibling.")
            }
            guard case .opened = try await transport.open(url, headerFields: [:]) else {
                throw ContractViolation("It was refused.")
            }
        },
        Case(name: "plain ws goes to this machine only") { transport, _ in
            for address in ["ws://chappie.invalid/", "http://192.0.2.1/", "ws://localhost.chappie.invalid/"] {
                guard let url = URL(string: address) else { throw ContractViolation("'\(address)' is no URL.") }
                try await HTTPTransportContract.expect(.insecureURL, at: .configuration) {
                    _ = try await transport.open(url, headerFields: [:])
                }
            }
        },
        Case(name: "an address that no WebSocket has is refused") { transport, _ in
            for address in ["ftp://127.0.0.1/", "file:///etc/hostname", "/just/a/path"] {
                guard let url = URL(string: address) else { throw ContractViolation("'\(address)' is no URL.") }
                try await HTTPTransportContract.expect(.invalidURL, at: .configuration) {
                    _ = try await transport.open(url, headerFields: [:])
                }
            }
        },
    ]
}

extension WebSocketTransportContract {
    static let endingCases: [Case] = [
        Case(name: "a cut before the answer is a lost connection") { transport, baseURL in
            try await HTTPTransportContract.expect(.connectionLost, at: .responseHead) {
                _ = try await open("cut-before-answer", transport, baseURL)
            }
        },
        Case(name: "what came before a close arrives, then the close, again and again") { transport, baseURL in
            let connection = try await open("goodbye", transport, baseURL)
            let words = try await messages(1, from: connection)
            try require(words == [.text("last words")], "Before the close came \(words).")
            for _ in 0..<3 {
                let arrival = try await connection.receive(within: .seconds(20))
                let expected = WebSocketInbound.closed(WebSocketCloseReason(code: 1001, reason: "bye"))
                try require(arrival == expected, "The close arrived as \(arrival).")
            }
            try require(!connection.isOpen, "It still calls itself open.")
        },
        Case(name: "what came before a cut arrives, then the loss, again and again") { transport, baseURL in
            let connection = try await open("cut", transport, baseURL)
            let words = try await messages(1, from: connection)
            try require(words == [.text("last words")], "Before the cut came \(words).")
            for _ in 0..<3 {
                try await HTTPTransportContract.expect(.connectionLost, at: .message) {
                    _ = try await connection.receive(within: .seconds(20))
                }
            }
            try require(!connection.isOpen, "It still calls itself open.")
        },
        Case(name: "sending on a connection that has ended fails") { transport, baseURL in
            for path in ["cut", "goodbye"] {
                let connection = try await open(path, transport, baseURL)
                _ = try await messages(1, from: connection)
                while case .messages? = try? await connection.receive(within: .seconds(20)) {}
                try await expectFailure { try await connection.send(.text("is anybody there")) }
            }
        },
        Case(name: "closing ends it for both sides") { transport, baseURL in
            let connection = try await open("echo", transport, baseURL)
            await connection.close(.normal)
            try require(!connection.isOpen, "It still calls itself open.")
            try await expectFailure { try await connection.send(.text("is anybody there")) }
            let arrival = try await connection.receive(within: .seconds(20))
            try require(arrival == .closed(.normal), "Its own close arrived as \(arrival).")
            await connection.close(.goingAway)
        },
        Case(name: "what was sent before a close goes out") { transport, baseURL in
            let connection = try await open("echo", transport, baseURL)
            let sent = (0..<100).map { WebSocketMessage.text("message \($0)") }
            for message in sent { try await connection.send(message) }
            await connection.close(.normal)
            let received = try await messages(sent.count, from: connection)
            try require(received == sent, "Not everything came back.")
        },
        Case(name: "dropping it ends it at once, for a receiver too") { transport, baseURL in
            let connection = try await open("silence", transport, baseURL)
            let receiver = Task { _ = try await connection.receive(within: nil) }
            try await Task.sleep(for: .milliseconds(20))
            connection.cancel()
            connection.cancel()
            guard case .failure(let error) = await receiver.result, error is ChappieTransportError else {
                throw ContractViolation("The receiver of a dropped connection was not told by an error of the port.")
            }
            try require(!connection.isOpen, "It still calls itself open.")
            try await expectFailure { try await connection.send(.text("is anybody there")) }
            await connection.close(.normal)
        },
    ]

    private static func expectFailure(_ operation: () async throws -> Void) async throws {
        do {
            try await operation()
        } catch is ChappieTransportError {
            return
        }
        throw ContractViolation("It succeeded where it had to fail.")
    }
}

extension WebSocketTransportContract {
    static let waitingCases: [Case] = [
        Case(name: "a receiver's deadline ends the wait and nothing else") { transport, baseURL in
            let connection = try await open("echo", transport, baseURL)
            for deadline in [Duration.zero, .milliseconds(50)] {
                let (_, time) = try await HTTPTransportContract.timed {
                    try await HTTPTransportContract.expect(.timedOut, at: .message) {
                        _ = try await connection.receive(within: deadline)
                    }
                }
                try require(
                    time >= deadline - .milliseconds(1) && time < .seconds(5),
                    "A deadline of \(deadline) came after \(time).")
            }
            try require(connection.isOpen, "A missed deadline closed the connection.")
            try await connection.send(.text("still there"))
            let received = try await messages(1, from: connection)
            try require(received == [.text("still there")], "It brought \(received).")
        },
        Case(name: "a deadline of zero gives what has arrived") { transport, baseURL in
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
        Case(name: "cancelling a receiver takes under 100 ms and leaves the connection usable") { transport, baseURL in
            let connection = try await open("echo", transport, baseURL)
            try await expectQuickCancellation("receiving") { _ = try await connection.receive(within: .seconds(20)) }
            try require(connection.isOpen, "A cancelled receiver closed the connection.")
            try await connection.send(.text("still there"))
            let received = try await messages(1, from: connection)
            try require(received == [.text("still there")], "It brought \(received).")
        },
        Case(name: "cancelling an opening takes under 100 ms") { transport, baseURL in
            try await expectQuickCancellation("opening") { _ = try await open("no-answer", transport, baseURL) }
        },
        Case(name: "a cancelled task opens nothing") { transport, baseURL in
            let task = Task {
                while !Task.isCancelled { await Task.yield() }
                _ = try await open("echo", transport, baseURL)
            }
            task.cancel()
            guard case .failure(let error) = await task.result, error is CancellationError else {
                throw ContractViolation("It opened a connection for a task that had been cancelled.")
            }
        },
    ]

    /// The port promises 100 ms. A machine that is busy with something else may miss that once, not three times.
    private static func expectQuickCancellation(
        _ stage: String, of operation: @escaping @Sendable () async throws -> Void
    ) async throws {
        var times: [Duration] = []
        for _ in 0..<3 {
            let task = Task { try await operation() }
            try await Task.sleep(for: .milliseconds(50))
            task.cancel()
            let (result, time) = await HTTPTransportContract.timed { await task.result }
            guard case .failure(let error) = result, error is CancellationError else {
                throw ContractViolation("Cancelling while \(stage) ended in \(result), not in CancellationError.")
            }
            if time < .milliseconds(100) { return }
            times.append(time)
        }
        throw ContractViolation("Cancelling while \(stage) took \(times).")
    }
}

// MARK: The script

extension WebSocketTransportContract {
    /// The script: a path's answer, the same from a fake and from a server.
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
        case "/moved": .refused(.response(status: .temporaryRedirect, headerFields: [.location: "/echo"]))
        default: .refused(.response(status: .badRequest, body: "the contract has no such path"))
        }
    }

    /// Everything comes back.
    static func reply(to message: WebSocketMessage, _ number: Int) -> [ScriptedWebSocketStep] { [.deliver([message])] }
}

extension ScriptedWebSocketOpening {
    /// The same over a real socket. A gate is for the fake alone.
    func onTheWire(_ request: ReceivedRequest) -> ScriptedWebSocketServer.Answer {
        switch answer {
        case .opened(let fields, let greeting, _):
            .upgrade(
                request, headers: fields.map { ($0.name.rawName, $0.value) }, then: greeting.compactMap(\.onTheWire))
        case .refused(let answer):
            switch answer.beforeHead.first {
            case nil:
                .init(
                    .response(
                        status: answer.status.code, headers: answer.headerFields.map { ($0.name.rawName, $0.value) },
                        body: answer.body.flatMap(\.bytes)))
            case .stall: .init(steps: [.stall])
            default: .init(steps: [.finish])
            }
        case .failed: .init(steps: [.finish])
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
        case .wait: nil
        }
    }
}

extension ScriptedHTTPAnswer.Step {
    fileprivate var bytes: [UInt8] {
        if case .chunk(let bytes) = self { bytes } else { [] }
    }
}
