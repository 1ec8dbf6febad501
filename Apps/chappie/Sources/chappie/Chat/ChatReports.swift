@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import ChappieLineEditor
import ChappieMCP
@_spi(ChappieInternals) import ChappieRuntime
import ChappieSDK
import ChappieThreadsSQLite

/// The lists that a chat shows: kept conversations, tools, and the usage of the limits.
struct ChatReports: Sendable {
    let client: ChappieClient
    let program: Program
    let running: RunningTurn

    private var console: Console { program.console }

    /// Lists the threads, or those that contain the words.
    func threads(_ words: String?) async throws {
        let store = try Threads.store(program)
        var table = Table(["Thread", "Changed", "Turns", "Name"])
        let threads: [ChappieThreadSummary]
        let problems: [ChappieThreadStoreError]
        if let words {
            let found = try await store.readableHits(ChappieThreadQuery(words))
            threads = found.hits.map(\.thread)
            problems = found.problems
        } else {
            let found = try await store.readableThreads()
            threads = found.threads.latestFirst(includeArchived: false)
            problems = found.problems
        }
        defer { for problem in problems { console.note("chappie: \(problem.words)") } }
        for thread in threads.prefix(Self.limit) {
            table.rows.append([thread.shortID, thread.updatedAt.localMinute, "\(thread.turnCount)", thread.shownName])
        }
        guard !threads.isEmpty else {
            return console.note(words == nil ? "There are no threads yet." : "Nothing found.")
        }
        for line in table.lines(isTerminal: console.terminals.output, width: TerminalState.size()?.columns) {
            console.line(line)
        }
        if threads.count > Self.limit { console.note("… and \(threads.count - Self.limit) more: chappie threads.") }
    }

    private static let limit = 15

    /// Lists the resources or prompts of tool servers.
    func offers(_ kind: ServerOffers.Kind) async throws {
        let offers = program.startedTools.offers
        let lines = try await running.run { try await offers.lines(kind) }
        lines.forEach(console.line)
    }

    /// Lists the apps that the user has connected in ChatGPT.
    func apps() async throws {
        let apps = try await running.run { [program] in try await program.connectedApps.list() }
        for app in apps { app.lines.forEach(console.line) }
        console.note(apps.isEmpty ? "You have connected no apps in ChatGPT." : "/apps NAMES lets the model use some.")
    }

    /// Lets the model use the apps with these names, or none for `off`.
    func chooseApps(_ list: String) throws {
        guard !program.settings.configuration.endpoints.usesPlan else {
            throw ChappieClientError.notWithThisSignIn("Using connected apps")
        }
        let names = list.lowercased() == "off" ? [] : AnswerOptions.appNames(list)
        program.connectedApps.offer(names)
        let words = UntrustedText.forTerminal(names.sorted().joined(separator: ", "))
        console.note(names.isEmpty ? "The model uses no connected apps." : "The model may use: \(words).")
    }

    /// Lists the tools that the model may call.
    func tools() async throws {
        let tools = try await running.run { [client] in try await client.availableTools() }
        guard !tools.isEmpty else {
            return console.line("The model has no tools here. chappie chat --tools FILE gives it some.")
        }
        for tool in tools {
            let name = (tool.namespace.map { "\($0)/" } ?? "") + tool.name
            let text = tool.description.isEmpty ? name : "\(name): \(tool.description)"
            console.line(UntrustedText.message(tool.policy == .ask ? "\(text) (asks first)" : text, limit: 500) ?? name)
        }
    }

    /// Shows how much of the plan's limits is used, and how much of the window of `model` the context takes.
    ///
    /// - Returns: the limits, or `nil` if the service does not report them.
    func usage(_ model: String?, _ context: ChappieClientContext) async throws -> ChappieUsageLimitSnapshot? {
        var limits: ChappieUsageLimitSnapshot?
        do {
            let usage = try await running.run { [client] in try await client.usageLimits() }
            limits = usage
            for line in Usage.lines(usage, isTerminal: console.terminals.output) { console.line(line) }
        } catch ChappieClientError.usageNotReported(let page) {
            for line in PlanWords.usage(page) { console.line(line) }
        }
        // Without its list of models, the service does not report the size of a window.
        let listed = try? await running.run { [client] in
            try await client.models(filter: ChappieModelFilter(includesHidden: true))
        }
        guard let window = listed?.first(where: { $0.slug == model })?.contextWindow, window > 0 else {
            console.line("Context: about \(context.estimatedTokens) tokens.")
            return limits
        }
        let size = ChappieContextSize(estimatedTokens: context.estimatedTokens, contextWindow: window)
        let percent = Int(size.usedPercent.rounded(.up))
        console.line("Context: \(percent) % of \(window) tokens, about \(size.estimatedTokens).")
        return limits
    }
}
