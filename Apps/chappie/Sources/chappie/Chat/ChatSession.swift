@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieLineEditor
import ChappieMarkdown
import ChappieRuntime
import ChappieSDK
import FoundationEssentials
import Glibc
import Synchronization

/// A conversation on the command line; it sends each line or performs it as a command.
struct ChatSession: Sendable {
    private let client: ChappieClient
    /// The thread that keeps the conversation; `nil` if nothing is kept.
    private let kept: KeptConversation?
    private let program: Program
    private let options: AnswerOptions
    /// Whether a user types at a terminal: then an error does not end the chat, and Ctrl-C ends the turn.
    private let isInteractive: Bool
    private let approval: ToolApproval
    /// The model that the user chose by name; else the thread's own model is used, or the account's best.
    private var chosenModel: String?
    /// The model of a thread that was opened, before its first turn here.
    private var threadModel: String?
    private let running = RunningTurn()
    private var transcript = ChatTranscript()
    private var transport: TransportSummary?

    var conversation: any ChappieConversation { kept?.runtime ?? client }
    private var console: Console { program.console }

    init(
        _ client: ChappieClient, _ kept: KeptConversation?, _ program: Program, _ options: AnswerOptions,
        _ approval: ToolApproval, isInteractive: Bool
    ) async {
        self.client = client
        self.kept = kept
        self.program = program
        self.options = options
        self.approval = approval
        self.isInteractive = isInteractive
        if isInteractive { Interruption.takesCtrlC.withLock { [running] in $0 = { running.stop() } } }
        let thread = await kept?.runtime.currentThread
        chosenModel = options.model
        threadModel = thread.flatMap { $0.summary.model.isEmpty ? nil : $0.summary.model }
        for turn in thread?.turns ?? [] where turn.status == .finished {
            transcript.add(question: turn.messages.last?.text ?? "", answer: turn.outputText, by: turn.model)
        }
        if let thread, !thread.turns.isEmpty, isInteractive {
            console.note("Continuing \(thread.summary.shownName) (turns: \(thread.turns.count)).")
        }
    }

    /// Sends the line, or performs the command in it.
    ///
    /// - Returns: whether the conversation continues.
    /// - Throws: an error that ends the chat: every error if `isInteractive` is `false`, else a missing sign-in and
    ///   `CancellationError`.
    mutating func handle(_ text: String) async throws -> Bool {
        do {
            guard let command = ChatCommand(text) else {
                try await ask(text)
                return true
            }
            if command == .quit { return false }
            try await perform(command)
        } catch {
            guard isInteractive else { throw error }
            try Task.checkCancellation()
            if error is CancellationError {
                console.note("Stopped. The conversation continues without this answer.")
                return true
            }
            let problem = CommandLineError(error)
            guard problem.status != .signInNeeded else { throw error }
            console.note("chappie: \(problem.message)")
            if let suggestion = problem.suggestion { console.note("         \(suggestion)") }
        }
        return true
    }

    /// Asks, and prints the answer.
    mutating func ask(_ text: String) async throws {
        let (conversation, kept, program, options) = (conversation, kept, program, options)
        let request = ChappieResponseRequest(messages: [options.message(text)], model: chosenModel)
        let printed = try await stoppable { [isInteractive, approval] in
            var printer = AnswerPrinter(
                program.console, program.options, markdown: options.markdown.stream(on: program.console),
                showsTools: isInteractive, onApproval: approval.announce)
            printer.keeping = await kept?.next
            defer { program.lastAnswer?.keep(printer.transport) }
            try await printer.print(conversation.streamResponse(request))
            return printer
        }
        transport = printed.transport
        transcript.add(question: text, answer: printed.response?.outputText ?? "", by: printed.response?.model ?? "")
        threadModel = nil
    }

    func disconnect() async {
        Interruption.takesCtrlC.withLock { $0 = nil }
        await client.disconnect()
    }

    /// Runs `work`; in an interactive chat Ctrl-C ends `work` alone.
    private func stoppable<Result: Sendable>(
        _ work: @escaping @Sendable () async throws -> Result
    ) async throws -> Result {
        guard isInteractive else { return try await work() }
        let task = Task { try await work() }
        running.begins { task.cancel() }
        TerminalState.echo(false)
        Interruption.takesStops(true)
        defer {
            Interruption.takesStops(false)
            TerminalState.echo(true)
            running.ends()
        }
        return try await withTaskCancellationHandler {
            try await task.value
        } onCancel: {
            task.cancel()
        }
    }

    // MARK: Commands

    private mutating func perform(_ command: ChatCommand) async throws {
        switch command {
        case .model(let slug?):
            chosenModel = slug
            await client.selectModel(slug)
            console.note("The conversation continues with \(slug).")
        case .model(nil):
            let model = try await model
            console.line("\(model)\n/model SLUG chooses another; chappie models lists yours.")
        case .usage: try await showUsage()
        case .compact: try await compact()
        case .clear:
            try await conversation.clear()
            transcript = ChatTranscript()
            console.note("A new conversation begins.")
        case .save(let path): try save(to: path)
        case .tools: try await showTools()
        case .transport:
            console.line(transport.map { TransportSummary.words($0.json) } ?? "No answer has come yet.")
        case .help: console.line(ChatCommand.helpText)
        case .unknown(let name): console.note(ChatCommand.correction(of: name))
        case .quit: break
        }
    }

    /// The model of the next turn.
    private var model: String {
        get async throws {
            if let known = chosenModel ?? threadModel { return known }
            let client = client
            return UntrustedText.forTerminal(try await stoppable { try await client.model.slug })
        }
    }

    private func compact() async throws {
        let (conversation, client) = (conversation, client)
        guard !transcript.isEmpty else { return console.note("There is nothing to sum up yet.") }
        let context = try await stoppable {
            try await conversation.compact()
            return await client.context()
        }
        console.note("The conversation is summed up; it takes about \(context.estimatedTokens) tokens now.")
    }

    private func showTools() async throws {
        let client = client
        let tools = try await stoppable { try await client.availableTools() }
        guard !tools.isEmpty else {
            return console.line("The model has no tools here. chappie chat --tools FILE gives it some.")
        }
        for tool in tools {
            let name = (tool.namespace.map { "\($0)/" } ?? "") + tool.name
            let text = tool.description.isEmpty ? name : "\(name): \(tool.description)"
            console.line(UntrustedText.message(tool.policy == .ask ? "\(text) (asks first)" : text, limit: 500) ?? name)
        }
    }

    private func showUsage() async throws {
        let client = client
        let model = try? await model
        do {
            let usage = try await stoppable { try await client.usageLimits() }
            for line in Usage.lines(usage, isTerminal: console.terminals.output) { console.line(line) }
        } catch ChappieClientError.usageNotReported(let page) {
            for line in PlanWords.usage(page) { console.line(line) }
        }
        // Without its list of models the service does not say how large a window is.
        let listed = try? await stoppable { try await client.models(filter: ChappieModelFilter(includesHidden: true)) }
        guard let window = listed?.first(where: { $0.slug == model })?.contextWindow, window > 0 else {
            return console.line("Context: about \(await client.context().estimatedTokens) tokens.")
        }
        let size = await client.contextSize(contextWindow: window)
        let percent = Int(size.usedPercent.rounded(.up))
        console.line("Context: \(percent) % of \(window) tokens, about \(size.estimatedTokens).")
    }

    private func save(to path: String?) throws {
        guard !transcript.isEmpty else { return console.note("There is nothing to save yet.") }
        let home = program.environment["HOME"] ?? ""
        let name = path ?? "chappie-\(Date().localMinute.replacing(" ", with: "-").replacing(":", with: "")).md"
        let file = name.hasPrefix("~/") ? home + name.dropFirst() : name
        guard PrivateFile.create(file, with: Array(transcript.markdown.utf8)) else {
            throw CommandLineError.usage(
                "\(file) can't be written: \(String(cString: strerror(errno))).",
                suggestion: "Name another: /save FILE.")
        }
        console.note("The conversation is in \(file).")
    }

    /// The models that Tab offers, requested at the first need. The call blocks for two seconds at most.
    func modelCompletions() -> @Sendable () -> [String] {
        let (client, known) = (client, BlockingValue<[String]>())
        return { known.value(within: 2) { try await client.models().map(\.slug) } ?? [] }
    }
}

/// The turn that Ctrl-C ends instead of the program.
private final class RunningTurn: Sendable {
    private struct State {
        var cancel: (@Sendable () -> Void)?
        var isStopped = false
        var hasEnded = false
    }

    private let state = Mutex(State())

    func begins(_ cancel: @escaping @Sendable () -> Void) { state.withLock { $0 = State(cancel: cancel) } }

    func ends() { state.withLock { $0 = State(hasEnded: true) } }

    /// - Returns: whether the program continues. A second Ctrl-C ends it, if the first did not help. A Ctrl-C that
    ///   comes too late, between the end of the answer and the prompt, was meant for the answer.
    func stop() -> Bool {
        state.withLock { state in
            defer {
                state.isStopped = true
                state.hasEnded = false
            }
            guard let cancel = state.cancel else { return state.hasEnded && TerminalState.isBetweenLines }
            if state.isStopped { return false }
            cancel()
            return true
        }
    }
}

/// The questions and answers of a conversation, for a file.
struct ChatTranscript {
    private var turns: [(question: String, answer: String, model: String)] = []

    var isEmpty: Bool { turns.isEmpty }

    mutating func add(question: String, answer: String, by model: String) { turns.append((question, answer, model)) }

    /// As in an export, the Markdown of a message can't affect the text around it.
    var markdown: String {
        let blocks = turns.flatMap { turn in
            [
                "## You", SafeMarkdown.passage(turn.question.trimmedEnd, headingLevel: 1),
                "## " + SafeMarkdown.line(turn.model),
                SafeMarkdown.passage(turn.answer.trimmedEnd, headingLevel: 1),
            ]
        }
        return blocks.joined(separator: "\n\n") + "\n"
    }
}
