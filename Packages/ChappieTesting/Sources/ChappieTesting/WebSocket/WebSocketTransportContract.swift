public import ChappieCore
import ChappieSimulator
public import FoundationEssentials
import HTTPTypes

/// What every ``WebSocketTransport`` does, as a list of cases that any testing framework can run.
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
/// What goes over the wire (frames, compression, pings, TLS, proxies) has no counterpart in a fake and is for the tests
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

        public var description: String { name }
    }

    /// The cases, in the order in which they run.
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
                try ContractViolation.require(!more.isEmpty, "It delivered an arrival without a message.")
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
