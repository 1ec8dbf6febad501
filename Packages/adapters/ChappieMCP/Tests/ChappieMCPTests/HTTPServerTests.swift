import ChappieCore
import ChappieCurl
import ChappieHTTP
import FoundationEssentials
import HTTPTypes
import Synchronization
import TestFixtures
import Testing

@testable import ChappieClient
@_spi(ChappieInternals) @testable import ChappieMCP

/// Refuses the handshake, as a server without one does, and passes everything else on.
private struct Stateless: HTTPTransport {
    let transport: any HTTPTransport

    func send(_ request: HTTPExchangeRequest) async throws -> HTTPExchangeResponse {
        let message = try? ChappieJSON(parsing: request.body?.bytes ?? [])
        guard message?["method"] == "initialize" else { return try await transport.send(request) }
        let error: ChappieJSON = ["jsonrpc": "2.0", "id": 1, "error": ["code": -32601, "message": "no"]]
        return HTTPExchangeResponse(
            status: .badRequest, headerFields: [.contentType: "application/json"],
            body: HTTPBody(bytes: Array(error.serialized().utf8)))
    }
}

/// Against a server that the official Python package makes, over HTTP.
@Suite(
    .enabled(if: SystemProgram.pythonWithMCP.isUsable, Comment(rawValue: SystemProgram.pythonWithMCP.absence)),
    .serialized)  // Each starts an interpreter, which takes a busy machine seconds.
struct PythonHTTPServerTests {
    private let folder: TemporaryDirectory

    init() throws { folder = try TemporaryDirectory() }

    private func server(
        _ url: URL, _ counterpart: PackagedServer, _ fields: HTTPFields = [:], within limit: Duration = Patience.limit
    ) -> ChappieMCPServer {
        let curl = CurlHTTPTransport(network: CurlNetwork(policy: .default))
        var limits = MCPSession.Limits()
        limits.unasked = 4 << 20
        return ChappieMCPServer(
            start: .http(
                MCPEndpoint(
                    url: url, headerFields: fields,
                    transport: counterpart == .stateless ? Stateless(transport: curl) : curl,
                    callTimeout: .seconds(300))),
            name: "fixture", startTimeout: limit, limits: limits)
    }

    @Test(arguments: PackagedServer.allCases)
    func toolsAreListedCalledChangedAndCancelled(of counterpart: PackagedServer) async throws {
        let (process, url) = try await counterpart.start(folder)
        let server = server(url, counterpart)
        let before = try await server.tools().map(\.name)
        #expect(before == PackagedServer.tools + ["list_resources", "read_resource"])
        #expect(try await server.call("add", ["first": 2, "second": 40]) == "42")
        let failed = try await server.call("fail", ["words": "no luck"])
        #expect(failed.isError && failed.output.contains("no luck"), "\(failed)")
        async let first = server.call("add", ["first": 1, "second": 1])
        async let second = server.call("add", ["first": 2, "second": 2])
        #expect(try await [first.output, second.output] == ["2", "4"])
        #expect(try await server.call("grow", ["name": "sprout"]) == "done")
        #expect(Set(try await server.tools().map(\.name)) == Set(before + ["sprout"]))

        let task = Task { try await server.call("wait", ["name": "w"]) }
        #expect(try await eventually { FileManager.default.fileExists(atPath: folder.path("w.began")) })
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(try await eventually { FileManager.default.fileExists(atPath: folder.path("w.cancelled")) })
        #expect(try await server.call("sprout") == "grown")
        await server.closed()
        withExtendedLifetime(process) {}
    }

    @Test(arguments: PackagedServer.allCases)
    func aServerThatDiesInACallIsASentence(of counterpart: PackagedServer) async throws {
        let (process, url) = try await counterpart.start(folder)
        let server = server(url, counterpart)
        let error = await #expect(throws: ChappieMCPError.self) { try await server.call("die") }
        #expect(error?.code == .ended, "\(error.debugDescription)")
        let gone = await #expect(throws: ChappieMCPError.self) { try await server.tools() }
        #expect(gone?.reason.hasPrefix("it can't be reached") == true, "\(gone.debugDescription)")
        await server.closed()
        withExtendedLifetime(process) {}
    }
}

/// The package behind a proxy that spoils some of its answers, and the package that asks for a token.
extension PythonHTTPServerTests {
    @Test(arguments: PackagedServer.allCases)
    func resourcesAndPromptsAreListedAndRead(of counterpart: PackagedServer) async throws {
        let (process, url) = try await counterpart.start(folder)
        let server = server(url, counterpart)
        try await expectResourcesAndPrompts(of: server)
        await server.closed()
        withExtendedLifetime(process) {}
    }

    @Test(arguments: PackagedServer.allCases)
    func aTokenThatTheServerWantsIsSaidAndTaken(of counterpart: PackagedServer) async throws {
        let (process, url) = try await counterpart.start(folder, wantsToken: true)
        let refused = server(url, counterpart)
        let error = await #expect(throws: ChappieMCPError.self) { try await refused.tools() }
        #expect(
            error?.reason == "it requires you to sign in (HTTP 401): Authentication required",
            "\(error.debugDescription)")
        await refused.closed()
        let server = server(url, counterpart, [.authorization: "Bearer good"])
        #expect(try await server.call("add", ["first": 2, "second": 40]) == "42")
        await server.closed()
        withExtendedLifetime(process) {}
    }

    @Test(arguments: PackagedServer.allCases)
    func anAnswerThatIsSpoiledIsASentence(of counterpart: PackagedServer) async throws {
        let (process, url) = try await counterpart.start(folder)
        let faults: [(name: String, code: ChappieMCPError.Code, words: String)] = [
            ("mistyped", .protocolViolation, "its answer is not the protocol, but text/html"),
            ("cut", .ended, "its answer broke off"),
        ]
        for fault in faults {
            try folder.write(fault.name, to: "fault")
            let server = server(url, counterpart)
            let error = await #expect(throws: ChappieMCPError.self) { try await server.tools() }
            #expect(
                error?.code == fault.code && error?.reason.hasPrefix(fault.words) == true, "\(error.debugDescription)")
            await server.closed()
        }
        // A call fails alone, and is not made again.
        try FileManager.default.removeItem(atPath: folder.path("fault"))
        let server = server(url, counterpart)
        let add = try await server.tool("add")
        let call = ChappieToolCall(name: "add", callID: "c", arguments: #"{"first":2,"second":40}"#)
        for fault in faults {
            try folder.write(fault.name, to: "fault")
            let error = await #expect(throws: ChappieMCPError.self) { try await add.handler(call) }
            #expect(
                error?.code == fault.code && error?.reason.hasPrefix(fault.words) == true, "\(error.debugDescription)")
            try FileManager.default.removeItem(atPath: folder.path("fault"))
            #expect(try await add.handler(call) == "42")
        }
        await server.closed()
        withExtendedLifetime(process) {}
    }

    @Test(arguments: PackagedServer.allCases)
    func aSlowStartOutlivesATurnThatIsCancelled(of counterpart: PackagedServer) async throws {
        let (process, url) = try await counterpart.start(folder)
        try folder.write("slow", to: "fault")
        let late = server(url, counterpart, within: .milliseconds(200))
        let error = await #expect(throws: ChappieMCPError.self) { try await late.tools() }
        #expect(error?.code == .timedOut, "\(error.debugDescription)")
        await late.closed()
        let slow = server(url, counterpart)
        let first = Task { try await slow.tools() }
        #expect(try await eventually { FileManager.default.fileExists(atPath: folder.path("asked")) })
        first.cancel()
        await #expect(throws: CancellationError.self) { try await first.value }
        async let second = slow.tools()
        try folder.write("", to: "gate")
        #expect(try await second.isEmpty == false)
        await slow.closed()
        withExtendedLifetime(process) {}
    }

    // Without a handshake the package sends nothing that was not asked for; BadHTTPServerTests has a script that does.
    @Test(arguments: PackagedServer.withHandshake)
    func aFloodEndsTheServer(of counterpart: PackagedServer) async throws {
        let (process, url) = try await counterpart.start(folder)
        let server = server(url, counterpart)
        let error = await #expect(throws: ChappieMCPError.self) { try await server.call("flood") }
        #expect(
            error?.code == .protocolViolation && error?.reason.contains("4 MiB without a request") == true,
            "\(error.debugDescription)")
        await server.closed()
        withExtendedLifetime(process) {}
    }
}

/// A server that answers each request as it was told to, in turn; afterwards with nothing.
private final class ScriptedServer: HTTPTransport {
    private let answers: Mutex<[HTTPExchangeResponse]>
    let requests = Mutex<[HTTPExchangeRequest]>([])

    init(_ answers: [HTTPExchangeResponse]) { self.answers = Mutex(answers) }

    func send(_ request: HTTPExchangeRequest) async throws -> HTTPExchangeResponse {
        requests.withLock { $0.append(request) }
        let answer = answers.withLock { $0.isEmpty ? nil : $0.removeFirst() }
        return answer ?? HTTPExchangeResponse(status: .accepted)
    }
}

/// Servers that misbehave over HTTP.
struct BadHTTPServerTests {
    private static func json(
        _ text: String, _ status: HTTPResponse.Status = .ok, _ fields: HTTPFields = [:]
    ) -> HTTPExchangeResponse {
        var fields = fields
        fields[.contentType] = "application/json; charset=utf-8"
        return HTTPExchangeResponse(status: status, headerFields: fields, body: HTTPBody(bytes: Array(text.utf8)))
    }

    private static func stream(_ text: String) -> HTTPExchangeResponse {
        HTTPExchangeResponse(
            status: .ok, headerFields: [.contentType: "text/event-stream"], body: HTTPBody(bytes: Array(text.utf8)))
    }

    private static let welcome =
        #"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}}"#
    private static let refusal = #"{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"no"}}"#
    private static let found =
        #"{"jsonrpc":"2.0","id":2,"result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}}"#
    private static let flood = String(
        repeating: #"data: {"jsonrpc":"2.0","method":"x","params":"\#(String(repeating: "x", count: 50_000))"}"#
            + "\n\n",
        count: 30)
    private static let accepted = HTTPExchangeResponse(status: .accepted)
    private static let session = HTTPField.Name("Mcp-Session-Id").map { [$0: "s-1"] as HTTPFields } ?? [:]

    private func server(_ script: ScriptedServer) throws -> ChappieMCPServer {
        var limits = MCPSession.Limits()
        limits.line = 100_000
        limits.unasked = 1 << 20
        let url = try #require(URL(string: "https://tools.example/mcp"))
        return ChappieMCPServer(
            start: .http(
                MCPEndpoint(
                    url: url, headerFields: [.authorization: "Bearer secret"], transport: script,
                    callTimeout: .seconds(300))),
            name: "far", startTimeout: Patience.limit, limits: limits)
    }

    @Test(
        arguments: [
            ([HTTPExchangeResponse(status: .unauthorized)], .refused, "it requires you to sign in (HTTP 401)"),
            ([HTTPExchangeResponse(status: .forbidden)], .refused, "it requires you to sign in (HTTP 403)"),
            ([HTTPExchangeResponse(status: .internalServerError)], .refused, "it answers with status 500"),
            (
                [
                    HTTPExchangeResponse(
                        status: .ok, headerFields: [.contentType: "text/html"], body: HTTPBody(bytes: [0x3C]))
                ], .protocolViolation, "its answer is not the protocol, but text/html"
            ), ([accepted], .protocolViolation, "its answer has no Content-Type (HTTP 202)"),
            ([json("nonsense")], .protocolViolation, "its answer is not JSON, but: nonsense"),
            ([json(#"{"jsonrpc":"2.0","id":9,"result":{}}"#)], .ended, "its answer broke off"),
            ([stream("data: {\"jsonrpc\"")], .ended, "its answer broke off"),
            ([stream("")], .ended, "its answer broke off"),
            ([json(String(repeating: " ", count: 100_001))], .protocolViolation, "of more than 100000 bytes"),
            (
                [stream("data: " + String(repeating: "x", count: 100_100) + "\n\n")], .protocolViolation,
                "of more than 100000 bytes"
            ),
            (
                [
                    json(welcome, .ok, session), accepted, HTTPExchangeResponse(status: .notFound),
                    json(welcome, .ok, session), accepted, json(#"{"message":"gone"}"#, .gone),
                ], .sessionEnded, "its session has ended: gone"
            ),
            ([HTTPExchangeResponse(status: .notFound)], .refused, "check the path of its address"),
            ([HTTPExchangeResponse(status: .methodNotAllowed)], .refused, "the older transport HTTP+SSE"),
            (
                [json(#"{"error":"insufficient_scope","error_description":"files:write is missing."}"#, .forbidden)],
                .refused, "it answers with status 403: files:write is missing"
            ),
            (
                [HTTPExchangeResponse(status: .temporaryRedirect, headerFields: [.location: "/elsewhere"])], .refused,
                "it redirects to /elsewhere, which does not get the token"
            ),
            ([json(welcome), accepted, stream(": nothing\n\n")], .ended, "its answer broke off"),
            (
                [json(refusal, .badRequest), json(found), stream(flood)], .protocolViolation,
                "it sent 1 MiB without a request"
            ),
            (
                [json(refusal, .badRequest), json(found), json(String(repeating: " ", count: 100_001))],
                .protocolViolation,
                "of more than 100000 bytes"
            ),
            (
                [json(refusal, .badRequest), HTTPExchangeResponse(status: .unauthorized)], .refused,
                "it requires you to sign in (HTTP 401)"
            ),
        ] as [([HTTPExchangeResponse], ChappieMCPError.Code, String)])
    func saysWhyItCantBeUsed(
        answers: [HTTPExchangeResponse], code: ChappieMCPError.Code, words: String
    ) async throws {
        let server = try server(ScriptedServer(answers))
        let error = await #expect(throws: ChappieMCPError.self) { try await server.tools() }
        #expect(error?.code == code && error?.reason.contains(words) == true, "\(error.debugDescription)")
        #expect(error?.errorDescription?.contains("secret") == false)
        await server.closed()
    }

    @Test func `the log of a remote server has its status and no header field`() async throws {
        let lines = Mutex<[String]>([])
        let echo = #"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no open-sesame for you"}}"#
        for answer in [Self.json(echo), HTTPExchangeResponse(status: .unauthorized)] {
            let server = ChappieMCPServer(
                url: try #require(URL(string: "https://tools.example/mcp?key=open-sesame")),
                headerFields: [.authorization: "Bearer open-sesame"], transport: ScriptedServer([answer]), name: "far",
                startTimeout: Patience.limit, log: { line in lines.withLock { $0.append(line) } })
            await #expect(throws: ChappieMCPError.self) { try await server.tools() }
            await server.closed()
        }
        let log = lines.withLock(\.self)
        #expect(log.first == "it is asked at tools.example" && !log.contains { $0.contains("sesame") }, "\(log)")
        #expect(
            log.contains { $0.hasPrefix("← 1 the handshake failed, it refused: no ‹redacted› for you (-1), after") },
            "\(log)")
        #expect(log.contains { $0.hasPrefix("← 1 it requires you to sign in (HTTP 401), after") }, "\(log)")
    }

    @Test func aSessionIsNamedUsedAndLeft() async throws {
        let script = ScriptedServer([
            Self.json(Self.welcome, .ok, Self.session), Self.accepted,
            Self.stream("id: 1\ndata: {\"jsonrpc\":\"2.0\",\"id\":2,\n" + "data: \"result\":{\"tools\":[]}}\n\n"),
        ])
        let server = try server(script)
        #expect(try await server.tools().isEmpty)
        await server.closed()
        let requests = script.requests.withLock(\.self)
        #expect(requests.map(\.method) == [.post, .post, .post, .delete])
        let names = [HTTPField.Name("Mcp-Session-Id"), HTTPField.Name("MCP-Protocol-Version")].compactMap(\.self)
        let told = requests.map { request in names.map { request.headerFields[$0] } }
        #expect(told == [[nil, nil]] + Array(repeating: ["s-1", "2025-11-25"], count: 3))
        #expect(requests.allSatisfy { $0.headerFields[.authorization] == "Bearer secret" })
    }

    @Test func `without a handshake, each request names its method`() async throws {
        let script = ScriptedServer([
            Self.json(Self.refusal, .badRequest), Self.json(Self.found),
            Self.json(#"{"jsonrpc":"2.0","id":3,"result":{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}}"#),
            Self.json(#"{"jsonrpc":"2.0","id":4,"result":{"content":[{"type":"text","text":"x"}]}}"#),
        ])
        let server = try server(script)
        #expect(try await server.call("a") == "x")
        await server.closed()
        let requests = script.requests.withLock(\.self)
        let names = ["MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"].compactMap { HTTPField.Name($0) }
        let told = requests.map { request in names.map { request.headerFields[$0] } }
        #expect(
            told == [
                [nil, nil, nil], ["2026-07-28", "server/discover", nil], ["2026-07-28", "tools/list", nil],
                ["2026-07-28", "tools/call", "a"],
            ])
    }
}
