import ChappieCore
@_spi(ChappieInternals) import ChappieProgramTools
import FoundationEssentials
import Glibc
import Synchronization
import TestFixtures
import Testing

@testable import ChappieClient
@_spi(ChappieInternals) @testable import ChappieMCP

extension ChappieMCPServer {
    func tool(_ name: String) async throws -> ChappieHostTool {
        try #require(try await tools().first { $0.name == name }, "no tool \(name)")
    }

    func call(_ name: String, _ arguments: ChappieJSON = [:]) async throws -> ChappieToolResult {
        let call = ChappieToolCall(name: name, callID: "c", arguments: arguments.serialized())
        return try await tool(name).handler(call)
    }
}

/// The code of the error that `body` throws, and what it says.
private func failure(_ body: () async throws -> Void) async -> (code: ChappieMCPError.Code?, words: String) {
    do {
        try await body()
        return (nil, "nothing was thrown")
    } catch let error as ChappieMCPError {
        return (error.code, error.errorDescription ?? "")
    } catch {
        return (nil, "\(error)")
    }
}

/// Against a server that the official Python package makes.
@Suite(
    .enabled(if: SystemProgram.pythonWithMCP.isUsable, Comment(rawValue: SystemProgram.pythonWithMCP.absence)),
    .serialized)  // Each starts an interpreter, which takes a busy machine seconds.
struct PythonServerTests {
    private static let limits = {
        var limits = MCPSession.Limits()
        limits.unasked = 4 << 20
        return limits
    }()
    private let folder: TemporaryDirectory

    init() throws { folder = try TemporaryDirectory() }

    private func server(
        _ counterpart: PackagedServer = .second, allowing allowed: Set<String>? = nil, denying denied: Set<String> = [],
        log: (@Sendable (String) -> Void)? = nil
    ) throws -> ChappieMCPServer {
        ChappieMCPServer(
            start: .program(try counterpart.command(folder), environment: try counterpart.environment()),
            name: "fixture",
            startTimeout: Patience.limit, allowedTools: allowed, deniedTools: denied, log: log, limits: Self.limits)
    }

    @Test(arguments: PackagedServer.allCases) func toolsAreListedCalledAndTheirFailuresTold(
        of counterpart: PackagedServer
    ) async throws {
        let server = try server(counterpart)
        let tools = try await server.tools()
        #expect(tools.map(\.name) == PackagedServer.tools + ["list_resources", "read_resource"])
        #expect(server.skippedTools.isEmpty)
        let add = try #require(tools.first)
        #expect(add.policy == .ask)
        #expect(add.namespace == "fixture")
        #expect(add.description == "Adds two numbers.")
        #expect(add.inputSchema["properties"]?["first"]?["type"] == "integer")
        #expect(try await server.call("add", ["first": 2, "second": 40]) == "42")

        let failed = try await server.call("fail", ["words": "no luck"])
        #expect(failed.isError && failed.output.contains("no luck"), "\(failed)")
        let invalid = try await server.call("add", ["first": "x"])
        #expect(invalid.isError && invalid.output.contains("first"), "\(invalid)")
        let picture = try await server.call("picture")
        #expect(picture.output == "a dot")
        #expect(
            picture.parts
                == [["type": "input_image", "image_url": .string("data:image/png;base64,\(packagedDot)")]])

        // Two at once.
        async let first = server.call("add", ["first": 1, "second": 1])
        async let second = server.call("add", ["first": 2, "second": 2])
        #expect(try await [first.output, second.output] == ["2", "4"])
        await server.closed()
        #expect(await failure { _ = try await server.tools() }.code == .closed)
    }

    // The package asks nothing of a client that has not shaken hands.
    @Test(arguments: PackagedServer.withHandshake)
    func theServersOwnQuestionsAreAnswered(by counterpart: PackagedServer) async throws {
        let server = try server(counterpart)
        let result = try await server.call("question")
        #expect(result.output.hasPrefix("pinged; ") && result.output != "pinged; answered", "\(result)")
        await server.closed()
    }

    @Test(arguments: PackagedServer.allCases) func aCallThatIsCancelledEndsAtTheServerToo(
        of counterpart: PackagedServer
    ) async throws {
        let server = try server(counterpart)
        let task = Task { try await server.call("wait", ["name": "w"]) }
        #expect(try await eventually { FileManager.default.fileExists(atPath: folder.path("w.began")) })
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(try await eventually { FileManager.default.fileExists(atPath: folder.path("w.cancelled")) })
        #expect(try await server.call("add", ["first": 1, "second": 2]) == "3")
        await server.closed()
    }

    @Test(arguments: PackagedServer.allCases) func aListThatHasChangedIsReadAgain(of counterpart: PackagedServer)
        async throws
    {
        let server = try server(counterpart)
        let before = try await server.tools().map(\.name)
        #expect(try await server.call("grow", ["name": "sprout"]) == "done")
        // The notification may come after the answer.
        #expect(try await eventually { Set(try await server.tools().map(\.name)) == Set(before + ["sprout"]) })
        #expect(try await server.call("sprout") == "grown")
        await server.closed()
    }

    @Test(arguments: PackagedServer.allCases)
    func `a server that dies during a call is started again, and the call is not`(
        of counterpart: PackagedServer
    ) async throws {
        let server = try server(counterpart)
        let (code, words) = await failure { _ = try await server.call("die") }
        #expect(code == .ended)
        #expect(
            words.contains("it has ended, with the exit code 3. It said: ") && words.contains("the disk is on fire"),
            "\(words)")
        #expect(try await server.call("add", ["first": 1, "second": 2]) == "3")
        #expect(try folder.read("deaths") == "one\n")
        await server.closed()
    }

    @Test(arguments: PackagedServer.allCases)
    func aSlowStartOutlivesATurnThatIsCancelled(of counterpart: PackagedServer) async throws {
        try #require(mkfifo(folder.path("gate"), 0o600) == 0)
        let waits = #"echo one >> "$0/starts"; read line < "$0/gate"; exec "$@""#
        let slow = ChappieMCPServer(
            command: ["/bin/sh", "-c", waits, folder.path] + (try counterpart.command(folder)),
            environment: try counterpart.environment(), name: "slow", startTimeout: Patience.limit)
        let first = Task { try await slow.tools() }
        #expect(try await eventually { FileManager.default.fileExists(atPath: folder.path("starts")) })
        first.cancel()
        await #expect(throws: CancellationError.self) { try await first.value }
        async let second = slow.tools()
        try folder.write("go\n", to: "gate")
        #expect(try await second.isEmpty == false)
        #expect(try folder.read("starts") == "one\n")
        await slow.closed()
    }

    @Test(arguments: PackagedServer.allCases)
    func resourcesAndPromptsAreListedAndRead(of counterpart: PackagedServer) async throws {
        let server = try server(counterpart)
        try await expectResourcesAndPrompts(of: server)
        await server.closed()
    }

    @Test(arguments: PackagedServer.allCases)
    func `only tools that are allowed and not denied are offered`(of counterpart: PackagedServer) async throws {
        let server = try server(
            counterpart, allowing: ["add", "wait", "read_resource", "nonsense"], denying: ["wait", "wiat"])
        #expect(try await server.tools().map(\.name) == ["add", "read_resource"])
        #expect(
            server.skippedTools == [
                ChappieMCPSkippedTool(
                    name: "nonsense", reason: "The list of allowed tools names it, and the server has no such tool."),
                ChappieMCPSkippedTool(
                    name: "wiat", reason: "The list of denied tools names it, and the server has no such tool."),
            ])
        await server.closed()
    }

    @Test(arguments: PackagedServer.allCases)
    func `the log outlines the messages and contains the server's last output`(of counterpart: PackagedServer)
        async throws
    {
        let lines = Mutex<[String]>([])
        let server = try server(counterpart) { line in lines.withLock { $0.append(line) } }
        #expect(try await server.call("add", ["first": 271_828, "second": 1]) == "271829")
        _ = await failure { _ = try await server.call("die") }
        await server.closed()
        let log = lines.withLock(\.self)
        #expect(log.first == "its program starts" && log.contains("it has ended, with the exit code 3"), "\(log)")
        #expect(log.contains { $0.hasPrefix("→ tools/call ") && $0.contains(" add, ") }, "\(log)")
        #expect(log.contains { $0.hasPrefix("← ") && $0.hasSuffix(" ms") }, "\(log)")
        #expect(log.contains("! the disk is on fire"), "\(log)")
        #expect(!log.contains { $0.contains("271828") || $0.contains("271829") }, "\(log)")
    }

    // Without a handshake the package sends nothing that was not asked for; BadServerTests has a script that does.
    @Test(arguments: PackagedServer.withHandshake)
    func aFloodEndsTheServer(of counterpart: PackagedServer) async throws {
        let server = try server(counterpart)
        let (code, words) = await failure { _ = try await server.call("flood") }
        #expect(code == .protocolViolation && words.contains("4 MiB without a request"), "\(words)")
        await server.closed()
    }
}

/// Against programs of a few lines, which misbehave.
struct BadServerTests {
    private static let welcome =
        #"read -r line; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}}'; read -r line; "#
    private static let list =
        #"read -r line; echo '{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"a","inputSchema":{"type":"object"}},{"name":"b/c"}]}}'; "#

    private static let statelessWelcome =
        #"read -r line; echo '{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}'; read -r line; "#
        + #"echo '{"jsonrpc":"2.0","id":2,"result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}}'; "#

    private static func server(_ script: String, name: String = "bad", limit: Duration = Patience.limit)
        -> ChappieMCPServer
    {
        var limits = MCPSession.Limits()
        limits.line = 1 << 20
        limits.unread = 150_000
        limits.unasked = 2 << 20
        return ChappieMCPServer(
            start: .program(["/bin/sh", "-c", script], environment: ["ONLY": "1"]), name: name, startTimeout: limit,
            limits: limits)
    }

    @Test(
        arguments: [
            ("echo 'no config' >&2; exit 2", .ended, "it has ended, with the exit code 2. It said: no config"),
            ("kill -9 $$", .ended, "it has ended, by the signal 9."),
            ("yes", .protocolViolation, "its standard output is not the protocol, but: y."),
            ("tr '\\0' x < /dev/zero", .protocolViolation, "it sent a line of more than 1048576 bytes."),
            (welcome + "exit 0", .ended, "it has ended, with the exit code 0."),
            // A server of the official package does not do this.
            (
                statelessWelcome + #"yes '{"jsonrpc":"2.0","method":"x"}'"#, .protocolViolation,
                "it sent 50000 messages without a request."
            ),
            (
                welcome + #"read -r line; printf '{"jsonrpc":"2.0","id":2,"resu'"#, .ended,
                "it has ended, with the exit code 0."
            ),
            // It closes its output and stays.
            ("exec >&-; exec sleep 1000", .ended, "it has ended, by the signal 15."),
        ] as [(String, ChappieMCPError.Code, String)])
    func saysWhyItCantBeUsed(script: String, code: ChappieMCPError.Code, words: String) async {
        let server = Self.server(script)
        let (actual, description) = await failure { _ = try await server.tools() }
        #expect(actual == code && description == "The tool server bad: \(words)")
        await server.closed()
    }

    @Test(arguments: [
        ("exec sleep 1000", "the handshake"), (welcome + "exec sleep 1000", "the list of tools"),
        // It ignores every request to end.
        ("trap '' TERM; while :; do sleep 1000; done", "the handshake"),
    ])
    func silenceEndsAtTheLimit(script: String, what: String) async {
        let server = Self.server(script, limit: .milliseconds(200))
        let (code, words) = await failure { _ = try await server.tools() }
        #expect(code == .timedOut && words.contains("\(what) did not come within 0.2 seconds"), "\(words)")
        await server.closed()
    }

    @Test func `a server that started too late is not started in the next turn`() async throws {
        let folder = try TemporaryDirectory()
        let server = Self.server("echo one >> '\(folder.path("starts"))'; exec sleep 1000", limit: .milliseconds(200))
        for _ in 1...3 {
            let (code, words) = await failure { _ = try await server.tools() }
            #expect(code == .timedOut && words.contains("the handshake did not come within 0.2 seconds"), "\(words)")
        }
        #expect(try folder.read("starts") == "one\n")
        await server.closed()
        #expect(await failure { _ = try await server.tools() }.code == .closed)
    }

    @Test(
        arguments: [
            (["/nowhere/program"], nil, "name", "there is no program /nowhere/program that may be run."),
            (
                ["no-such-program-here"], nil, "name",
                "there is no program no-such-program-here in PATH that may be run."
            ),
            ([], nil, "name", "the command is empty."),
            (["/bin/sh"], "/nowhere", "name", "there is no folder /nowhere."),
            (
                ["/bin/sh"], nil, "a name",
                "its name must consist of 1 to 64 letters, digits, _ and -, and not be functions."
            ),
            // Calls of its tools would come back as calls of tools without a server.
            (
                ["/bin/sh"], nil, "functions",
                "its name must consist of 1 to 64 letters, digits, _ and -, and not be functions."
            ),
        ] as [([String], String?, String, String)])
    func whatCantBeStartedSaysWhy(command: [String], folder: String?, name: String, words: String) async {
        let server = ChappieMCPServer(command: command, workingDirectory: folder, name: name)
        let (code, description) = await failure { _ = try await server.tools() }
        #expect(code == .notStarted && description.hasSuffix(words), "\(description)")
        await server.closed()
    }

    @Test func toolsThatCantBeUsedAreNamed() async throws {
        let server = Self.server(Self.welcome + Self.list + "cat >/dev/null")
        #expect(try await server.tools().map(\.name) == ["a"])
        #expect(server.skippedTools.map(\.name) == ["b/c"])
        await server.closed()
    }

    /// It has nothing to read at first, and no templates at all; later it has.
    @Test func resourcesMayComeLater() async throws {
        let offer = Self.welcome.replacing(#""tools":{}"#, with: #""resources":{}"#)
        let none = #"{"jsonrpc":"2.0","id":3,"result":{"resources":[]}}"#
        let refusal = #"{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"no"}}"#
        let change = #"{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}"#
        let one = #"{"jsonrpc":"2.0","id":5,"result":{"resources":[{"uri":"a:b"},{"uri":""}]}}"#
        let lines = [none, refusal.replacing("ID", with: "4") + "\n" + change, one, refusal.replacing("ID", with: "6")]
        let server = Self.server(offer + lines.map { "read -r line; echo '\($0)'; " }.joined() + "cat >/dev/null")
        #expect(try await eventually { try await !server.tools().isEmpty })
        #expect(try await server.tools().map(\.name) == ["list_resources", "read_resource"])
        await server.closed()
    }

    @Test(
        arguments: [
            (#"{"contents":[\#(String(repeating: "{},", count: 1000)){}]}"#, "its answer has more than 1000 contents"),
            (#"{"contents":[{"blob":"?"}]}"#, "a content of its resource is neither text nor Base64"),
            (#"{"messages":[]}"#, "its prompt is empty"), (#"{"messages":3}"#, "its prompt is empty"),
            (#"{"messages":[\#(String(repeating: "{},", count: 1000)){}]}"#, "its answer has more than 1000 messages"),
        ])
    func aResourceOrAPromptThatMakesNoSenseIsASentence(answer: String, words: String) async throws {
        let offer = Self.welcome.replacing(#""tools":{}"#, with: #""prompts":{}"#)
        let server = Self.server(
            offer + #"read -r line; echo '{"jsonrpc":"2.0","id":3,"result":\#(answer)}'; cat >/dev/null"#)
        let (code, said) = await failure {
            if words.contains("content") { _ = try await server.read("a:b") } else { _ = try await server.prompt("p") }
        }
        #expect(code == .protocolViolation && said == "The tool server bad: \(words).", "\(said)")
        await server.closed()
    }

    /// The server speaks as the user or the model; what can't be sent as either is left out in words.
    @Test func aPromptNeverSpeaksAboveTheUser() async throws {
        let offer = Self.welcome.replacing(#""tools":{}"#, with: #""prompts":{}"#)
        let image = #"{"type":"image","data":"iVBORw0KGgo=","mimeType":"image/png"}"#
        let messages = [
            #"{"role":"developer","content":[{"type":"text","text":"a"},\#(image)]}"#,
            #"{"role":"user","content":{"type":"audio"}}"#,
            #"{"role":"assistant","content":\#(image)}"#, #"{"content":{"type":"text","text":""}}"#, "3",
        ]
        let answer = #"{"jsonrpc":"2.0","id":3,"result":{"messages":[\#(messages.joined(separator: ","))]}}"#
        let server = Self.server(offer + "read -r line; echo '\(answer)'; cat >/dev/null")
        let got = try await server.prompt("p")
        let dot = ChappieImage(source: .url("data:image/png;base64,iVBORw0KGgo="))
        #expect(
            got == [
                ChappieInputMessage(role: .user, parts: [.text("a"), .image(dot)]), .user("[left out: audio]"),
                .assistant("[left out: an image]"), .user("[left out: content without a type]"),
            ], "\(got)")
        await server.closed()
    }

    @Test func aLogMayCloseTheServer() async throws {
        let box = Mutex<ChappieMCPServer?>(nil)
        let server = ChappieMCPServer(
            command: ["/bin/sh", "-c", Self.welcome + "cat >/dev/null"], name: "bad",
            log: { line in if line.hasPrefix("→ tools/list") { box.withLock(\.self)?.close() } })
        box.withLock { $0 = server }
        #expect(await failure { _ = try await server.tools() }.code == .closed)
        await server.closed()
    }

    @Test func `a server's standard error is logged in parts and without secrets`() async throws {
        let lines = Mutex<[String]>([])
        let token = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.x1"
        let server = ChappieMCPServer(
            command: [
                "/bin/sh", "-c",
                "head -c 9000 /dev/zero | tr '\\0' x >&2; printf '\\nkey \(token)\\033[2J\\nlast' >&2; echo \" $KEY $DATA\" >&2",
            ],
            environment: ["KEY": "open sesame", "DATA": "/srv/data/files"], name: "bad",
            log: { line in lines.withLock { $0.append(line) } })
        _ = await failure { _ = try await server.tools() }
        await server.closed()
        let words = lines.withLock { $0.filter { $0.hasPrefix("! ") } }
        #expect(words.count == 3 && words.allSatisfy { $0.count <= 1002 && !$0.contains(token) }, "\(words)")
        #expect(
            words.last == "! last ‹redacted› /srv/data/files"
                && words.dropFirst().first?.hasPrefix("! key ‹redacted›") == true,
            "\(words)")
    }

    @Test func aServerThatReadsNothingFailsItsCalls() async throws {
        let server = Self.server(Self.welcome + Self.list + "exec sleep 1000")
        let tool = try await server.tool("a")
        let large = ChappieToolCall(
            name: "a", callID: "c", arguments: #"{"x":"\#(String(repeating: "x", count: 120_000))"}"#)
        async let first = failure { _ = try await tool.handler(large) }
        async let second = failure { _ = try await tool.handler(large) }
        let answers = await [first, second]
        #expect(answers.allSatisfy { $0.code == .protocolViolation && $0.words.contains("does not read") })
        await server.closed()
    }

    @Test func theEnvironmentIsClean() async throws {
        let folder = try TemporaryDirectory()
        let server = ChappieMCPServer(
            command: ["/bin/sh", "-c", "env | cut -d= -f1 | sort > names; pwd > place; echo x >&2; exit 1"],
            environment: ["ONLY": "1"], workingDirectory: folder.path, name: "bad")
        _ = await failure { _ = try await server.tools() }
        // The shell sets PWD by itself, and a machine may lack the others.
        let names = try folder.read("names").split(separator: "\n").filter {
            !["USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "LANG", "LC_ALL", "PWD", "OLDPWD", "_", "SHLVL"]
                .contains($0)
        }
        #expect(names == ["HOME", "ONLY", "PATH"])
        #expect(try folder.read("place").hasSuffix(folder.path.suffix(10) + "\n"))
    }

    @Test func `a server's title and instructions describe its tools to the model`() async throws {
        let welcome = Self.welcome.replacing(
            #""capabilities""#,
            with:
                #""serverInfo":{"name":"x","title":"Rows of the shop"},"instructions":" Always call a first. ","capabilities""#
        )
        let server = Self.server(welcome + Self.list + "cat >/dev/null", name: "shop")
        let tool = try #require(try await server.tools().first)
        let declared = try ToolSet(harness: "", tools: [tool], checked: [:]).declared(onPlan: false, inNamespace: true)
        #expect(
            declared.first?["description"] == "Tools of shop (Rows of the shop). Always call a first.", "\(declared)")
        await server.closed()
    }

    @Test func aServerThatNobodyKeepsIsEnded() async throws {
        let folder = try TemporaryDirectory()
        var server: ChappieMCPServer? = ChappieMCPServer(
            command: ["/bin/sh", "-c", Self.welcome + Self.list + "cat >/dev/null; touch ended"],
            workingDirectory: folder.path, name: "bad")
        _ = try await server?.tools()
        server = nil
        #expect(try await eventually { FileManager.default.fileExists(atPath: folder.path("ended")) })
    }
}
