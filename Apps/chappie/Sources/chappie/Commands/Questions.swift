import ArgumentParser
import ChappieSDK

/// How to answer; shared by the commands that ask.
struct AnswerOptions: ParsableArguments {
    /// How answers travel.
    enum Transport: String, ExpressibleByArgument, CaseIterable {
        case auto, websocket, sse

        var policy: ChappieStreamingTransportPolicy {
            switch self {
            case .auto: .default
            case .websocket: ChappieStreamingTransportPolicy(fallsBackToHTTPSSE: false)
            case .sse: .httpSSEOnly
            }
        }
    }

    @Option(help: "The model's slug (see chappie models).")
    var model: String?

    @Option(help: "How hard to think: minimal, low, medium, high, … as the model offers.")
    var effort: String?

    @Flag(help: "The same as --effort low.")
    var fast = false

    @Option(
        help: ArgumentHelp(
            "How the answer travels: auto (WebSocket, else server-sent events), websocket or sse.",
            valueName: "transport"))
    var transport = Transport.auto

    /// Asks `text` in the conversation of `client`, and prints the answer.
    func ask(_ text: String, _ client: ChappieClient, _ program: Program) async throws {
        let options = ChappieMessageOptions(
            fastMode: fast, reasoningEffort: effort.map(ChappieReasoningEffort.init(rawValue:)) ?? .automatic)
        var printer = AnswerPrinter(program.console, program.options)
        defer { program.lastAnswer?.keep(printer.transport) }
        try await printer.print(
            client.stream(ChappieInputMessage(role: .user, parts: [.text(text)], options: options)))
    }
}

struct Ask: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "ask",
        abstract: "Ask a question and stream the answer.",
        discussion: """
            The question is the arguments; standard input is added below them when it is redirected, and read for - \
            even from a terminal. A pipe that stays silent beside arguments is left out after half a second: add - to \
            wait for it.

              chappie ask "What is RFC 6455?"
              git diff | chappie ask "Write a commit message for this"

            With --json: one object a line: connected, created, reasoning_summary_delta, text_delta, item, \
            usage_limits, waiting, reconnecting, fell_back, and last completed or error.
            """)

    @OptionGroup var options: GlobalOptions
    @OptionGroup var answerOptions: AnswerOptions

    @Argument(help: "The question; - reads standard input.")
    var words: [String] = []

    func run(in program: Program) async throws {
        let question = try await Self.question(words, StandardInput(), program.console)
        try await answerOptions.ask(question, program.client(answerOptions), program)
    }

    /// Puts the question together: arguments first, then standard input where it is asked for.
    ///
    /// Standard input is read for `-`, when there is nothing else to ask, and when it is redirected. A pipe that stays silent
    /// beside arguments is left out after half a second.
    static func question(_ words: [String], _ input: StandardInput, _ console: Console) async throws -> String {
        var input = input
        let isAsked = words.contains("-")
        let argument = words.filter { $0 != "-" }.joined(separator: " ")
        let isRead: Bool
        switch input.kind {
        case .closed: isRead = false
        case .terminal: isRead = isAsked
        case .pipe where !isAsked && !argument.isEmpty:
            isRead = try await input.isReady(withinMilliseconds: 500)
            if !isRead { console.note("chappie: standard input stays silent and is left out (add - to wait for it)") }
        default: isRead = true
        }
        let parts = [argument, isRead ? try await input.readToEnd() : ""].filter { !$0.isEmpty }
        guard !parts.isEmpty else {
            throw CommandLineError.usage(
                "There is nothing to ask.",
                suggestion: "Give the question as arguments, or pipe it in: chappie ask \"What is RFC 6455?\"")
        }
        return parts.joined(separator: "\n\n")
    }
}

struct Chat: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "chat",
        abstract: "Have a conversation: a line is a message, end of file ends it.",
        discussion: "With --json: the lines of chappie ask, turn after turn.")

    @OptionGroup var options: GlobalOptions
    @OptionGroup var answerOptions: AnswerOptions

    func run(in program: Program) async throws {
        let (client, console) = (program.client(answerOptions), program.console)
        let isInteractive = console.terminals.input && console.terminals.output && !options.json
        let echoes = !isInteractive && !options.json
        if isInteractive { console.note("Type a message and press Return; Ctrl-D ends the conversation.") }
        // Connects while the user types.
        let prewarm = Task { await client.prewarm() }
        defer { prewarm.cancel() }
        var input = StandardInput()
        while true {
            if isInteractive { console.write("\n> ") }
            guard let line = try await input.readLine() else { break }
            guard line.contains(where: { !$0.isWhitespace }) else { continue }
            if echoes { console.line("> \(line)\n") }
            try await answerOptions.ask(line, client, program)
            if echoes { console.line() }
        }
        if isInteractive { console.line() }
        await client.disconnect()
    }
}

struct Models: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "models",
        abstract: "List the models your account may use, best first.",
        discussion: "With --json: {\"models\":[{\"slug\":…,…},…]}.")

    @OptionGroup var options: GlobalOptions

    @Flag(help: "Also list models that the service hides.")
    var all = false

    func run(in program: Program) async throws {
        let models = try await program.client().models(filter: ChappieModelFilter(includesHidden: all))
        guard !options.json else { return program.console.json(["models": .array(models.map(\.json))]) }
        let width = models.map(\.slug.count).max() ?? 0
        for model in models {
            let window = model.contextWindow.map { "\($0 / 1000)k" } ?? "-"
            let mark = model.slug == ChappieClient.defaultModel ? "  (default)" : ""
            program.console.line("\(model.slug.padded(to: width))  \(window)  \(model.displayName)\(mark)")
        }
    }
}

struct Usage: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "usage",
        abstract: "Show how much of your plan's limits is used.",
        discussion: "With --json: {\"plan\":…,\"primary\":{\"used_percent\":…,\"window_minutes\":…,\"resets_at\":…},…}."
    )

    @OptionGroup var options: GlobalOptions

    func run(in program: Program) async throws {
        let usage = try await program.client().usageLimits()
        guard !options.json else { return program.console.json(usage.json) }
        if let plan = usage.plan { program.console.line("Plan: \(plan.displayName)") }
        let windows = [usage.primary, usage.secondary].compactMap { $0 }
        for window in windows { program.console.line(Self.describe(window)) }
        if windows.isEmpty { program.console.line("The service names no limits.") }
        if let credits = usage.credits, credits.hasCredits {
            program.console.line(credits.isUnlimited ? "Credits: unlimited" : "Credits: \(credits.balance ?? "some")")
        }
    }

    /// `███░░░ 15 % of 5 h, resets at 2026-11-21 14:05`, with a bar of 20.
    static func describe(_ window: ChappieUsageWindow) -> String {
        let filled = min(max(window.wholePercent / 5, 0), 20)
        let bar = String(repeating: "█", count: filled) + String(repeating: "░", count: 20 - filled)
        let length =
            switch window.windowMinutes {
            case nil: "limit"
            case .some(let minutes) where minutes % 1440 == 0: "\(minutes / 1440) d"
            case .some(let minutes) where minutes % 60 == 0: "\(minutes / 60) h"
            case .some(let minutes): "\(minutes) min"
            }
        return "\(bar) \(window.wholePercent) % of \(length)\(window.reset(", resets"))"
    }
}
