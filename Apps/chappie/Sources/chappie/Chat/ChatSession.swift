@_spi(ChappieInternals) import ChappieCore
import ChappieDesktopLinux
@_spi(ChappieInternals) import ChappieFiles
import ChappieLineEditor
import ChappieMarkdown
@_spi(ChappieInternals) import ChappieRuntime
import ChappieSDK
import ChappieThreadsSQLite
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
    /// The instructions, attachments, template and schema of the next message.
    private var frame: MessageFrame
    /// The last question, for another attempt, and whether the model answered it.
    private var last: (text: String, frame: MessageFrame, isAnswered: Bool)?
    /// The contexts before each turn of a conversation that is not kept.
    private var contexts: [ChappieClientContext] = []
    /// Asks the user whether to attach a file.
    private let reader: any LineReader
    /// Whether a user types at a terminal: then an error does not end the chat, and Ctrl-C ends the turn.
    private let isInteractive: Bool
    private let approval: ToolApproval
    /// The model that the user chose by name; else the thread's own model is used, or the account's best.
    private var chosenModel: String?
    /// The model of a thread that was opened, before its first turn here.
    private var threadModel: String?
    private var searchesWeb: Bool
    /// The model that the command line or `/model` has named.
    private var namedModel: String?
    private let running = RunningTurn()
    private var transcript = ChatTranscript()
    private var transport: TransportSummary?

    var conversation: any ChappieConversation { kept?.runtime ?? client }
    private var console: Console { program.console }

    init(
        _ client: ChappieClient, _ kept: KeptConversation?, _ program: Program, _ options: AnswerOptions,
        _ frame: MessageFrame, _ approval: ToolApproval, _ reader: any LineReader,
        namedModel: String?, isInteractive: Bool
    ) async {
        self.client = client
        self.kept = kept
        self.program = program
        self.options = options
        self.frame = frame
        searchesWeb = options.web
        self.namedModel = namedModel
        self.reader = reader
        self.approval = approval
        self.isInteractive = isInteractive
        if isInteractive { Interruption.takesCtrlC.withLock { [running] in $0 = { running.stop() } } }
        let thread = await kept?.runtime.currentThread
        chosenModel = options.model
        if let thread { use(thread) }
    }

    /// Takes over a kept conversation.
    private mutating func use(_ thread: ChappieThread) {
        threadModel = thread.summary.model.isEmpty ? nil : thread.summary.model
        transcript = ChatTranscript()
        for turn in thread.turns where turn.status == .finished {
            transcript.add(question: turn.messages.last?.text ?? "", answer: turn.outputText, by: turn.model)
        }
        if !thread.turns.isEmpty, isInteractive {
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
                if isInteractive, try await attachesDropped(text) { return true }
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
    mutating func ask(_ text: String) async throws { try await ask(text, frame) }

    private mutating func ask(_ text: String, _ asked: MessageFrame) async throws {
        let (conversation, kept, program, options) = (conversation, kept, program, options)
        let request = options.request(
            try asked.messages(asking: text, options.messageOptions), model: chosenModel, schema: asked.schema,
            searchesWeb: searchesWeb)
        if kept == nil { contexts.append(await client.context()) }
        last = (text, asked, false)
        frame = asked.next
        let printed: AnswerPrinter
        do {
            let keeping = await kept?.next
            let turn = conversation.begin(.new(request), endsWithItsStream: true)
            printed = try await stoppable(stop: { turn.interrupt() }) { [isInteractive, approval] in
                var printer = AnswerPrinter(
                    program.console, program.options, markdown: (options.markdown ?? .auto).stream(on: program.console),
                    showsTools: isInteractive, onApproval: approval.announce)
                printer.keeping = keeping
                defer { program.lastAnswer?.keep(printer.transport) }
                try await printer.print(turn.events)
                return printer
            }
        } catch {
            // The next message takes the attachments of a question that has no answer.
            frame = asked
            if kept == nil { contexts.removeLast() }
            throw error
        }
        last?.isAnswered = true
        transport = printed.transport
        let question = text.isEmpty ? asked.prompt.last?.text ?? "" : text
        transcript.add(
            question: question, answer: printed.response?.outputText ?? "", by: printed.response?.model ?? "")
        threadModel = nil
        if printed.response?.isInterrupted == true { return console.note("Stopped. What was said stays.") }
        if let response = printed.response, let schema = asked.schema {
            try Ask.checkWhole(response, mayBeEmpty: true)
            try Ask.check(response.outputText, against: schema)
        }
    }

    func disconnect() async {
        Interruption.takesCtrlC.withLock { $0 = nil }
        await client.disconnect()
    }

    /// Runs `work`; in an interactive chat Ctrl-C ends `work` alone.
    ///
    /// - Parameter stop: ends it. Default: it is cancelled.
    private func stoppable<Result: Sendable>(
        stop: (@Sendable () -> Void)? = nil, _ work: @escaping @Sendable () async throws -> Result
    ) async throws -> Result {
        guard isInteractive else { return try await work() }
        let task = Task { try await work() }
        running.begins(stop ?? { task.cancel() })
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
            namedModel = slug
            await client.selectModel(slug)
            console.note("The conversation continues with \(slug).")
        case .system(let text?):
            frame.system = text
            console.note("The model gets this with the next message.")
        case .system(nil): console.line(frame.system ?? "/system TEXT gives instructions with the next message.")
        case .template(let name):
            frame.template = try name.map { try Template(named: $0, program.environment) }
            frame.givesInstructions = true
            console.note(name.map { "Messages are put into the template \($0)." } ?? "Messages are sent as they are.")
        case .file(let path?): try await attach(path, as: .file)
        case .image(let path?): try await attach(path, as: .image)
        case .file(nil), .image(nil): console.line(attached)
        case .resource(nil): try await listOffers(.resources)
        case .prompt(nil): try await listOffers(.prompts)
        case .resource(let name?): try await attachResource(name)
        case .prompt(let line?):
            let offers = program.startedTools.offers
            var asked = frame
            asked.prompt = try await stoppable { try await offers.prompt(inLine: line) }
            // The server wrote it: it stands in a quotation.
            let words = UntrustedText.forTerminal(asked.prompt.map(\.text).joined(separator: "\n\n"))
            for line in words.split(separator: "\n", omittingEmptySubsequences: false) { console.line("> \(line)") }
            console.line()
            try await ask("", asked)
        case .web(let isOn):
            searchesWeb = isOn ?? !searchesWeb
            console.note(searchesWeb ? "The model may search the web." : "The model does not search the web.")
        case .paste:
            let bytes = try await program.clipboard.paste()
            frame.attachments.append(try Attachment.pasted(bytes))
            console.note(attached)
        case .edit(let text):
            let edited = try await TextEditor(program.environment, console).edit(
                Array((text ?? "").utf8), ending: ".md")
            let message = String(decoding: edited, as: UTF8.self).trimmedEnd
            guard !message.isEmpty else { return console.note("There is nothing to send.") }
            console.line(message + "\n")
            try await ask(message)
        case .retry:
            guard let last else { return console.note("There is nothing to ask again.") }
            if last.isAnswered { try await takeBack() }
            try await ask(last.text, last.frame)
        case .undo:
            guard let question = try await takeBack() else { return console.note("There is nothing to take back.") }
            console.note(
                "Taken back: \(PlainText.cut(question.split(separator: "\n").first.map(String.init) ?? "", to: 60))")
        case .copy:
            guard let answer = transcript.lastAnswer else { return console.note("There is no answer to copy yet.") }
            switch try await program.clipboard.copy(answer) {
            case .copied: console.note("The answer is copied.")
            case .requested: console.note("The terminal was asked to copy the answer; some don't.")
            }
        case .threads(let words): try await listThreads(words)
        case .open(let name?): try await open(name)
        case .open(nil): console.note("/open ID continues a kept conversation; /threads lists them.")
        case .model(nil):
            let model = try await model
            console.line("\(model)\n/model SLUG chooses another; chappie models lists yours.")
        case .usage: try await showUsage()
        case .compact: try await compact()
        case .clear:
            try await conversation.clear()
            transcript = ChatTranscript()
            last = nil
            contexts = []
            frame.givesInstructions = true
            // A thread that was continued kept its model; a new conversation has the user's.
            chosenModel = namedModel ?? options.model ?? program.settings[.model]?.string
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

    // MARK: Tool servers

    private func listOffers(_ kind: ServerOffers.Kind) async throws {
        let offers = program.startedTools.offers
        let lines = try await stoppable { try await offers.lines(kind) }
        lines.forEach(console.line)
    }

    private mutating func attachResource(_ name: String) async throws {
        let offers = program.startedTools.offers
        guard let parts = try await stoppable({ try await offers.attachments(name) }) else {
            return console.note("No tool server here is named so. /resource lists what there is.")
        }
        frame.attachments += parts
        console.note(attached)
    }

    // MARK: Attachments

    private enum AttachmentKind { case file, image }

    private mutating func attach(_ argument: String, as kind: AttachmentKind) async throws {
        let isAddress = ["https:", "http:", "data:"].contains(where: argument.lowercased().hasPrefix)
        let paths = isAddress ? [argument] : PathArgument.paths(in: argument, home: program.environment["HOME"])
        var parts: [ChappieInputMessage.Part] = []
        for path in paths {
            switch kind {
            case .image: parts.append(try await Attachment.image(path))
            case .file: parts += try await Attachment.file(path, program.outside, console)
            }
        }
        frame.attachments += parts
        console.note(attached)
    }

    private var attached: String {
        switch frame.attachments.count {
        case 0: "Nothing is attached. /file PATH and /image PATH attach to the next message."
        case 1: "One attachment goes with the next message."
        case let count: "\(count) attachments go with the next message."
        }
    }

    /// Offers to attach files that were dropped on the terminal's window.
    ///
    /// - Returns: `false` for a text that is to be sent.
    private mutating func attachesDropped(_ text: String) async throws -> Bool {
        guard let paths = PathArgument.dropped(text, home: program.environment["HOME"]) else { return false }
        let names = paths.map { PlainText.cut($0.split(separator: "/").last.map(String.init) ?? "", to: 60) }.joined(
            separator: ", ")
        guard try await reader.confirms("Attach \(names)?") else { return false }
        var parts: [ChappieInputMessage.Part] = []
        for path in paths {
            let isImage = (try? await Attachment.image(path)).map { parts.append($0) } != nil
            if !isImage { parts += try await Attachment.file(path, program.outside, console) }
        }
        frame.attachments += parts
        console.note(attached)
        return true
    }

    // MARK: Turns and threads

    /// Takes the last turn out of the conversation. A kept one continues as a copy without it; the whole one is archived.
    ///
    /// - Returns: The question; `nil` without one.
    @discardableResult
    private mutating func takeBack() async throws -> String? {
        guard let question = transcript.lastQuestion else { return nil }
        if let kept {
            // Turns that were stopped or failed are no part of the conversation, and may stand behind it.
            guard let thread = await kept.runtime.currentThread,
                let last = thread.turns.lastIndex(where: { $0.status == .finished })
            else { return nil }
            if last > 0 {
                try await kept.runtime.forkThread(thread.id, at: last)
            } else {
                try await kept.runtime.clear()
            }
            try await kept.runtime.archiveThread(thread.id)
        } else if let context = contexts.popLast() {
            await client.resumeContext(context)
        } else {
            return nil
        }
        transcript.removeLast()
        last = nil
        return question
    }

    /// The threads, or those with these words.
    private func listThreads(_ words: String?) async throws {
        let store = try Threads.store(program)
        var table = Table(["Thread", "Changed", "Turns", "Name"])
        let threads =
            if let words { try await store.readableHits(ChappieThreadQuery(words)).hits.map(\.thread) } else {
                try await store.readableThreads().threads.latestFirst(includeArchived: false)
            }
        for thread in threads.prefix(Self.listLimit) {
            table.rows.append([thread.shortID, thread.updatedAt.localMinute, "\(thread.turnCount)", thread.shownName])
        }
        guard !threads.isEmpty else {
            return console.note(words == nil ? "There are no threads yet." : "Nothing found.")
        }
        for line in table.lines(isTerminal: console.terminals.output, width: TerminalState.size()?.columns) {
            console.line(line)
        }
        if threads.count > Self.listLimit {
            console.note("… and \(threads.count - Self.listLimit) more: chappie threads.")
        }
    }

    private static let listLimit = 15

    private mutating func open(_ name: String) async throws {
        guard let kept else {
            return console.note("This conversation is not kept, so that no other one can take its place here.")
        }
        let id = try await Threads.store(program).thread(named: name).id
        let thread = try await kept.runtime.openThread(id)
        last = nil
        frame.givesInstructions = false
        use(thread)
        // It keeps its model, unless the command line names another; the client would take the settings'.
        chosenModel = namedModel ?? (options.model == nil ? nil : threadModel)
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

    /// The names that Tab offers, requested at the first need. A call blocks for two seconds at most.
    func completions() -> ChatCommand.Known {
        let (client, program) = (client, program)
        let (models, threads) = (BlockingValue<[String]>(), BlockingValue<[String]>())
        let (resources, prompts) = (BlockingValue<[String]>(), BlockingValue<[String]>())
        let offers = program.startedTools.offers
        return ChatCommand.Known(
            models: { models.value(within: 2) { try await client.models().map(\.slug) } ?? [] },
            templates: { Template.names(program.environment) },
            threads: {
                threads.value(within: 2) {
                    let all = try await Threads.store(program).readableThreads().threads
                    return all.latestFirst(includeArchived: false).map(\.shortID)
                } ?? []
            }, resources: { resources.value(within: 2) { await offers.names(.resources) } ?? [] },
            prompts: { prompts.value(within: 2) { await offers.names(.prompts) } ?? [] })
    }
}
