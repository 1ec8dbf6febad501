@_spi(ChappieInternals) import ChappieCore
import ChappieRuntime
import ChappieSDK
import ChappieThreadsSQLite
import FoundationEssentials

/// The tokens of one model in the kept conversations.
struct KeptUsage {
    private var turns = 0
    private var tokens = ChappieTokenUsage()

    /// Prints the tokens of each model since a time.
    static func show(since start: Date, _ program: Program) async throws {
        let store = try Threads.store(program)
        let found = try await store.readableThreads()
        var problems = found.problems.map(\.words)
        var counted: Set<String> = []
        var models: [String: KeptUsage] = [:]
        for summary in found.threads where summary.updatedAt >= start {
            do {
                // A copy of a thread has the same turns.
                for turn in try await store.thread(summary.id).turns
                where turn.startedAt >= start && counted.insert(turn.id).inserted {
                    if let usage = turn.usage { models[turn.model, default: KeptUsage()].add(usage) }
                }
            } catch {
                problems.append(error.words)
            }
        }
        let sorted = models.sorted { ($1.value.tokens.totalTokens, $0.key) < ($0.value.tokens.totalTokens, $1.key) }
        defer { for problem in problems { program.console.note("chappie: \(problem)") } }
        guard !program.options.json else {
            program.console.json(["models": .array(sorted.map { $0.value.json($0.key) })])
            return try Threads.check(problems)
        }
        var table = Table(["Model", "Turns", "Tokens", "Input", "Cached", "Output"])
        for (model, usage) in sorted {
            let tokens = usage.tokens
            let counts = [usage.turns, tokens.totalTokens, tokens.inputTokens, tokens.cachedInputTokens]
            table.rows.append([model] + (counts + [tokens.outputTokens]).map(String.init))
        }
        let isTerminal = program.console.terminals.output
        for line in table.lines(isTerminal: isTerminal) { program.console.line(line) }
        if sorted.isEmpty { program.console.note("No kept turn since then has token counts.") }
        try Threads.check(problems)
    }

    private mutating func add(_ usage: ChappieTokenUsage) {
        turns += 1
        tokens.inputTokens += usage.inputTokens
        tokens.cachedInputTokens += usage.cachedInputTokens
        tokens.outputTokens += usage.outputTokens
        tokens.reasoningTokens += usage.reasoningTokens
        tokens.totalTokens += usage.totalTokens
    }

    private func json(_ model: String) -> ChappieJSON {
        [
            "model": .string(model), "turns": .integer(turns), "input_tokens": .integer(tokens.inputTokens),
            "cached_input_tokens": .integer(tokens.cachedInputTokens), "output_tokens": .integer(tokens.outputTokens),
            "reasoning_tokens": .integer(tokens.reasoningTokens), "total_tokens": .integer(tokens.totalTokens),
        ]
    }
}
