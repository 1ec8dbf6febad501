import ChappieCore
import ChappieMCP
import FoundationEssentials
import TestFixtures
import Testing

extension SystemProgram {
    /// Of the environment that Scripts/test makes from Tests/Acceptance/requirements.txt.
    static let pythonWithMCP: SystemProgram = {
        let variables = ProcessInfo.processInfo.environment
        let python =
            variables["CHAPPIE_TEST_PYTHON"] ?? (variables["HOME"] ?? "") + "/.cache/chappie-tests/python/bin/python"
        return SystemProgram(
            python, packages: "python3-venv (Scripts/test installs the rest)",
            companion: python.replacing("/bin/python", with: PackagedServer.firstVersion + "/mcp"))
    }()
}

/// A server that the official Python package makes: Fakes/server.py.
enum PackagedServer: CaseIterable, Sendable {
    /// Of version 1.30, which knows the handshake alone.
    case first
    /// Of version 2.3, with a client that begins with a handshake.
    case second
    /// Of version 2.3, with a client that finds the handshake refused.
    case stateless

    static let withHandshake: [PackagedServer] = [.first, .second]
    static let tools = ["add", "fail", "picture", "wait", "grow", "question", "die", "flood"]
    /// The folder of version 1.30 in the environment.
    fileprivate static let firstVersion = "/mcp-1.30"

    private static func fake(_ name: String) -> String {
        URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("Fakes/\(name)").path
    }

    /// The server's variables.
    func environment() throws -> [String: String] {
        guard self == .first else { return [:] }
        return ["PYTHONPATH": try SystemProgram.pythonWithMCP.path().replacing("/bin/python", with: Self.firstVersion)]
    }

    /// Starts it over standard streams.
    func command(_ folder: TemporaryDirectory) throws -> [String] {
        let python = try SystemProgram.pythonWithMCP.path()
        // Before the stateless one stands a program that refuses the handshake.
        let before = self == .stateless ? [python, Self.fake("stateless.py")] : []
        return before + [python, Self.fake("server.py"), folder.path]
    }

    /// Starts it over HTTP. It ends with the process that this gives.
    func start(_ folder: TemporaryDirectory, wantsToken: Bool = false) async throws -> (
        process: RunningProgram, url: URL
    ) {
        let inherited = ProcessInfo.processInfo.environment
        let process = try SystemProgram.pythonWithMCP.start(
            [Self.fake("server.py"), folder.path, "http"] + (wantsToken ? ["401"] : []),
            environment: inherited.merging(try environment()) { $1 }, output: .file("/dev/null"),
            errors: .file(folder.path("log")))
        let isListening = try await eventually { FileManager.default.fileExists(atPath: folder.path("port")) }
        try #require(isListening)
        return (process, try #require(URL(string: "http://127.0.0.1:\(try folder.read("port"))/mcp")))
    }
}

/// The resources of Fakes/server.py, and its prompt.
func expectResourcesAndPrompts(of server: ChappieMCPServer) async throws {
    let resources = try await server.resources()
    #expect(resources.map(\.uri) == ["note://today", "note://dot", "note://day/{day}"])
    #expect(resources.map(\.isTemplate) == [false, false, true])
    #expect(resources.first?.name == "today" && resources.first?.description == "What is on today.")
    #expect(
        try await server.read("note://today") == [
            ChappieMCPContent(uri: "note://today", mediaType: "text/plain", body: .text("Water the plants."))
        ])
    #expect(
        try await server.read("note://dot").map(\.body) == [.bytes(Array(Data(base64Encoded: packagedDot) ?? Data()))])
    // A field of HTTP can't carry the name of that day.
    #expect(try await server.read("note://day/März 8").first.map { "\($0.body)".contains("Nothing on M") } == true)
    let missing = await #expect(throws: ChappieMCPError.self) { try await server.read("note://nothing") }
    #expect(
        missing?.code == .refused && missing?.reason.contains("Unknown resource") == true, "\(missing.debugDescription)"
    )

    let prompts = try await server.prompts()
    #expect(
        prompts == [
            ChappieMCPPrompt(
                name: "review", description: "Asks for a review.",
                arguments: [.init(name: "language", isRequired: true), .init(name: "tone")])
        ])
    #expect(
        try await server.prompt("review", arguments: ["language": "Swift"])
            == [.user("Review this Swift, and be kind.")])
    let blank = await #expect(throws: ChappieMCPError.self) { try await server.prompt("review") }
    #expect(blank?.code == .refused, "\(blank.debugDescription)")

    // The model reads with tools.
    let list = try await server.call("list_resources")
    #expect(
        list.output.hasPrefix(#"[{"uri":"note://today","name":"today","description":"What is on today.""#), "\(list)")
    #expect(try await server.call("read_resource", ["uri": "note://today"]) == "note://today:\nWater the plants.")
    #expect(
        try await server.call("read_resource", ["uri": "note://dot"]).parts == [
            ["type": "input_image", "image_url": .string("data:image/png;base64,\(packagedDot)")]
        ])
}

/// The picture of the packaged server's tool and of its resource, in Base64.
let packagedDot =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
