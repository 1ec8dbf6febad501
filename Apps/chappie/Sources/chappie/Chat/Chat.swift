import ArgumentParser
import ChappieLineEditor
import ChappieRuntime
import ChappieSDK
import Glibc

struct Chat: ProgramCommand {
    var settingsUse: SettingsUse { .all }
    var accessTokenUse: AccessTokenUse { .signsIn }
    static let configuration = CommandConfiguration(
        commandName: "chat",
        abstract: "Have a conversation: a line is a message, end of file ends it.",
        discussion: """
            On a terminal lines are edited, answers are drawn as they come, Ctrl-C stops one (what was said stays), and lines that begin with \
            a slash are commands: /help lists them. From a pipe each line is a message or a command, and the answers \
            are printed as they are. Commands that read or write files or start programs then need --commands.

            The conversation is kept, encrypted: -c or --thread continues an earlier one, /clear begins another. The \
            arrow keys go through the lines that you typed here and your messages in the kept threads; chappie threads \
            delete removes them from there, too. --ephemeral keeps nothing, and remembers lines until the chat ends.

            A line that is finished with Return during an answer joins the same turn: the model gets it with its next step. \
            Commands wait for the end of the answer.

            The first message takes -s, -f, -i and --prompt; every message takes the template and the schema.

            With --json: the lines of chappie ask, turn after turn; every line is a message.
            """)

    @OptionGroup var options: GlobalOptions
    @OptionGroup var answerOptions: AnswerOptions
    @OptionGroup var messageOptions: MessageOptions
    @OptionGroup var pictureOptions: PictureOptions
    @OptionGroup var threadOptions: ThreadOptions

    @Flag(
        inversion: .prefixedNo,
        help: "Show model, context and limits below the prompt (default: as in chappie config, else shown).")
    var statusLine: Bool?

    @Flag(
        help:
            "Let lines from a pipe read and write files and start programs: /file, /image, /paste, /save, /edit, /resource and /draw."
    )
    var commands = false

    func run(in program: Program) async throws {
        let console = program.console
        let isInteractive = console.terminals.input && console.terminals.output && !options.json
        let editor =
            isInteractive && !program.environment.isTerminalPlain
            ? LineEditor(name: "chappie", historyLimit: ChatHistory.limit) : nil
        let terminalReader = TerminalLineReader(console: console)
        let reader: any LineReader = editor.map { EditorLineReader(console: console, editor: $0) } ?? terminalReader
        let typed = TypedLines()
        let approval = ToolApproval(
            approvesAll: answerOptions.approveTools, reader: PausingLineReader(reader: reader, typed: typed))
        guard !messageOptions.readsInput else {
            throw CommandLineError.usage("- reads standard input, where the messages of a chat come from.")
        }
        var answerOptions = answerOptions
        let frame = try await messageOptions.read(
            goesOn: threadOptions.isContinuing, filling: &answerOptions, in: program)
        let client = try program.client(answerOptions, approval: approval)
        try await answerOptions.explainTier(of: client, console)
        let kept = try await threadOptions.kept(by: client, in: program, early: true)
        let chat = ChatThread(
            client, kept, model: answerOptions.model, namedModel: self.answerOptions.model,
            usualModel: program.settings[.model]?.string)
        var session = await ChatSession(
            chat, program, answerOptions, frame, approval, reader, typed, draws: pictureOptions.draw,
            isInteractive: isInteractive, permitsAll: commands)
        let showsStatus = statusLine ?? program.settings[.statusLine]?.bool ?? true
        let status = showsStatus && editor != nil && console.terminals.styles ? ChatStatus() : nil
        // The client connects while the user types.
        let prewarm = Task {
            await chat.runtime.prewarm()
            if await status?.fill(chat) == true { LineEditor.redraw() }
        }
        defer { prewarm.cancel() }
        if let editor {
            let history = ChatHistory(store: kept?.store)
            try await edit(with: editor, history, status, &session, program)
        } else {
            try await read(&session, program, isInteractive: isInteractive)
        }
        await session.disconnect()
        // The status is the one of SIGHUP, which may come later than the end of the input.
        if isInteractive, TerminalState.isGone { throw ExitCode(128 + SIGHUP) }
        if let failure = session.failure { throw ExitCode(failure.status.rawValue) }
    }

    /// Reads lines from a pipe, or from a terminal that cannot edit them.
    private func read(_ session: inout ChatSession, _ program: Program, isInteractive: Bool) async throws {
        let console = program.console
        let echoes = !isInteractive && !options.json
        var input = StandardInput()
        while true {
            if isInteractive { console.write("\n> ") }
            let typed = session.typed.next()
            if let typed { console.line(typed) }
            var line = typed
            if line == nil { line = try await input.readLine() }
            guard let line else { break }
            guard line.contains(where: { !$0.isWhitespace }) else { continue }
            if echoes { console.line("> \(line)\n") }
            do {
                if options.json {
                    try await session.ask(line)
                } else if try await !session.handle(line) {
                    break
                }
            } catch {
                if !isInteractive { try await noteUnsent(&input, console) }
                throw error
            }
            if echoes { console.line() }
        }
        if isInteractive { console.line() }
    }

    /// Reports how many messages have arrived that are not sent because of an error.
    private func noteUnsent(_ input: inout StandardInput, _ console: Console) async throws {
        var count = 0
        while try await input.isReady(within: .zero), let line = try await input.readLine() {
            let isMessage = options.json || ChatCommand(line) == nil
            if isMessage, line.contains(where: { !$0.isWhitespace }) { count += 1 }
        }
        if count > 0 { console.note("chappie: \(count) \(count == 1 ? "message was" : "messages were") not sent.") }
    }

    private func edit(
        with editor: LineEditor, _ history: ChatHistory, _ status: ChatStatus?, _ session: inout ChatSession,
        _ program: Program
    ) async throws {
        let console = program.console
        console.note("Type a message. /help lists the commands, Ctrl-D ends the conversation.")
        if let manageUsage = PlanWords.manageUsage(program.settings.configuration.endpoints) {
            console.note("\(PlanWords.inUse). \(manageUsage)")
        }
        let known = ChatCommand.known(to: session.chat.client, program)
        let prompt = LineEditor.Prompt(
            "> ", isBold: console.terminals.styles,
            completions: { text in ChatCommand.completions(of: text, known) },
            status: { columns in status?.row(columns: columns) ?? "" }, earlierEntries: history.entries)
        while true {
            await status?.update(session.chat, session.limits)
            console.line()
            var entry = session.typed.next().map(LineEditor.Entry.text)
            if case .text(let typed) = entry { console.line("> \(typed)") }
            try await console.drained()
            if entry == nil { entry = try await onThread { editor.read(prompt) } }
            switch entry {
            case .end, nil: return
            case .interrupted: console.note("Ctrl-D or /quit ends the conversation.")
            case .text(let text):
                guard text.contains(where: { !$0.isWhitespace }) else { continue }
                if ChatHistory.remembers(text) { editor.remember(text) }
                guard try await session.handle(text) else { return }
                for line in session.typed.takenLines() where ChatHistory.remembers(line) { editor.remember(line) }
            }
        }
    }
}
