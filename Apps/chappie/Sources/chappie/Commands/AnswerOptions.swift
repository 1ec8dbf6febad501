import ArgumentParser
@_spi(ChappieInternals) import ChappieCore
import ChappieJSONSchema
import ChappieSDK

/// The options for answers, which all commands that ask share.
struct AnswerOptions: ParsableArguments {
    @Option(
        name: .shortAndLong,
        help:
            "The model's slug (see chappie models). Default: the conversation's, else chappie config's, else the best.",
        completion: .models)
    var model: String?

    @Option(
        help: "How hard the model thinks: low, medium, high, xhigh, max, …; if it lacks that level, its nearest one.",
        completion: .list(["low", "medium", "high", "xhigh", "max"]))
    var effort: String?

    @Flag(help: "The same as --effort low.")
    var fast = false

    @Option(
        help: "How long answers are: low, medium or high, if the model supports it.",
        completion: .list(["low", "medium", "high"]))
    var verbosity: String?

    @Option(
        help: ArgumentHelp(
            "How the answer travels: auto (WebSocket, else server-sent events), websocket or sse.",
            valueName: "transport"))
    var transport: TransportChoice?

    @Option(
        help: ArgumentHelp("Draw the answer's Markdown: auto (on a terminal), always or never.", valueName: "when"))
    var markdown: MarkdownChoice?

    @Option(
        help: ArgumentHelp(
            "A manifest of tools that the model may call: programs and MCP servers (repeatable).", valueName: "file"),
        completion: .file())
    var tools: [String] = []

    @Option(
        help: ArgumentHelp(
            "Log each tool server into a file NAME.log in this folder, 10 MiB at most: its standard error, and messages without their contents.",
            valueName: "folder"),
        completion: .directory)
    var toolLog: String?

    @Option(
        help: ArgumentHelp(
            "Apps that you have connected in ChatGPT, and that the model may use: names with commas (see chappie apps).",
            valueName: "names"))
    var apps: String?

    @Flag(help: "Let the model search the web; the pages that the answer cites are listed below it.")
    var web = false

    @Flag(
        help: "Ask in the model's fast tier, if it has one; what that costs is said (see --effort for less thinking).")
    var fastTier = false

    @Option(
        help: ArgumentHelp(
            "Seconds that an answer may take, its tools included; without it, only silence ends it (see --timeout).",
            valueName: "seconds"))
    var timeLimit: Double?

    @Option(
        help: ArgumentHelp(
            "How often the model is asked again in one answer, after its tools have run: 1 to 1000. Default: 16.",
            valueName: "number"))
    var rounds: Int?

    @Flag(help: "Run every tool that the model calls without asking you, except tools whose policy is deny.")
    var approveTools = false

    var messageOptions: ChappieMessageOptions {
        ChappieMessageOptions(
            fastMode: fast, reasoningEffort: effort.map(ChappieReasoningEffort.init(rawValue:)) ?? .automatic,
            verbosity: verbosity.map(ChappieVerbosity.init(rawValue:)))
    }

    /// The names of the connected apps that the model may use.
    var appNames: Set<String> { Self.appNames(apps ?? "") }

    /// Returns the names in a list with commas.
    static func appNames(_ list: String) -> Set<String> {
        Set(list.split { $0 == "," || $0.isWhitespace }.map { $0.lowercased() })
    }

    /// The options of the command line as settings.
    var given: [Setting: ChappieJSON] {
        let effort = fast ? "low" : effort
        return [
            .model: model.map { .string($0) }, .effort: effort.map { .string($0) },
            .verbosity: verbosity.map { .string($0) }, .transport: transport.map { .string($0.rawValue) },
            .markdown: markdown.map { .string($0.rawValue) },
            .tools: tools.isEmpty ? nil : .array(tools.map { .string($0) }),
        ].compactMapValues(\.self)
    }

    /// Fills the options that the command line leaves open, first from the template and then from the settings.
    ///
    /// - Parameter goesOn: whether an earlier conversation continues, which keeps its model.
    /// - Throws: ``CommandLineError`` for a value that the program or the service does not take.
    mutating func fill(from template: Template?, _ settings: ResolvedSettings, goesOn: Bool) throws {
        model = model ?? template?.settings["model"] ?? (goesOn ? nil : settings[.model]?.string)
        if !fast { effort = effort ?? template?.settings["effort"] ?? settings[.effort]?.string }
        verbosity = verbosity ?? template?.settings["verbosity"] ?? settings[.verbosity]?.string
        transport = transport ?? settings[.transport]?.string.flatMap(TransportChoice.init)
        markdown = markdown ?? settings.markdown
        tools = tools.isEmpty ? settings.tools : tools.filter { !$0.isEmpty }
        try check()
    }

    /// Refuses values that the program or the service does not take.
    func check() throws {
        for (setting, name, value) in [
            (Setting.model, "--model", model), (.effort, "--effort", effort), (.verbosity, "--verbosity", verbosity),
        ] {
            if let value { _ = try setting.value(from: [value], name: name) }
        }
        guard timeLimit.map({ $0 > 0 && $0 <= 86_400 }) ?? true else {
            throw CommandLineError.usage("--time-limit takes seconds, more than 0 and at most 86400.")
        }
        guard rounds.map((1...1000).contains) ?? true else {
            throw CommandLineError.usage("--rounds takes a number from 1 to 1000.")
        }
    }

    /// Returns the request that sends `messages`.
    func request(
        _ messages: [ChappieInputMessage], model: String?, schema: ChappieJSONSchema?, searchesWeb: Bool,
        draws: Bool = false
    ) -> ChappieResponseRequest {
        ChappieResponseRequest(
            messages: messages, model: model, outputSchema: schema,
            serviceTools: (searchesWeb ? [.webSearch()] : []) + (draws ? [.imageGeneration()] : []),
            serviceTier: fastTier ? Self.fastTierID : nil, timeLimit: timeLimit.map { .seconds($0) })
    }

    /// The id of the tier that the service calls "Fast".
    private static let fastTierID = "priority"

    /// Prints the description of the fast tier from the list of models.
    func explainTier(of client: ChappieClient, _ console: Console) async throws {
        guard fastTier else { return }
        let all = try await client.models(filter: ChappieModelFilter(includesHidden: true))
        let slug = try await client.model.slug
        let tier = all.first { $0.slug == slug }?.serviceTiers.first { $0.id == Self.fastTierID }
        guard let tier, let words = UntrustedText.message(tier.description, limit: 300) else { return }
        console.note("chappie: \(UntrustedText.message(tier.name, limit: 50) ?? "fast"): \(words)")
    }
}

/// The options for pictures in a conversation.
struct PictureOptions: ParsableArguments {
    @Flag(help: "Let the model make pictures; each one is saved in the current folder.")
    var draw = false
}
