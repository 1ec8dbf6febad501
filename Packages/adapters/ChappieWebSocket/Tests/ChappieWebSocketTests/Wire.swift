import ChappieCore
import ChappieTesting
import ChappieWebSocket
import FoundationEssentials
import HTTPTypes
import TestFixtures
import Testing

/// Everything that measures time, counts threads or starts programs: one after the other, so that none disturbs
/// another.
@Suite(.serialized, .byItself) enum OverTheWire {}

/// A transport that the environment of the machine has no say in.
func makeTransport(
    deadlines: ChappieDeadlines = .ample, offersCompression: Bool = false
) -> CurlWebSocketTransport {
    CurlWebSocketTransport(
        policy: ChappieNetworkPolicy(proxy: .none, deadlines: deadlines), offersCompression: offersCompression)
}

func makeURL(_ text: String) throws -> URL { try #require(URL(string: text)) }

extension ScriptedWebSocketServer {
    func url(_ path: String = "/") throws -> URL { try makeURL("ws://127.0.0.1:\(port)\(path)") }

    /// A server that answers every request with these bytes only.
    static func stalling(after answer: String) throws -> ScriptedWebSocketServer {
        try start { _ in .init(steps: [.send(Array(answer.utf8)), .stall]) }
    }

    /// A server that reads nothing from its clients until the gate is open.
    static func reading(after gate: ScriptedGate) throws -> ScriptedWebSocketServer {
        try start { .upgrade($0, then: [.stopReading, .wait(until: gate), .startReading]) }
    }

    /// A server that sends every message back.
    static func echo() throws -> ScriptedWebSocketServer {
        try start(reply: { message, _ in [.send(WebSocketFrames.message(message))] })
    }
}

extension ChappieDeadlines {
    /// Out of the picture, unless something hangs.
    static let ample = ChappieDeadlines(connect: .seconds(20), upgrade: .seconds(20), liveness: .seconds(40))
}

extension CurlWebSocketTransport {
    /// A connection that must come about.
    func connection(_ url: URL) async throws -> any WebSocketConnection {
        guard case .opened(let connection, _) = try await open(url, headerFields: [:]) else {
            throw ContractViolation("The server refused.")
        }
        return connection
    }
}

extension WebSocketConnection {
    /// That many messages, however many arrivals they take.
    func messages(_ count: Int) async throws -> [WebSocketMessage] {
        var messages: [WebSocketMessage] = []
        while messages.count < count {
            guard case .messages(let more) = try await receive(within: .seconds(20)) else { break }
            messages += more
        }
        return messages
    }
}

/// The error that `operation` must end in.
func transportError(
    sourceLocation: SourceLocation = #_sourceLocation, _ operation: () async throws -> Void
) async throws -> ChappieTransportError {
    try await #require(throws: ChappieTransportError.self, sourceLocation: sourceLocation) { try await operation() }
}
