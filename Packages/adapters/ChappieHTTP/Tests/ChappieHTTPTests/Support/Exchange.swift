import ChappieCore
import ChappieHTTP
import ChappieSimulatorServer
import ChappieURLSession
import FoundationEssentials
import HTTPTypes
import TestFixtures
import Testing

/// Everything that measures time or counts threads: one after the other, so that none stands in another's way.
@Suite(.serialized, .byItself) enum OverTheWire {}

/// The two adapters of the port. Both keep its rules, and end in the same ways.
enum Adapter: String, CaseIterable, CustomTestStringConvertible {
    case curl
    /// Here it runs over FoundationNetworking; CONTRIBUTING.md says what that lacks.
    case urlSession

    var testDescription: String { rawValue }

    /// A transport that the environment of the machine has no say in.
    func makeTransport(deadlines: ChappieDeadlines = .ample) -> any HTTPTransport {
        let policy = ChappieNetworkPolicy(proxy: .none, deadlines: deadlines)
        return switch self {
        case .curl: CurlHTTPTransport(policy: policy)
        case .urlSession: URLSessionHTTPTransport(policy: policy)
        }
    }
}

/// A transport that the environment of the machine has no say in.
func makeTransport(deadlines: ChappieDeadlines = .ample) -> CurlHTTPTransport {
    CurlHTTPTransport(policy: ChappieNetworkPolicy(proxy: .none, deadlines: deadlines))
}

func makeURL(_ text: String) throws -> URL { try #require(URL(string: text)) }

extension ScriptedServer {
    func url(_ path: String = "/") throws -> URL { try makeURL("http://127.0.0.1:\(port)\(path)") }
}

extension ChappieDeadlines {
    /// Out of the picture, unless something hangs.
    static let ample = ChappieDeadlines(
        connect: .seconds(20), responseHead: .seconds(20), firstByte: .seconds(20), idle: .seconds(20))
}

extension HTTPTransport {
    /// Status and whole body.
    func fetch(_ request: HTTPExchangeRequest) async throws -> (status: Int, body: [UInt8]) {
        let response = try await send(request)
        return (response.status.code, try await response.body.collect(upTo: 256 << 20))
    }

    func fetch(_ url: URL) async throws -> (status: Int, body: [UInt8]) {
        try await fetch(HTTPExchangeRequest(url: url))
    }
}

/// The error that `operation` must end in.
func transportError(
    sourceLocation: SourceLocation = #_sourceLocation, _ operation: () async throws -> Void
) async throws -> ChappieTransportError {
    do { try await operation() } catch let error as ChappieTransportError { return error }
    return try #require(nil as ChappieTransportError?, "it succeeded", sourceLocation: sourceLocation)
}

/// The name of the event loop's thread.
let loopThreadName = "chappie-net"

/// How many event loops run in this process.
func loopThreadCount() throws -> Int { try ProcessThreads.names().count { $0 == loopThreadName } }
