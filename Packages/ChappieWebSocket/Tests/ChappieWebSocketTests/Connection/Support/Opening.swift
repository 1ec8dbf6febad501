import ChappieCore
import ChappieTesting
import ChappieWebSocket
import FoundationEssentials
import HTTPTypes
import Testing

/// A transport that the environment of the machine has no say in.
func makeTransport(
    proxy: ChappieNetworkPolicy.Proxy = .none, extraCAFile: String? = nil, deadlines: ChappieDeadlines = .ample,
    limits: WebSocketLimits = .default, compression: WebSocketCompression = .permessageDeflate
) -> CurlWebSocketTransport {
    CurlWebSocketTransport(
        policy: ChappieNetworkPolicy(proxy: proxy, extraCAFile: extraCAFile, deadlines: deadlines), limits: limits,
        compression: compression)
}

func makeURL(_ text: String) throws -> URL { try #require(URL(string: text)) }

extension ScriptedWebSocketServer {
    func url(_ path: String = "/") throws -> URL { try makeURL("ws://127.0.0.1:\(port)\(path)") }
}

extension ChappieDeadlines {
    /// Out of the picture, unless something hangs.
    static let ample = ChappieDeadlines(
        connect: .seconds(20), firstByte: .seconds(20), idle: .seconds(20), upgrade: .seconds(20),
        liveness: .seconds(40))
}

extension CurlWebSocketTransport {
    /// A connection that must come about.
    func connection(
        _ url: URL, headerFields: HTTPFields = [:], sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> any WebSocketConnection {
        guard case .opened(let connection, _) = try await open(url, headerFields: headerFields) else {
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
    var caught: ChappieTransportError?
    do {
        try await operation()
    } catch let error as ChappieTransportError {
        caught = error
    }
    return try #require(caught, "it succeeded", sourceLocation: sourceLocation)
}
