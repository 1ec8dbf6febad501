import ArgumentParser
@_spi(ChappieInternals) import ChappieClient
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieJSONSchema
import ChappieMarkdown
import ChappieRuntime
import ChappieSDK
import FoundationEssentials

extension AnswerOptions {
    /// Prints an answer.
    ///
    /// - Parameters:
    ///   - approval: asks about tools when the text before the question is shown.
    ///   - showsText: `false` leaves the text to the caller.
    ///   - streams: whether the text is shown as it arrives. Default `true`.
    /// - Returns: the complete response.
    @discardableResult
    func show(
        _ events: AsyncThrowingStream<ChappieStreamEvent, any Error>, _ program: Program, _ approval: ToolApproval,
        keeping: AnswerKeeping? = nil, showsText: Bool = true, streams: Bool = true
    ) async throws -> ChappieResponse? {
        var printer = AnswerPrinter(
            program.console, program.options, markdown: (markdown ?? .auto).stream(on: program.console),
            showsText: showsText, showsTools: true, streams: streams, onApproval: approval.announce)
        printer.keeping = keeping
        printer.pictures = MadePictures(program: program)
        defer { program.lastAnswer?.keep(printer.transport) }
        try await printer.print(events)
        return printer.response
    }
}

struct Ask: ProgramCommand {
    var settingsUse: SettingsUse { .all }
    var accessTokenUse: AccessTokenUse { .signsIn }
    static let configuration = CommandConfiguration(
        commandName: "ask",
        abstract: "Ask a question and stream the answer.",
        discussion: """
            The arguments are the question. If standard input is redirected, its text is added below them; - reads it \
            from a terminal too. A pipe is read to its end; --no-stdin or < /dev/null leaves it out. A socket, as ssh \
            gives its commands, is left out if it stays silent for half a second.

              chappie ask "What is RFC 6455?"
              git diff | chappie ask "Write a commit message for this"
              chappie ask -i photo.jpg "What is on it?"
              chappie ask -x -o sort.py "A bubble sort in Python"
              chappie ask -c "Now in C"

            Pictures are sent unchanged, with the place that a camera may have noted in them.

            Questions and answers are kept, encrypted: chappie threads lists them, -c continues the last conversation, \
            --ephemeral keeps nothing. If the disk is full, or CHAPPIE_THREADS_LIMIT is reached, you get the answer, \
            and a line says that it is not kept.

            A template is a file NAME.md in $XDG_CONFIG_HOME/chappie/templates (~/.config/chappie/templates), or a \
            path with a slash in it. The file holds the prompt: $input in it stands for the question, $name for the \
            value that -p name VALUE gives, and $$ for a dollar sign. If the prompt has no $input, the question \
            follows it. The file may begin with settings between two lines of three hyphens: model, system, effort, \
            verbosity, each followed by a colon and its value, and $name: VALUE for a variable's default. A value \
            continues in the indented lines below it.

            --tools FILE names tools in this form: {"tools": [{"name": "t", "description": "…", "inputSchema": {…}, \
            "command": "./t", "args": []}], "mcpServers": {"name": {"command": "server", "args": []}}}. A program gets \
            the arguments as JSON on its standard input; its output is the result. Instead of inputSchema it may have a \
            format, {"type": "text"} or {"type": "grammar", "syntax": "lark", "definition": "…"} (or the syntax regex): \
            then it gets the text that the model wrote, as it is. Every entry may also have env, \
            passEnv (names of variables to pass on), cwd, policy (ask, automatic or deny) and timeout in seconds. A \
            server elsewhere has, instead of a command, a url, headers and bearerTokenEnv (the variable with its token); \
            if it wants your sign-in, see chappie tools login --help. \
            A server may have startTimeout (seconds for its start, default 30), allowTools (the names of its only tools) \
            and denyTools. \
            chappie asks you before a tool runs. If there is no terminal, it denies every tool whose policy is not \
            automatic.

            A server's resources are attached with -f SERVER:ADDRESS, and its prompts ask with --prompt SERVER:NAME -p \
            ARGUMENT VALUE; /resource and /prompt in a chat list them. The model reads resources with tools of the \
            server's policy.

            With --json: one object a line: connected, created, reasoning_summary_delta, commentary_delta, text_delta, \
            tool_arguments_delta, item, picture (a file was saved), usage_limits, waiting, reconnecting, restarted \
            (what came of the answer before is void), fell_back, notice, and at the end completed or error.
            """)

    @OptionGroup var options: GlobalOptions
    @OptionGroup var answerOptions: AnswerOptions
    @OptionGroup var threadOptions: ThreadOptions

    @OptionGroup var messageOptions: MessageOptions

    @OptionGroup var pictureOptions: PictureOptions

    @Option(
        name: .shortAndLong,
        help: ArgumentHelp(
            "Write the answer into this file, when it is complete, instead of printing it; - prints it.",
            valueName: "file"),
        completion: .file())
    var output: String?

    @Flag(name: [.customShort("x"), .long], help: "Give only the first code block of the answer.")
    var extract = false

    @Flag(help: "Give only the last code block of the answer.")
    var lastBlock = false

    @Flag(name: .customLong("no-stdin"), help: "Leave standard input out.")
    var leavesInputOut = false

    @Flag(help: "Print the answer when it is complete, and not as it arrives.")
    var noStream = false

    @Flag(name: .shortAndLong, help: "Print only the answer, and errors.")
    var quiet = false

    @Flag(name: .shortAndLong, help: "Print below the answer, on standard error, how many tokens it took.")
    var usage = false

    @Flag(help: "Print what would be sent, and about how many tokens it has. Nothing is sent.")
    var dryRun = false

    @Option(
        help: ArgumentHelp(
            "Write the question, -s, -m, --effort and --verbosity into a new template instead of asking.",
            valueName: "name"))
    var save: String?

    /// The options of models that other programs set with `-o NAME VALUE`.
    private static let optionsElsewhere: Set = [
        "temperature", "top_p", "max_tokens", "max_output_tokens", "seed", "reasoning_effort",
    ]

    private var givesBlock: Bool { extract || lastBlock }

    func validate() throws {
        if extract, lastBlock { throw ValidationError("-x and --last-block give two blocks of one answer.") }
        if let output, Self.optionsElsewhere.contains(output) {
            throw ValidationError(
                "-o names the file for the answer, and there is no option \(output). For a file of this name: "
                    + "-o ./\(output)")
        }
    }

    @Argument(help: "The question; - reads standard input.")
    var words: [String] = []

    func run(in program: Program) async throws {
        if quiet { program.console.beQuiet() }
        if let save { return try await saveTemplate(save, in: program) }
        // Wrong arguments and files are reported before the program waits for standard input.
        var answerOptions = answerOptions
        let frame = try await messageOptions.read(
            goesOn: threadOptions.isContinuing, filling: &answerOptions, in: program)
        let target = try output.flatMap {
            $0 == "-" ? nil : try OutputFile($0, outside: program.environment.threadsFolder)
        }
        let isLeftOut = leavesInputOut || messageOptions.readsInput
        let question = try await Self.question(
            words, isLeftOut ? nil : StandardInput(), program.console,
            mayBeEmpty: frame.template != nil || !frame.attachments.isEmpty || !frame.prompt.isEmpty)
        var request = answerOptions.request(
            try frame.messages(asking: question, answerOptions.messageOptions), model: answerOptions.model,
            schema: frame.schema, searchesWeb: answerOptions.web, draws: pictureOptions.draw)
        request.question = frame.subject(of: question)
        guard !dryRun else { return try await show(request, frame.schema, in: program) }
        let approval = ToolApproval(
            approvesAll: answerOptions.approveTools, reader: TerminalLineReader(console: program.console))
        let client = try program.client(answerOptions, approval: approval)
        try await answerOptions.explainTier(of: client, program.console)
        let kept = try await threadOptions.kept(by: client, in: program)
        let conversation: any ChappieConversation = kept?.runtime ?? client
        let strict = try frame.schema.map { try ChappieStrictSchema($0) }
        // The answer is printed when it has its form.
        let isReshaped = strict?.changesAnswers == true
        let showsText = target == nil && !givesBlock && !isReshaped
        let shown: ChappieResponse?
        do {
            shown = try await answerOptions.show(
                conversation.streamResponse(request), program, approval, keeping: kept?.next, showsText: showsText,
                streams: !noStream)
        } catch ChappieClientError.modelUnavailable(let refusal) where refusal.reason != .atCapacity {
            // Nobody continues a conversation that consists of a question to a wrong model.
            if !threadOptions.isContinuing, let kept, let thread = await kept.runtime.currentThread {
                await kept.runtime.settle()
                try? await kept.runtime.deleteThread(thread.id)
            }
            throw ChappieClientError.modelUnavailable(refusal)
        }
        guard let response = shown else { return }
        if usage, let counts = response.usage { program.console.note("chappie: \(counts.sentence)", isError: true) }
        let answer = strict?.answer(text: response.outputText) ?? response.outputText
        do {
            try Self.checkWhole(response)
            if let schema = frame.schema { try Self.check(answer, against: schema) }
        } catch {
            // A file keeps its content, and an answer that was paid for is not lost.
            if !showsText, !options.json { program.console.note(response.outputText, isError: true) }
            throw error
        }
        let sources = target == nil || frame.schema != nil ? [] : SourceList.lines(response.sources)
        try await deliver(
            answer, sources, to: target, isShown: showsText, program, kept: await kept?.next?.keptThread)
        await client.finishRenewingList()
    }

    /// Shows what the request would send.
    private func show(_ request: ChappieResponseRequest, _ schema: ChappieJSONSchema?, in program: Program) async throws
    {
        var earlier: [ChappieJSON] = []
        var model = request.model
        if threadOptions.isContinuing {
            let store = try Threads.store(program)
            let thread = try await Threads.read(threadOptions.thread, from: store)
            earlier = thread.context.items
            model = model ?? thread.summary.model
        }
        let tools = try program.tools(of: answerOptions).tools
        let plan = DryRun(
            model: model, items: earlier + request.messages.map(\.inputItem), tools: tools.map(\.name),
            schema: schema?.json)
        if options.json { return program.console.json(plan.json) }
        program.console.write(plan.text)
        program.console.note("chappie: \(plan.sentence)")
    }

    /// Writes the question and the options that a template can hold.
    private func saveTemplate(_ name: String, in program: Program) async throws {
        guard messageOptions.isPlain, !threadOptions.isContinuing, answerOptions.tools.isEmpty else {
            throw CommandLineError.usage(
                "A template holds only the question, -s, -m, --effort and --verbosity.",
                suggestion: "Leave out the other options.")
        }
        let prompt = try await Self.question(
            words, leavesInputOut ? nil : StandardInput(), program.console, mayBeEmpty: messageOptions.system != nil)
        let settings: [(name: String, value: String?)] = [
            ("model", answerOptions.model), ("system", messageOptions.system),
            ("effort", answerOptions.fast ? "low" : answerOptions.effort), ("verbosity", answerOptions.verbosity),
        ]
        let path = try Template.save(name, settings, prompt: prompt, program.environment)
        program.say(
            ["template": .string(name), "path": .string(path)],
            "The template is in \(path). Ask with it: chappie -t \(name) …")
    }

    /// Throws an error if the answer is incomplete, refused or empty. A script would otherwise take half a file for a
    /// complete one.
    static func checkWhole(_ response: ChappieResponse) throws {
        if response.status == .incomplete {
            let reason = UntrustedText.message(response.incompleteReason) ?? "the service gave no reason"
            throw CommandLineError(
                .unavailable, code: "answer_incomplete", "The answer is incomplete: \(reason).",
                suggestion: "Ask for the rest with -c, or for something shorter.")
        }
        guard !response.outputText.isEmpty || response.refusals.isEmpty else {
            // The model's own message is shown above, or is in the response.
            throw CommandLineError(
                .unavailable, code: "answer_refused", "The model refused to answer.",
                suggestion: "Rephrase the question, or ask for something else.")
        }
        guard !response.outputText.isEmpty else {
            throw CommandLineError(
                .unavailable, code: "answer_empty", "The answer has no text.", suggestion: "Rephrase the question.")
        }
    }

    /// Checks the answer against the schema, although the backend makes the model follow it.
    static func check(_ answer: String, against schema: ChappieJSONSchema) throws {
        guard let json = try? ChappieJSON(parsing: answer) else {
            throw ChappieClientError.invalidStructuredOutput(
                ChappieSchemaViolation(path: "", message: "It is not JSON."), answer)
        }
        if let violation = try schema.violations(in: json).first {
            throw ChappieClientError.invalidStructuredOutput(violation, answer)
        }
    }

    /// Writes the requested part of the answer to the requested place, or to standard output if that place cannot be
    /// written.
    ///
    /// - Parameters:
    ///   - isShown: whether the answer is on standard output already.
    ///   - thread: the thread that keeps the answer.
    private func deliver(
        _ answer: String, _ sources: [String], to target: OutputFile?, isShown: Bool, _ program: Program,
        kept thread: String?
    ) async throws {
        var text = answer
        if givesBlock {
            if let block = lastBlock ? CodeBlock.last(in: answer) : CodeBlock.first(in: answer) {
                text = block
            } else {
                program.console.note("chappie: there is no code block in the answer; this is the whole answer")
            }
        }
        if !text.isEmpty, !text.hasSuffix("\n") { text += "\n" }
        if !givesBlock, !sources.isEmpty { text += "\n" + sources.joined(separator: "\n") + "\n" }
        if let target {
            do {
                try await target.write(text)
            } catch let error as CommandLineError {
                // With --json, the events contain the text.
                if !options.json { program.console.write(text) }
                let places = thread == nil ? "" : "; `chappie threads show` has it, too"
                throw CommandLineError(
                    error.status, code: error.code, error.message,
                    suggestion: "The answer is on standard output\(places).")
            }
            if program.console.terminals.error { program.console.note("The answer is in \(target.path).") }
        } else if !isShown, !options.json {
            program.console.write(text)
        }
    }

    /// Composes the question from the arguments and then the text of standard input.
    ///
    /// Standard input is read for `-`, if there is nothing else to ask, and if it is redirected. If there are
    /// arguments, a socket that stays silent for half a second is left out, because ssh leaves it open. A pipe that
    /// stays silent is waited for, and a line reports that.
    ///
    /// - Parameters:
    ///   - input: standard input, or `nil` if something else is read from it.
    ///   - mayBeEmpty: whether attachments or a template are enough without a question.
    static func question(
        _ words: [String], _ input: StandardInput?, _ console: Console, mayBeEmpty: Bool = false
    ) async throws -> String {
        var input = input ?? StandardInput(nil)
        let isAsked = words.contains("-")
        let argument = words.filter { $0 != "-" }.joined(separator: " ")
        let isRead: Bool
        switch input.kind {
        case .closed: isRead = false
        case .terminal: isRead = isAsked
        case .socket where !isAsked && !argument.isEmpty:
            isRead = try await input.isReady(within: .milliseconds(500))
            if !isRead {
                console.note("chappie: nothing comes from standard input, so it is left out (add - to wait for it)")
            }
        case .pipe where !isAsked && !argument.isEmpty:
            if try await !input.isReady(within: .seconds(1)) {
                console.note("chappie: waiting for standard input (--no-stdin or < /dev/null leaves it out)")
            }
            isRead = true
        default: isRead = true
        }
        let parts = [argument, isRead ? try await input.readToEnd() : ""].filter { !$0.trimmed.isEmpty }
        guard mayBeEmpty || !parts.isEmpty else {
            throw CommandLineError.usage(
                "There is nothing to ask.",
                suggestion: "Give the question as arguments, or pipe it in: chappie ask \"What is RFC 6455?\"")
        }
        return parts.joined(separator: "\n\n")
    }
}
