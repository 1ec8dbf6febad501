import ChappieCore
import ChappieTesting
import HTTPTypes
import Synchronization
import TestFixtures
import Testing

@testable import ChappieClient
@_spi(ChappieInternals) @testable import ChappieMCP

/// A server whose answers to calls are scripted. It has sessions, and one tool.
private final class SessionServer: HTTPTransport {
    typealias Answer = @Sendable (HTTPExchangeRequest, ChappieJSON) async throws -> HTTPExchangeResponse?

    let requests = Mutex<[HTTPExchangeRequest]>([])
    private let answer: Answer

    /// - Parameter answer: returns the answer to a request, or `nil` for the usual one.
    init(_ answer: @escaping Answer) { self.answer = answer }

    func send(_ request: HTTPExchangeRequest) async throws -> HTTPExchangeResponse {
        requests.withLock { $0.append(request) }
        let message = (try? ChappieJSON(parsing: request.body?.bytes ?? [])) ?? .null
        if let answer = try await answer(request, message) { return answer }
        guard let id = message["id"] else { return HTTPExchangeResponse(status: .accepted) }
        let result: ChappieJSON =
            switch message["method"]?.string {
            case "initialize": ["protocolVersion": "2025-11-25", "capabilities": ["tools": [:]]]
            case "tools/list":
                [
                    "tools": [
                        ["name": "a.b", "inputSchema": ["type": "object"]],
                        ["name": "slow", "inputSchema": ["type": "object"]],
                    ]
                ]
            default: ["content": [["type": "text", "text": message["params"]?["name"] ?? ""]]]
            }
        return Self.json(["jsonrpc": "2.0", "id": id, "result": result], .ok)
    }

    static func json(_ body: ChappieJSON, _ status: HTTPResponse.Status) -> HTTPExchangeResponse {
        HTTPExchangeResponse(
            status: status, headerFields: [.contentType: "application/json", HTTPField.Name("Mcp-Session-Id")!: "s"],
            body: HTTPBody(bytes: body.serializedBytes()))
    }

    static func stream(_ text: String) -> HTTPExchangeResponse {
        HTTPExchangeResponse(
            status: .ok, headerFields: [.contentType: "text/event-stream"], body: HTTPBody(bytes: Array(text.utf8)))
    }

    /// The methods of the requests, with `GET` and `DELETE` for those without a message.
    var methods: [String] {
        requests.withLock(\.self).map { request in
            let message = try? ChappieJSON(parsing: request.body?.bytes ?? [])
            return message?["method"]?.string ?? request.method.rawValue
        }
    }

    func server(_ fields: HTTPFields = [:]) throws -> ChappieMCPServer {
        ChappieMCPServer(
            url: try #require(URL(string: "https://tools.example/mcp")), headerFields: fields, transport: self,
            name: "far",
            startTimeout: Patience.limit, callTimeout: Patience.limit)
    }
}

/// Sessions that end, answers that continue, and messages without an answer.
struct HTTPSessionTests {
    private static let handshake = ["initialize", "notifications/initialized", "tools/list"]

    @Test(arguments: [400, 404, 410]) func `a call in a session that has ended is repeated once in a new one`(
        status: Int
    ) async throws {
        let calls = Mutex(0)
        let script = SessionServer { _, message in
            guard message["method"] == "tools/call" else { return nil }
            let count = calls.withLock { count in
                count += 1
                return count
            }
            let error: ChappieJSON = ["code": -32001, "message": "The session has ended."]
            return count == 1 || count > 2
                ? SessionServer.json(["jsonrpc": "2.0", "id": nil, "error": error], .init(code: status)) : nil
        }
        let server = try script.server()
        #expect(try await server.call("a_b") == "a.b")
        #expect(script.methods == Self.handshake + ["tools/call"] + Self.handshake + ["tools/call"])
        // A server that refuses it in the new session as well is a sentence.
        let error = await #expect(throws: ChappieMCPError.self) { try await server.call("a_b") }
        #expect(error?.reason == "its session has ended: The session has ended", "\(error.debugDescription)")
        #expect(calls.withLock(\.self) == 4)
        await server.closed()
    }

    @Test func `a call whose connection broke is not repeated`() async throws {
        let script = SessionServer { _, message in
            guard message["method"] == "tools/call" else { return nil }
            throw ChappieTransportError(
                .connectionLost, stage: .responseHead, host: "tools.example", reason: "it broke")
        }
        let server = try script.server()
        await #expect(throws: ChappieMCPError.self) { try await server.call("a_b") }
        #expect(script.methods.filter { $0 == "tools/call" }.count == 1)
        await server.closed()
    }

    @Test func `an answer that ends after an event id is continued from there`() async throws {
        let call = Mutex<ChappieJSON>(.null)
        let script = SessionServer { request, message in
            if request.method == .get {
                let id = call.withLock { $0["id"] ?? .null }
                guard request.headerFields[HTTPField.Name("Last-Event-ID")!] == "one" else { return nil }
                let answer: ChappieJSON = ["jsonrpc": "2.0", "id": id, "result": ["content": "Hello"]]
                return SessionServer.stream("id: two\ndata: \(answer.serialized())\n\n")
            }
            guard message["method"] == "tools/call" else { return nil }
            call.withLock { $0 = message }
            // The id of an event that is not complete does not count.
            return SessionServer.stream("id: one\nretry: 1\ndata: \n\nid: three\n")
        }
        let server = try script.server()
        #expect(try await server.call("a_b") == "Hello")
        #expect(script.methods == Self.handshake + ["tools/call", "GET"])
        await server.closed()
    }

    @Test(arguments: [("0", "a.b"), ("6", nil), (nil, nil)] as [(String?, String?)])
    func `a busy server is asked again if it names a short pause`(pause: String?, answer: String?) async throws {
        let isBusy = Mutex(true)
        let script = SessionServer { _, message in
            guard message["method"] == "tools/call", isBusy.withLock(\.self) else { return nil }
            isBusy.withLock { $0 = false }
            var response = HTTPExchangeResponse(status: .serviceUnavailable)
            response.headerFields[.retryAfter] = pause
            return response
        }
        let server = try script.server()
        let output = try? await server.call("a_b").output
        #expect(output == answer)
        #expect(script.methods.filter { $0 == "tools/call" }.count == (answer == nil ? 1 : 2))
        await server.closed()
    }

    @Test func `a notification that is never answered delays no call`() async throws {
        let began = ScriptedGate()
        let never = ScriptedGate()
        let script = SessionServer { _, message in
            if message["params"]?["name"] == "slow" { began.open() }
            if message["params"]?["name"] == "slow" || message["method"] == "notifications/cancelled" {
                try await never.pass()
            }
            return nil
        }
        let server = try script.server()
        let slow = Task { try await server.call("slow") }
        try await began.pass()
        slow.cancel()
        await #expect(throws: CancellationError.self) { try await slow.value }
        #expect(try await server.call("a_b") == "a.b")
        never.open()
        await server.closed()
    }

    @Test func `a refused notification does not end the session`() async throws {
        let script = SessionServer { _, message in
            message["id"] == nil && message["method"] != nil ? HTTPExchangeResponse(status: .notFound) : nil
        }
        let server = try script.server()
        #expect(try await server.call("a_b") == "a.b")
        await server.closed()
    }

    @Test func `requests with a secret follow no redirect, and others do`() async throws {
        for fields in [[.authorization: "Bearer secret"], [:]] as [HTTPFields] {
            let script = SessionServer { _, _ in nil }
            let server = try script.server(fields)
            _ = try await server.tools()
            #expect(script.requests.withLock(\.self).allSatisfy { $0.followsRedirects == fields.isEmpty })
            await server.closed()
        }
    }
}
