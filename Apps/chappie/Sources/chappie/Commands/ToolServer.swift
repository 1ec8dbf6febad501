import ArgumentParser
@_spi(ChappieInternals) import ChappieCore
import ChappieLineEditor
@_spi(ChappieInternals) import ChappieMCP
@_spi(ChappieInternals) import ChappieRuntime
import ChappieSDK
import ChappieThreadForms
import ChappieThreadsSQLite
import Synchronization

/// The command `chappie mcp`. It makes this program a tool server for other programs with a model.
struct ToolServer: ProgramCommand {
    var settingsUse: SettingsUse { .all }
    var accessTokenUse: AccessTokenUse { .signsIn }
    static let configuration = CommandConfiguration(
        commandName: "mcp", abstract: "Be a server of tools for another program, over standard streams.",
        discussion: """
            The Model Context Protocol, revisions 2024-11-05 to 2026-07-28. Its tools: ask puts a question to a model \
            of your account, search_threads and read_thread find and read the conversations that are kept here; \
            --no-threads leaves these out. Questions and answers are kept as your settings say; --ephemeral keeps \
            none. No user can be asked about the tools of --tools here: only those run whose policy is automatic, and \
            all of them with --approve-tools.

            The Codex CLI, for example, takes it in ~/.codex/config.toml:

              [mcp_servers.chappie]
              command = "chappie"
              args = ["mcp"]

            It ends with its standard input. What it has to say goes to standard error.
            """)

    @OptionGroup var options: GlobalOptions
    @OptionGroup var answerOptions: AnswerOptions

    @Flag(inversion: .prefixedNo, help: "Offer the conversations that are kept here.")
    var threads = true

    @Flag(inversion: .prefixedNo, help: "Keep nothing of what is asked.")
    var ephemeral: Bool?

    func run(in program: Program) async throws {
        try options.refuseJSON()
        var answerOptions = answerOptions
        try answerOptions.fill(from: nil, program.settings, goesOn: false)
        let store = program.threadsIfPossible()
        let keeps = ephemeral.map { !$0 } ?? (program.settings[.keepThreads]?.bool != false)
        let desk = ServedTools(program, answerOptions, threads ? store : nil, keepsIn: keeps ? store : nil)
        let calls = ServedCalls(
            MCPHostSession(
                name: "chappie",
                instructions: "Asks ChatGPT with the user's own account, and reads what was asked before.",
                tools: desk.declarations), program.console)
        var input = StandardInput()
        do {
            while let line = try await input.readMessage() { calls.received(line, desk) }
        } catch {
            await calls.end()
            throw error
        }
        await calls.end()
    }
}

/// The protocol and the running calls.
private final class ServedCalls: Sendable {
    private let session: Mutex<MCPHostSession>
    private let tasks = Mutex<[Int: Task<Void, Never>]>([:])
    private let console: Console

    init(_ session: MCPHostSession, _ console: Console) {
        self.session = Mutex(session)
        self.console = console
    }

    func received(_ line: [UInt8], _ desk: ServedTools) {
        for action in session.withLock({ $0.received(line) }) {
            switch action {
            case .send(let message): console.json(message)
            case .cancel(let number): tasks.withLock { $0.removeValue(forKey: number) }?.cancel()
            case .call(let call):
                // The lock is held until the task is in the table. The task removes itself at its end.
                tasks.withLock { tasks in
                    tasks[call.number] = Task {
                        let outcome = await desk.carryOut(call)
                        self.tasks.withLock { $0[call.number] = nil }
                        let message = self.session.withLock { $0.finish(call, with: outcome) }
                        if let message { self.console.json(message) }
                    }
                }
            }
        }
    }

    /// Cancels the calls and waits for them.
    func end() async {
        let left = tasks.withLock { Array($0.values) }
        for task in left { task.cancel() }
        for task in left { await task.value }
    }
}

extension GlobalOptions {
    fileprivate func refuseJSON() throws {
        guard json else { return }
        throw CommandLineError.usage(
            "The protocol of tool servers is JSON already.", suggestion: "Leave out --json.")
    }
}

/// The tools of ``ToolServer``.
private struct ServedTools: Sendable {
    private let program: Program
    private let options: AnswerOptions
    private let threads: ChappieFileThreadStore?
    private let store: ChappieFileThreadStore?

    init(
        _ program: Program, _ options: AnswerOptions, _ threads: ChappieFileThreadStore?,
        keepsIn store: ChappieFileThreadStore?
    ) {
        self.program = program
        self.options = options
        self.threads = threads
        self.store = store
    }

    var declarations: [ChappieJSON] {
        let text: ChappieJSON = ["type": "string"]
        var all: [ChappieJSON] = [
            Self.tool(
                "ask", "Asks a model of the user's ChatGPT account, and gives its answer.",
                ["question": text, "model": text, "system": text], required: ["question"])
        ]
        guard threads != nil else { return all }
        all.append(
            Self.tool(
                "search_threads", "Finds kept conversations that contain all of these words.", ["words": text],
                required: ["words"]))
        all.append(
            Self.tool(
                "read_thread", "Gives a kept conversation as Markdown; turns: only its last ones.",
                ["thread": text, "turns": ["type": "integer", "minimum": 1]], required: ["thread"]))
        return all
    }

    private static func tool(
        _ name: String, _ description: String, _ properties: ChappieJSONObject, required: [String]
    ) -> ChappieJSON {
        [
            "name": .string(name), "description": .string(description),
            "inputSchema": [
                "type": "object", "properties": .object(properties),
                "required": .array(required.map { .string($0) }), "additionalProperties": false,
            ],
        ]
    }

    func carryOut(_ call: MCPHostSession.Call) async -> Result<String, MCPCallFailure> {
        do {
            return .success(try await perform(call))
        } catch {
            let problem = CommandLineError(error)
            return .failure(
                MCPCallFailure([problem.message, problem.suggestion].compactMap(\.self).joined(separator: " ")))
        }
    }

    private func perform(_ call: MCPHostSession.Call) async throws -> String {
        func text(_ name: String) throws -> String {
            if let text = call.arguments[name]?.string, !text.isEmpty { return text }
            throw CommandLineError.usage("The argument \(name) must be a text.")
        }
        switch call.tool {
        case "search_threads": return try await search(text("words"))
        case "read_thread":
            guard let threads else { throw CommandLineError.usage("Conversations are not offered.") }
            let thread = try await Threads.read(text("thread"), from: threads)
            guard let turns = call.arguments["turns"] else { return ChappieThreadFormat.markdown.text(of: thread) }
            guard let count = turns.int, count > 0 else {
                throw CommandLineError.usage("The argument turns must be a whole number of at least 1.")
            }
            return ChappieThreadFormat.markdown.text(of: thread.last(count))
        default:
            return try await ask(
                text("question"), model: call.arguments["model"]?.string, system: call.arguments["system"]?.string)
        }
    }

    private func search(_ words: String) async throws -> String {
        guard let threads else { throw CommandLineError.usage("Conversations are not offered.") }
        let found = try await threads.readableHits(ChappieThreadQuery(words))
        let hits = found.hits.prefix(20).map {
            "\($0.thread.shortID)  \($0.date.localMinute)  \($0.thread.shownName)\n  \($0.excerpt)"
        }
        return ((hits.isEmpty ? ["Nothing was found."] : hits) + found.problems.map(\.words)).joined(separator: "\n")
    }

    /// Asks the question in a separate conversation, because clients have their own memory.
    private func ask(_ question: String, model: String?, system: String?) async throws -> String {
        let approval = ToolApproval(approvesAll: options.approveTools, reader: NobodyToAsk())
        let client = try program.client(options, approval: approval)
        let request = options.request(
            (system.map { [.developer($0)] } ?? []) + [
                ChappieInputMessage(role: .user, parts: [.text(question)], options: options.messageOptions)
            ],
            model: model ?? options.model, schema: nil, searchesWeb: options.web)
        let conversation: any ChappieConversation =
            store.map { program.runtime(client, LenientThreadStore($0)) } ?? client
        defer { Task { await client.disconnect() } }
        var response: ChappieResponse?
        for try await event in conversation.streamResponse(request) {
            if case .approvalRequested(let request) = event { approval.announce(request) }
            if case .notice(let notice) = event { program.note(notice) }
            if case .completed(let whole) = event { response = whole }
        }
        guard let response else { throw CommandLineError(.unavailable, code: "answer_empty", "There was no answer.") }
        try Ask.checkWhole(response)
        let sources = SourceList.lines(response.sources)
        return response.outputText + (sources.isEmpty ? "" : "\n\n" + sources.joined(separator: "\n"))
    }
}

/// A reader that never asks. The terminal, if there is one, belongs to the client.
private struct NobodyToAsk: LineReader {
    func read(_ question: Question) async throws -> LineEditor.Entry? { nil }
}
