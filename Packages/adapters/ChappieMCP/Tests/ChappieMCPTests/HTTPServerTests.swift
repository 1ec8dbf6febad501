import ChappieCore
import ChappieCurl
import ChappieHTTP
import FoundationEssentials
import HTTPTypes
import Synchronization
import TestFixtures
import Testing

@testable import ChappieClient
@testable import ChappieMCP

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
@Suite(.enabled(if: SystemProgram.pythonWithMCP.isUsable, Comment(rawValue: SystemProgram.pythonWithMCP.absence)))
struct PythonHTTPServerTests {
    private let folder: TemporaryDirectory

    init() throws { folder = try TemporaryDirectory() }

    /// A server that is started, and ends with the process that this gives.
    private func started() async throws -> (process: RunningProgram, url: URL) {
        let script = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("Fakes/server.py").path
        let process = try SystemProgram.pythonWithMCP.start(
            [script, folder.path, "http"], output: .file("/dev/null"), errors: .file(folder.path("log")))
        let isListening = try await eventually { FileManager.default.fileExists(atPath: folder.path("port")) }
        try #require(isListening)
        return (process, try #require(URL(string: "http://127.0.0.1:\(try folder.read("port"))/mcp")))
    }

    private func server(_ url: URL, _ era: PythonServerTests.Era) -> ChappieMCPServer {
        let curl = CurlHTTPTransport(network: CurlNetwork(policy: .default))
        return ChappieMCPServer(
            url: url, transport: era == .stateless ? Stateless(transport: curl) : curl, name: "fixture",
            startTimeout: Patience.limit)
    }

    @Test(arguments: PythonServerTests.Era.allCases)
    func toolsAreListedCalledChangedAndCancelled(era: PythonServerTests.Era) async throws {
        let (process, url) = try await started()
        let server = server(url, era)
        let before = try await server.tools().map(\.name)
        #expect(before == ["add", "fail", "picture", "wait", "grow", "question", "die", "flood"])
        #expect(try await server.call("add", ["first": 2, "second": 40]) == "42")
        let failed = try await server.call("fail", ["words": "no luck"])
        #expect(failed.isError && failed.output.contains("no luck"), "\(failed)")
        async let first = server.call("add", ["first": 1, "second": 1])
        async let second = server.call("add", ["first": 2, "second": 2])
        #expect(try await [first.output, second.output] == ["2", "4"])
        #expect(try await server.call("grow", ["name": "sprout"]) == "done")
        #expect(try await server.tools().map(\.name) == before + ["sprout"])

        let task = Task { try await server.call("wait", ["name": "w"]) }
        #expect(try await eventually { FileManager.default.fileExists(atPath: folder.path("w.began")) })
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(try await eventually { FileManager.default.fileExists(atPath: folder.path("w.cancelled")) })
        #expect(try await server.call("sprout") == "grown")
        await server.closed()
        withExtendedLifetime(process) {}
    }

    @Test(arguments: PythonServerTests.Era.allCases)
    func aServerThatDiesInACallIsASentence(era: PythonServerTests.Era) async throws {
        let (process, url) = try await started()
        let server = server(url, era)
        let error = await #expect(throws: ChappieMCPError.self) { try await server.call("die") }
        #expect(error?.code == .ended, "\(error.debugDescription)")
        let gone = await #expect(throws: ChappieMCPError.self) { try await server.tools() }
        #expect(gone?.reason.hasPrefix("it can't be reached") == true, "\(gone.debugDescription)")
        await server.closed()
        withExtendedLifetime(process) {}
    }
}
