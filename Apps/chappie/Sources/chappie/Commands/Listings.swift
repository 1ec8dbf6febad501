import ArgumentParser
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieMarkdown
import ChappieSDK
import FoundationEssentials

struct Models: ProgramCommand {
    var settingsUse: SettingsUse { .network }
    var accessTokenUse: AccessTokenUse { .signsIn }
    static let configuration = CommandConfiguration(
        commandName: "models",
        abstract: "List the models your account may use, best first.",
        discussion: """
            Questions go to the first model unless you name another. You may also name a model that is not in the \
            list; the service decides whether it answers. If the output is not a terminal, the table has no heading.

            With --json: {"models":[{"slug":…,…},…]}.
            """)

    @OptionGroup var options: GlobalOptions

    @Flag(help: "Also list models that the service hides.")
    var all = false

    func run(in program: Program) async throws {
        let models = try await program.client().models(filter: ChappieModelFilter(includesHidden: all))
        guard !options.json else { return program.console.json(["models": .array(models.map(\.json))]) }
        for line in Self.lines(models, isTerminal: program.console.terminals.output) { program.console.line(line) }
        guard models.isEmpty else { return }
        let hidden =
            all ? [] : try await program.client().models(filter: ChappieModelFilter(includesHidden: true))
        program.console.note("chappie: " + (hidden.isEmpty ? Self.empty : Self.onlyHidden))
    }

    private static let empty =
        "Your model list is empty. Check whether your plan includes Codex, and look for a newer chappie."
    private static let onlyHidden = "Your model list shows no model. `chappie models --all` lists the hidden ones."

    /// Returns a table and below it the service's notes on individual models.
    static func lines(_ models: [ChappieModel], isTerminal: Bool, now: Date = Date()) -> [String] {
        let best = models.first { $0.isListed && !$0.isInternal }?.slug
        var table = Table(["Model", "Context", "Effort", "Input", "Name"])
        for model in models {
            table.rows.append([
                model.slug, model.contextWindow.map { "\($0 / 1000)k" } ?? "-", efforts(model),
                model.inputModalities.joined(separator: ","),
                model.displayName + (model.slug == best ? " (default)" : ""),
            ])
        }
        let notes = models.flatMap { model in
            [
                model.upgrade.map { "\(model.slug): \(words(for: $0, now))" },
                model.availabilityNote.map { "\(model.slug): \($0)" },
            ].compactMap(\.self)
        }
        return table.lines(isTerminal: isTerminal) + (notes.isEmpty ? [] : [""] + notes)
    }

    /// Returns the efforts as `low…xhigh (medium)`, with the effort of a request that does not name one in parentheses.
    private static func efforts(_ model: ChappieModel) -> String {
        let levels = model.supportedReasoningLevels.map(\.rawValue)
        guard let first = levels.first, let last = levels.last else { return "-" }
        let range = levels.count == 1 ? first : "\(first)…\(last)"
        let usual = model.defaultReasoningLevel
        return usual == .automatic ? range : "\(range) (\(usual.rawValue))"
    }

    private static func words(for upgrade: ChappieModelUpgrade, _ now: Date) -> String {
        let end =
            upgrade.retirementAt.map { date in
                "; this model \(date <= now ? "was" : "will be") retired on \(date.local("%Y-%m-%d"))"
            } ?? ""
        let notes = upgrade.notes.map { notes in
            var markdown = MarkdownStream(width: 500, height: nil, isStyled: false)
            let text = markdown.append(notes) + markdown.finish()
            return "\n" + text.split(separator: "\n").map { "  \($0)" }.joined(separator: "\n")
        }
        return "use \(upgrade.model) instead\(end)." + (notes ?? "")
    }
}

struct Usage: ProgramCommand {
    var settingsUse: SettingsUse { .network }
    var accessTokenUse: AccessTokenUse { .signsIn }
    static let configuration = CommandConfiguration(
        commandName: "usage",
        abstract: "Show how much of your plan's limits is used.",
        discussion: """
            If the output is not a terminal, the table has neither bars nor a heading. With --route plan the service \
            reports no numbers: the command shows the page that manages the usage.

            --reset redeems a reset credit, if you have one, so that the limits start from zero. On a terminal it asks \
            first; elsewhere it needs --force. An attempt that was cut redeems at most one credit when it is repeated.

            --since counts the tokens of the kept conversations instead, for each model; no request is sent.

            With --json: {"plan":…, "primary":{"used_percent":…, "window_minutes":…, "resets_at":…}, \
            "additional":[…], "reset_credits":[{"id":…, "expires_at":…,…},…],…}, or {"usage_page":…}. With --since: \
            {"models":[{"model":…,"turns":…,…},…]}. With --reset: {"redeemed":…, "windows_reset":…, \
            "already_redeemed":…}.
            """)

    @OptionGroup var options: GlobalOptions

    @Option(
        help: ArgumentHelp(
            "Count the tokens of kept turns since then: 2026-11-01, yesterday, or 7d, 12h, 4w.", valueName: "when"))
    var since: String?

    @Flag(help: "Redeem a reset credit.")
    var reset = false

    @Option(help: ArgumentHelp("With --reset: the credit (default: the one that expires first).", valueName: "id"))
    var credit: String?

    @Flag(name: .shortAndLong, help: "With --reset: don't ask.")
    var force = false

    func validate() throws {
        guard reset || (credit == nil && !force) else {
            throw ValidationError("--credit and --force are options of --reset.")
        }
        guard !reset || since == nil else { throw ValidationError("--reset and --since exclude each other.") }
    }

    func run(in program: Program) async throws {
        if reset { return try await ResetCredits(program).redeem(credit, force: force) }
        if let since {
            return try await KeptUsage.show(since: try DateArgument.parse(since, now: Date()), program)
        }
        let usage: ChappieUsageLimitSnapshot
        do {
            usage = try await program.client().usageLimits()
        } catch ChappieClientError.usageNotReported(let page) {
            return program.say(
                ["usage_page": .optional(page?.absoluteString)],
                PlanWords.usage(page).joined(separator: "\n"))
        }
        let credits = try await ResetCredits(program).listed(for: usage)
        guard !options.json else { return program.console.json(usage.json(credits)) }
        let lines = Self.lines(usage, isTerminal: program.console.terminals.output)
        for line in lines + ResetCredits.lines(credits ?? []) { program.console.line(line) }
    }

    /// Returns the plan, a table of the windows, and further facts about the limits.
    static func lines(_ usage: ChappieUsageLimitSnapshot, isTerminal: Bool, now: Date = Date()) -> [String] {
        var table = Table(["Limit", "Used", "Resets"])
        func add(_ name: String, _ percent: Double, _ resetsAt: Date?) {
            let whole = ChappieUsageWindow(usedPercent: percent).wholePercent
            let used = "\(whole) %"
            table.rows.append([
                name, isTerminal ? "\(bar(whole)) \(used)" : used, resetsAt?.inWords(from: now) ?? "-",
            ])
        }
        for limits in [usage] + usage.additional {
            for window in [limits.primary, limits.secondary].compactMap(\.self) {
                let length = length(window.windowMinutes)
                let reserve = limits.normalModel.map { " (reserve of \($0))" } ?? ""
                let family = (limits.limitName ?? limits.limitID) + reserve
                add(
                    limits.limitID == usage.limitID ? length : "\(family), \(length)", window.usedPercent,
                    window.resetsAt)
            }
        }
        if let spending = usage.spendControl, let percent = spending.usedPercent {
            add("spending" + (spending.limit.map { " of \($0)" } ?? ""), percent, spending.resetsAt)
        }
        return (usage.plan.map { ["Plan: \($0.displayName)"] } ?? [])
            + (table.rows.isEmpty ? ["The service reports no limits."] : table.lines(isTerminal: isTerminal))
            + remarks(usage, now)
    }

    private static func remarks(_ usage: ChappieUsageLimitSnapshot, _ now: Date) -> [String] {
        var lines: [String] = []
        if let credits = usage.credits, credits.hasCredits {
            lines.append(credits.isUnlimited ? "Credits: unlimited" : "Credits: \(credits.balance ?? "some")")
        }
        if usage.credits?.isOverageLimitReached == true {
            lines.append("Your limit for use beyond the plan is reached.")
        }
        for model in usage.models where !model.isAvailable {
            let slug = UntrustedText.forTerminal(model.slug)
            let time = model.availableAt.map { " It is available \($0.inWords(from: now))." } ?? ""
            lines.append(
                "The limit for \(slug) is reached.\(time)\(model.creditsWouldEnable ? " Credits would enable it now." : "")"
            )
        }
        if usage.spendControl?.isReached == true { lines.append("Your spending limit in this workspace is reached.") }
        if let resets = usage.availableResets, resets > 0 {
            let times = counted(resets, "time")
            lines.append("You can reset your limits for free \(times): chappie usage --reset")
        }
        switch usage.reachedType {
        case nil: break
        case .rateLimit: lines.append("A usage limit is reached.")
        case .workspaceOwnerCredits: lines.append("Your workspace has no credits left.")
        case .workspaceMemberCredits: lines.append("Your workspace has no credits left; its owner can add some.")
        case .workspaceOwnerLimit: lines.append("Your workspace's usage limit is reached.")
        case .workspaceMemberLimit: lines.append("Your limit in the workspace is reached; its owner can raise it.")
        case .some(let other): lines.append("A limit is reached: \(other.rawValue).")
        }
        return lines
    }

    /// Returns a bar of twenty cells. At least one is filled if any part is used.
    static func bar(_ percent: Int) -> String {
        let filled = percent <= 0 ? 0 : min(max(percent / 5, 1), 20)
        return String(repeating: "█", count: filled) + String(repeating: "░", count: 20 - filled)
    }

    /// Returns a limit's name after the length of its window, such as `weekly` or `5-hour`.
    static func adjective(_ minutes: Int?) -> String? {
        guard let minutes, minutes > 0 else { return nil }
        switch minutes {
        case 10_080: return "weekly"
        case 1440: return "daily"
        case _ where minutes % 1440 == 0: return "\(minutes / 1440)-day"
        case _ where minutes % 60 == 0: return "\(minutes / 60)-hour"
        default: return "\(minutes)-minute"
        }
    }

    /// Returns a length such as `5 hours`, `1 week` or `90 minutes`.
    static func length(_ minutes: Int?) -> String {
        guard let minutes, minutes > 0 else { return "limit" }
        switch minutes {
        case _ where minutes % 10_080 == 0: return counted(minutes / 10_080, "week")
        case _ where minutes % 1440 == 0: return counted(minutes / 1440, "day")
        case _ where minutes % 60 == 0: return counted(minutes / 60, "hour")
        default: return counted(minutes, "minute")
        }
    }
}

/// Returns a count such as `1 hour` or `2 hours`.
private func counted(_ number: Int, _ name: String) -> String { "\(number) \(name)\(number == 1 ? "" : "s")" }

extension Date {
    /// Whether a limit can end at this time. A mistake of the service may be thousands of years away.
    var isPlausible: Bool { timeIntervalSinceNow < 10 * 366 * 86_400 }

    /// Returns a time such as `in 2 hours 5 minutes, at 14:05`.
    func inWords(from now: Date) -> String {
        let seconds = timeIntervalSince(now)
        guard isPlausible else { return "at an unknown time" }
        guard seconds > 0 else { return "now" }
        let minutes = Int((seconds / 60).rounded(.up))
        if minutes < 60 { return "in \(counted(minutes, "minute")), at \(local("%H:%M"))" }
        if minutes < 1440 {
            let rest = minutes % 60 == 0 ? "" : " " + counted(minutes % 60, "minute")
            return "in \(counted(minutes / 60, "hour"))\(rest), at \(local("%H:%M"))"
        }
        return "in \(counted(minutes / 1440, "day")), on \(local("%a %Y-%m-%d at %H:%M"))"
    }
}

/// A table of text with two spaces between its columns.
struct Table {
    private let headings: [String]
    var rows: [[String]] = []

    init(_ headings: [String]) { self.headings = headings }

    /// Returns the lines. A terminal also gets the headings, and the last column is cut to its width.
    func lines(isTerminal: Bool, width: Int? = nil) -> [String] {
        let shown = (isTerminal && !rows.isEmpty ? [headings] : []) + rows
        let widths = headings.indices.map { column in shown.map { $0[column].count }.max() ?? 0 }
        let rest = (width ?? .max) - widths.dropLast().reduce(0) { $0 + $1 + 2 }
        return shown.map { row in
            // The last column is not padded.
            zip(row, widths).dropLast().map { $0.padded(to: $1) + "  " }.joined()
                + PlainText.cut(row.last ?? "", to: max(rest, 12))
        }
    }
}
