@_spi(ChappieInternals) import ChappieClient
@_spi(ChappieInternals) import ChappieCore
import ChappieDesktopLinux
@_spi(ChappieInternals) import ChappieFiles
@_spi(ChappieInternals) import ChappieJSONSchema
import ChappieMCP
import ChappieMarkdown
@_spi(ChappieInternals) import ChappieRuntime
import ChappieSDK
import ChappieThreadsSQLite

/// A conversation on the command line. It sends each line or performs it as a command.
struct ChatSession: Sendable {
    private let program: Program
    private var options: AnswerOptions
    private(set) var chat: ChatThread
    private let running: RunningTurn
    /// The lines that the user types during an answer.
    let typed: TypedLines
    private let attachments: ChatAttachments
    private let approval: ToolApproval
    /// Whether a user types at a terminal. In that case an error does not end the chat.
    private let isInteractive: Bool
    /// Whether lines may read and write files and start programs.
    private let permitsAll: Bool
    /// The instructions, attachments, template and schema of the next message.
    private var frame: MessageFrame
    /// The last question, if it did not begin a turn, for another attempt.
    private var unsent: String?
    private var searchesWeb: Bool
    private var draws: Bool
    private var transport: TransportSummary?
    /// The first command that failed in a chat without a user. Its status is the status of the chat.
    private(set) var failure: CommandLineError?
    /// The latest limits that an answer or `/usage` reported.
    private(set) var limits: ChappieUsageLimitSnapshot?

    private var client: ChappieClient { chat.client }
    private var console: Console { program.console }
    private var reports: ChatReports { ChatReports(client: client, program: program, running: running) }

    init(
        _ chat: ChatThread, _ program: Program, _ options: AnswerOptions, _ frame: MessageFrame,
        _ approval: ToolApproval, _ reader: any LineReader, _ typed: TypedLines, draws: Bool, isInteractive: Bool,
        permitsAll: Bool
    ) async {
        self.chat = chat
        self.program = program
        self.options = options
        self.frame = frame
        self.approval = approval
        self.typed = typed
        self.isInteractive = isInteractive
        self.permitsAll = isInteractive || permitsAll
        searchesWeb = options.web
        self.draws = draws
        running = RunningTurn(isInteractive: isInteractive)
        attachments = ChatAttachments(program: program, reader: reader)
        // From a pipe, the output has only what was asked for.
        if isInteractive { announce(await chat.thread) }
    }

    /// Shows which conversation continues, and its last question and answer.
    private func announce(_ thread: ChappieThread?) {
        guard let thread, !thread.turns.isEmpty else { return }
        console.note("Continuing \(thread.summary.shownName) (turns: \(thread.turns.count)).")
        guard let last = ChatTranscript(thread.turns).turns.last else { return }
        console.line("\nYou: \(last.question.trimmedEnd)\n")
        let answer = last.answer.trimmedEnd + "\n"
        guard var drawing = (options.markdown ?? .auto).stream(on: console) else { return console.write(answer) }
        console.draw(drawing.append(answer) + drawing.finish())
    }

    /// Sends the line or performs the command in it.
    ///
    /// - Returns: whether the conversation continues.
    /// - Throws: an error that ends the chat: a missing sign-in, `CancellationError`, and if `isInteractive` is
    ///   `false`, every error of a message.
    mutating func handle(_ text: String) async throws -> Bool {
        var asks = ChatCommand(text)?.asks == true
        do {
            guard let command = ChatCommand(text) else {
                if isInteractive, let paths = try await attachments.dropped(text) {
                    attach(try await running.run { [attachments] in try await attachments.read(paths) })
                } else {
                    asks = true
                    try await ask(text)
                }
                return true
            }
            if command == .quit { return false }
            if !permitsAll, let name = command.nameOfRestricted {
                throw CommandLineError.usage(
                    "\(name) needs --commands, because the line comes from a pipe.",
                    suggestion: "A line that begins with a blank is sent as a message.")
            }
            if !isInteractive, case .unknown(let name) = command {
                throw CommandLineError.usage(ChatCommand.correction(of: name))
            }
            try await perform(command)
        } catch {
            // A command that fails leaves the conversation unchanged, so the next message can be sent.
            guard isInteractive || ChatCommand(text).map(isHarmless) == true else { throw error }
            try Task.checkCancellation()
            if error is CancellationError {
                console.note(asks ? "Stopped. The conversation continues without this answer." : "Stopped.")
                return true
            }
            let problem = CommandLineError(ResetCredits(program).explained(error))
            // A tool server may require its own sign-in. This does not end the conversation.
            guard problem.status != .signInNeeded || error is ChappieMCPError else { throw error }
            console.note("chappie: \(problem.message)")
            if let suggestion = problem.suggestion { console.note("         \(suggestion)") }
            if !isInteractive { failure = failure ?? problem }
        }
        return true
    }

    /// Returns whether a chat without a user continues after an error of the command.
    private func isHarmless(_ command: ChatCommand) -> Bool {
        if case .unknown = command { return false }
        return !command.asks && (permitsAll || command.nameOfRestricted == nil)
    }

    /// Asks the question and prints the answer.
    mutating func ask(_ text: String) async throws { try await ask(text, frame) }

    private mutating func ask(_ text: String, _ asked: MessageFrame) async throws {
        let messages = try asked.messages(asking: text, options.messageOptions)
        unsent = text
        frame = asked
        try await ask(messages, question: asked.subject(of: text))
    }

    /// Asks the last question again. The new answer replaces the earlier one.
    private mutating func askAgain() async throws {
        if let unsent { return try await ask(unsent, frame) }
        guard let turn = await chat.thread?.turns.last, !turn.messages.isEmpty else {
            return console.note("There is nothing to ask again.")
        }
        var messages = turn.messages + turn.steeringMessages
        let last = messages.count - 1
        messages[last].options = options.messageOptions
        try await ask(messages, isRetry: true)
    }

    private mutating func ask(
        _ messages: [ChappieInputMessage], question: String? = nil, isRetry: Bool = false
    ) async throws {
        let (chat, program, options, asked) = (chat, program, options, frame)
        var request = options.request(
            messages, model: chat.chosenModel, schema: asked.schema, searchesWeb: searchesWeb, draws: draws)
        request.question = question
        let earlier = await chat.thread?.turns.last?.id
        let strict = try asked.schema.map { try ChappieStrictSchema($0) }
        let isReshaped = strict?.changesAnswers == true
        frame = asked.next
        let printed: AnswerPrinter
        do {
            let keeping = await chat.kept?.next
            let runtime = chat.runtime
            let turn =
                isRetry
                ? runtime.startRetry(request, endsWithItsStream: true)
                : runtime.begin(.new(request), endsWithItsStream: true)
            let printing = { @Sendable [running, isInteractive, approval] in
                try await running.run(stop: { turn.interrupt() }) {
                    var printer = AnswerPrinter(
                        program.console, program.options,
                        markdown: (options.markdown ?? .auto).stream(on: program.console), showsText: !isReshaped,
                        showsTools: isInteractive, onApproval: approval.announce)
                    printer.keeping = keeping
                    printer.pictures = MadePictures(program: program)
                    defer { program.lastAnswer?.keep(printer.transport) }
                    try await printer.print(turn.events)
                    return printer
                }
            }
            printed =
                isInteractive
                ? try await typed.during(printing) { (try? await runtime.steer($0)) ?? true } : try await printing()
        } catch {
            let turn = await chat.thread?.turns.last
            if turn?.id != earlier { unsent = nil }
            // The next message takes the attachments of a question that is not part of the conversation.
            if turn?.id == earlier || turn?.isPartOfConversation == false { frame = asked }
            throw error
        }
        unsent = nil
        transport = printed.transport
        limits = printed.limits ?? limits
        let hasReplaced = await chat.thread?.turns.last?.isPartOfConversation != false
        if printed.response?.isInterrupted == true {
            return console.note("Stopped. The \(hasReplaced ? "partial" : "earlier") answer is kept.")
        }
        if !hasReplaced { console.note("The earlier answer is kept.") }
        if let response = printed.response, response.status == .completed, response.outputText.isEmpty,
            response.refusals.isEmpty
        {
            return console.note("The answer has no text. Rephrase the question.")
        }
        if let response = printed.response, let schema = asked.schema {
            try Ask.checkWhole(response)
            let answer = strict?.answer(text: response.outputText) ?? response.outputText
            if isReshaped, !program.options.json { console.write(answer + "\n") }
            try Ask.check(answer, against: schema)
        }
    }

    func disconnect() async {
        running.leave()
        await client.disconnect()
    }

    // MARK: Commands

    private mutating func perform(_ command: ChatCommand) async throws {
        switch command {
        case .model(let slug?):
            _ = try Setting.model.value(from: [slug], name: "/model")
            await chat.choose(slug)
            console.note("The conversation continues with \(slug).")
        case .effort(let word?):
            let level = word.lowercased()
            _ = try Setting.effort.value(from: [level], name: "/effort")
            options.effort = level
            options.fast = false
            console.note("The model thinks with the effort \(level) from the next message on.")
        case .effort(nil):
            let level = options.fast ? "low" : options.effort ?? "the model's own"
            console.line("\(level)\n/effort LEVEL chooses another: \(Setting.efforts.joined(separator: ", ")).")
        case .system(let text?):
            frame.system = text
            console.note("The model gets this with the next message.")
        case .system(nil): console.line(frame.system ?? "/system TEXT gives instructions with the next message.")
        case .template(let name):
            frame.template = try name.map { try Template(named: $0, program.environment) }
            frame.givesInstructions = true
            console.note(name.map { "Messages are put into the template \($0)." } ?? "Messages are sent unchanged.")
        case .file(let path?): try await attach(path, as: .file)
        case .image(let path?): try await attach(path, as: .image)
        case .file(nil), .image(nil): console.line(attached)
        case .resource(nil): try await reports.offers(.resources)
        case .prompt(nil): try await reports.offers(.prompts)
        case .resource(let name?): try await attachResource(name)
        case .prompt(let line?): try await ask(withPrompt: line)
        case .web(let isOn):
            searchesWeb = isOn ?? !searchesWeb
            console.note(searchesWeb ? "The model may search the web." : "The model does not search the web.")
        case .draw(let isOn):
            draws = isOn ?? !draws
            console.note(draws ? "The model may make pictures." : "The model makes no pictures.")
        case .apps(nil): try await reports.apps()
        case .apps(let names?): try reports.chooseApps(names)
        case .paste: attach([try await running.run { [attachments] in try await attachments.pasted() }])
        case .edit(let text):
            let message = try await TextEditor(program.environment, console).edit(
                Array((text ?? "").utf8), ending: ".md"
            ) { String(decoding: $0, as: UTF8.self).trimmedEnd }
            guard !message.isEmpty else { return console.note("There is nothing to send.") }
            console.line(message + "\n")
            try await ask(message)
        case .retry:
            try await askAgain()
        case .undo:
            guard let question = try await chat.runtime.takeBackLastTurn()?.question else {
                return console.note("There is nothing to take back.")
            }
            unsent = nil
            console.note(
                "Taken back: \(PlainText.cut(question.split(separator: "\n").first.map(String.init) ?? "", to: 60))")
        case .copy:
            guard let answer = await chat.transcript.lastAnswer else {
                return console.note("There is no answer to copy yet.")
            }
            switch try await running.run({ [program] in try await program.clipboard.copy(answer) }) {
            case .copied: console.note("The answer is copied.")
            case .requested: console.note("The terminal was asked to copy the answer; some don't.")
            }
        case .threads(let words): try await reports.threads(words)
        case .open(let name?): try await open(name)
        case .open(nil): console.note("/open ID continues a kept conversation; /threads lists them.")
        case .model(nil):
            let model = try await chat.model(running)
            console.line("\(model)\n/model SLUG chooses another; chappie models lists yours.")
        case .usage:
            let reported = try await reports.usage(try? await chat.model(running), await chat.context)
            limits = reported ?? limits
        case .compact: try await compact()
        case .clear:
            try await chat.clear()
            unsent = nil
            frame.givesInstructions = true
            console.note("A new conversation begins.")
        case .save(let path):
            let transcript = await chat.transcript
            guard !transcript.isEmpty else { return console.note("There is nothing to save yet.") }
            // Opening a named pipe waits for its reader.
            let file = try await running.run { [program] in
                try await transcript.save(to: path, program.environment)
            }
            console.note("The conversation is in \(file).")
        case .tools: try await reports.tools()
        case .transport:
            console.line(transport.map { TransportSummary.words($0.json) } ?? "There is no answer yet.")
        case .help: console.line(ChatCommand.helpText)
        case .unknown(let name): console.note(ChatCommand.correction(of: name))
        case .quit: break
        }
    }

    private mutating func attach(_ argument: String, as kind: ChatAttachments.Kind) async throws {
        attach(try await running.run { [attachments] in try await attachments.read(argument, as: kind) })
    }

    private mutating func attach(_ parts: [ChappieInputMessage.Part]) {
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

    private mutating func attachResource(_ name: String) async throws {
        let offers = program.startedTools.offers
        guard let parts = try await running.run({ try await offers.attachments(name) }) else {
            return console.note("No tool server has that name. /resource lists them.")
        }
        attach(parts)
    }

    /// Asks with a prompt of a tool server.
    private mutating func ask(withPrompt line: String) async throws {
        let offers = program.startedTools.offers
        var asked = frame
        asked.prompt = try await running.run { try await offers.prompt(inLine: line) }
        // The text is shown as a quotation because the server wrote it.
        let words = UntrustedText.forTerminal(asked.prompt.map(\.text).joined(separator: "\n\n"))
        for line in words.split(separator: "\n", omittingEmptySubsequences: false) { console.line("> \(line)") }
        console.line()
        try await ask("", asked)
    }

    private mutating func open(_ name: String) async throws {
        guard chat.kept != nil else {
            return console.note("This conversation is not kept, so that no other one can take its place here.")
        }
        let (opened, thread) = try await running.run { [program, chat] in
            var chat = chat
            let thread = try await chat.open(try await Threads.store(program).thread(named: name).id)
            return (chat, thread)
        }
        chat = opened
        announce(thread)
        unsent = nil
        frame.givesInstructions = false
    }

    private func compact() async throws {
        let (runtime, client) = (chat.runtime, client)
        guard await !chat.transcript.isEmpty else { return console.note("There is nothing to sum up yet.") }
        let program = program
        let context = try await running.run {
            for try await event in runtime.begin(.compaction, endsWithItsStream: true).events {
                if case .notice(let notice) = event { program.note(notice) }
            }
            return await client.context()
        }
        console.note("The conversation is summed up; it takes about \(context.estimatedTokens) tokens now.")
    }
}
