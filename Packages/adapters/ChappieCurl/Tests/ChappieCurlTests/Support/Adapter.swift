import ChappieCore
import ChappieHTTP
import ChappieSimulatorServer
import ChappieTesting
import ChappieURLSession
import ChappieWebSocket
import FoundationEssentials
import HTTPTypes
import TestFixtures
import Testing

/// The adapters. All must report the same failure of the network in the same way.
enum Adapter: String, CaseIterable, CustomTestStringConvertible {
    case http, webSocket
    /// Foundation's, which runs over FoundationNetworking here. That can neither be given a proxy nor trust another
    /// authority, and doesn't tell a handshake from a connection.
    case urlSession

    static let overCurl = [Adapter.http, .webSocket]

    var testDescription: String { rawValue }

    func url(_ host: String = "127.0.0.1", port: Int, isSecure: Bool = true, path: String = "/") throws -> URL {
        let scheme = (self == .webSocket ? "ws" : "http") + (isSecure ? "s" : "")
        return try #require(URL(string: "\(scheme)://\(host):\(port)\(path)"))
    }

    /// One whole exchange: a request and its answer, or a message and its echo.
    ///
    /// - Returns: the body; the message.
    func exchange(with url: URL, under policy: ChappieNetworkPolicy) async throws -> String {
        switch self {
        case .http:
            let response = try await CurlHTTPTransport(policy: policy).send(HTTPExchangeRequest(url: url))
            return String(decoding: try await response.body.collect(upTo: 1 << 20), as: UTF8.self)
        case .urlSession:
            // Of a request without a body URLSession doesn't say when it is connected.
            let request = HTTPExchangeRequest(method: .post, url: url, body: .init(bytes: Array("hello".utf8)))
            let response = try await URLSessionHTTPTransport(policy: policy).send(request)
            return String(decoding: try await response.body.collect(upTo: 1 << 20), as: UTF8.self)
        case .webSocket:
            let transport = CurlWebSocketTransport(policy: policy)
            guard case .opened(let connection, _) = try await transport.open(url, headerFields: [:]) else {
                throw ContractViolation("The server refused.")
            }
            try await connection.send(.text("hello"))
            guard case .messages(let messages) = try await connection.receive(within: .seconds(20)),
                case .text(let text)? = messages.first
            else { throw ContractViolation("No message came back.") }
            return text
        }
    }
}

extension ChappieNetworkPolicy {
    /// A policy that the environment of the machine has no say in.
    static func test(
        proxy: Proxy = .none, extraCAFile: String? = nil, deadlines: ChappieDeadlines = .ample
    ) -> ChappieNetworkPolicy {
        ChappieNetworkPolicy(proxy: proxy, extraCAFile: extraCAFile, deadlines: deadlines)
    }
}

extension ChappieDeadlines {
    /// Out of the picture, unless something hangs.
    static let ample = ChappieDeadlines(
        connect: .seconds(20), responseHead: .seconds(20), firstByte: .seconds(20), idle: .seconds(20),
        upgrade: .seconds(20), liveness: .seconds(40))
}

/// The error that `operation` must end in.
func transportError(
    sourceLocation: SourceLocation = #_sourceLocation, _ operation: () async throws -> Void
) async throws -> ChappieTransportError {
    do { try await operation() } catch let error as ChappieTransportError { return error }
    return try #require(nil as ChappieTransportError?, "it succeeded", sourceLocation: sourceLocation)
}

/// Everything that measures time or starts programs: one after the other, so that no test disturbs another.
@Suite(.serialized, .byItself) enum OverTheWire {}
