import ArgumentParser
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieMCP
import ChappieSDK
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
            --no-threads leaves these out. With --search, search_web and open_page search the web and read a page; \
            with --draw, draw_picture makes a picture, which counts towards your plan's limits. Questions and answers \
            are kept as your settings say; --ephemeral keeps none. No user can be asked about the tools of --tools \
            here: only those run whose policy is automatic, and all of them with --approve-tools.

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

    @Flag(help: "Offer the search of the web.")
    var search = false

    @Flag(help: "Offer pictures.")
    var draw = false

    func run(in program: Program) async throws {
        try options.refuseJSON()
        var answerOptions = answerOptions
        try answerOptions.fill(from: nil, program.settings, goesOn: false)
        let store = program.threadsIfPossible()
        let keeps = ephemeral.map { !$0 } ?? (program.settings[.keepThreads]?.bool != false)
        let desk = ServedTools(
            program, answerOptions, threads ? store : nil, keepsIn: keeps ? store : nil, searches: search, draws: draw)
        let calls = ServedCalls(
            MCPHostSession(
                name: "chappie",
                instructions: """
                    Asks ChatGPT with the user's own account, and reads what was asked before.\
                    \(search ? " Searches the web." : "")\(draw ? " Makes pictures." : "")
                    """,
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
                        let outcome = await desk.carryOut(call) { progress, message in
                            let report = self.session.withLock { $0.report(progress, message, of: call) }
                            if let report { self.console.json(report) }
                        }
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
