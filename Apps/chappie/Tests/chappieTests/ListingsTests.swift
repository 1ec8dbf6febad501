import ChappieSDK
import FoundationEssentials
import Testing

@testable import chappie

@Suite struct ListingsTests {
    private static let now = Date(timeIntervalSince1970: 1_700_000_000)

    private func usage(_ windows: [ChappieUsageWindow]) -> ChappieUsageLimitSnapshot {
        ChappieUsageLimitSnapshot(primary: windows.first, secondary: windows.dropFirst().first, plan: .plus)
    }

    // MARK: Usage

    @Test func aTerminalGetsBarsUnderHeadings() {
        let usage = usage([
            ChappieUsageWindow(usedPercent: 55.9, windowMinutes: 300),
            ChappieUsageWindow(usedPercent: 3, windowMinutes: 10_080),
        ])
        #expect(
            Usage.lines(usage, isTerminal: true, now: Self.now) == [
                "Plan: Plus",
                "Limit    Used                       Resets",
                "5 hours  ███████████░░░░░░░░░ 55 %  -",
                "1 week   █░░░░░░░░░░░░░░░░░░░ 3 %   -",
            ])
    }

    @Test func aPipeGetsPlainColumns() {
        let limits = usage([ChappieUsageWindow(usedPercent: 100, windowMinutes: 90, resetsAt: Self.now)])
        #expect(
            Usage.lines(limits, isTerminal: false, now: Self.now) == ["Plan: Plus", "90 minutes  100 %  now"])
    }

    @Test func everyLimitHasItsRowAndEveryRemarkItsLine() {
        let fox = ChappieUsageLimitSnapshot(
            limitID: "fox", limitName: "Fox", primary: ChappieUsageWindow(usedPercent: 1, windowMinutes: 1440))
        let owl = ChappieUsageLimitSnapshot(
            limitID: "owl", normalModel: "m-1", secondary: ChappieUsageWindow(usedPercent: 2))
        let usage = ChappieUsageLimitSnapshot(
            credits: ChappieUsageCredits(hasCredits: true, isUnlimited: false, balance: "12.5"),
            additional: [fox, owl],
            spendControl: ChappieSpendControl(isReached: true, limit: "100", usedPercent: 88),
            reachedType: .workspaceMemberCredits, availableResets: 1)
        #expect(
            Usage.lines(usage, isTerminal: false) == [
                "Fox, 1 day                   1 %   -", "owl (reserve of m-1), limit  2 %   -",
                "spending of 100              88 %  -", "Credits: 12.5",
                "Your spending limit in this workspace is reached.",
                "You can reset your limits for free 1 time: chappie usage --reset",
                "Your workspace has no credits left; its owner can add some.",
            ])
    }

    @Test func `a model without quota and an overage limit have a line each`() {
        let usage = ChappieUsageLimitSnapshot(
            credits: ChappieUsageCredits(hasCredits: false, isUnlimited: false, isOverageLimitReached: true),
            availableResets: 0,
            models: [
                ChappieModelUsage(
                    slug: "gpt-6-astra", isAvailable: false, availableAt: Self.now.addingTimeInterval(1800),
                    creditsWouldEnable: true), ChappieModelUsage(slug: "gpt-6-luna", isAvailable: true),
            ])
        let lines = Usage.lines(usage, isTerminal: false, now: Self.now)
        #expect(lines.count == 3 && lines[1] == "Your limit for use beyond the plan is reached.")
        #expect(
            lines.last?.hasPrefix("The limit for gpt-6-astra is reached. It is available in 30 minutes, at ") == true)
        #expect(lines.last?.hasSuffix(" Credits would enable it now.") == true)
    }

    @Test(
        arguments: [
            (nil, nil), (0, nil), (300, "5-hour"), (60, "1-hour"), (10_080, "weekly"), (1440, "daily"),
            (43_200, "30-day"),
            (90, "90-minute"),
        ] as [(Int?, String?)])
    func `a limit is named by its length`(minutes: Int?, name: String?) {
        #expect(Usage.adjective(minutes) == name)
    }

    @Test func whereNothingIsSaidThatIsSaid() {
        #expect(
            Usage.lines(ChappieUsageLimitSnapshot(), isTerminal: true) == ["The service reports no limits."])
    }

    @Test(arguments: [(-5, 0), (0, 0), (1, 1), (9, 1), (10, 2), (99, 19), (100, 20), (1_000_000, 20)])
    func aBarHasTwentyCells(_ percent: Int, _ filled: Int) {
        #expect(
            Usage.bar(percent) == String(repeating: "█", count: filled) + String(repeating: "░", count: 20 - filled))
    }

    @Test(
        arguments: [
            (nil, "limit"), (0, "limit"), (-1, "limit"), (1, "1 minute"), (90, "90 minutes"), (60, "1 hour"),
            (300, "5 hours"), (1440, "1 day"), (2880, "2 days"), (10_080, "1 week"),
        ] as [(Int?, String)])
    func aWindowsLengthIsInWords(_ minutes: Int?, _ expected: String) { #expect(Usage.length(minutes) == expected) }

    @Test(arguments: [
        (-1.0, "now"), (0, "now"), (30, "in 1 minute, at "), (1500, "in 25 minutes, at "), (3600, "in 1 hour, at "),
        (7500, "in 2 hours 5 minutes, at "), (86_400, "in 1 day, on "), (432_000, "in 5 days, on "),
        (1e300, "at an unknown time"),
    ])
    func aMomentIsInWords(_ seconds: Double, _ expected: String) {
        let words = Self.now.addingTimeInterval(seconds).inWords(from: Self.now)
        #expect(words.hasPrefix(expected), "\(words)")
    }

    // MARK: Models

    @Test func modelsAreATableWithNotesBelow() {
        let models = [
            ChappieModel(
                slug: "gpt-6-sol", displayName: "GPT-6-Sol", inputModalities: ["text", "image"],
                supportedReasoningLevels: [.low, .medium, .extraHigh], defaultReasoningLevel: .medium,
                contextWindow: 272_000,
                upgrade: ChappieModelUpgrade(
                    model: "new", notes: "**new** is\n\nbetter", retirementAt: Date(timeIntervalSince1970: 0))),
            ChappieModel(
                slug: "new", inputModalities: ["text"], supportedReasoningLevels: [.low], availabilityNote: "New here."),
        ]
        let lines = Models.lines(models, isTerminal: true)
        #expect(
            lines.prefix(4) == [
                "Model      Context  Effort              Input       Name",
                "gpt-6-sol  272k     low…xhigh (medium)  text,image  GPT-6-Sol (default)",
                "new        -        low                 text        new", "",
            ])
        #expect(
            lines[4].hasPrefix("gpt-6-sol: use new instead; this model was retired on 19")
                && lines[4].hasSuffix("\n  new is\n  better"))
        let before = Models.lines(models, isTerminal: true, now: Date(timeIntervalSince1970: -1))
        #expect(before[4].hasPrefix("gpt-6-sol: use new instead; this model will be retired on 19"))
        #expect(lines.last == "new: New here.")
        #expect(
            Models.lines(models, isTerminal: false).prefix(2) == [
                "gpt-6-sol  272k  low…xhigh (medium)  text,image  GPT-6-Sol (default)",
                "new        -     low                 text        new",
            ])
        #expect(Models.lines([], isTerminal: true) == [])
    }

    @Test func `a model for the service's own purposes is not the default`() {
        let lines = Models.lines([ChappieModel(slug: "gpt-reserve"), ChappieModel(slug: "m")], isTerminal: false)
        #expect(lines.map { $0.hasSuffix("(default)") } == [false, true])
    }

    @Test func `the JSON of a model and of the usage has every member`() {
        let model = ChappieModel(slug: "m", upgrade: ChappieModelUpgrade(model: "n")).json
        #expect(model["upgrade"] == ["model": "n", "notes": nil, "retirement_at": nil])
        #expect(model["uses_responses_lite"] == false && model["default_reasoning_level"] == .null)
        let usage = ChappieUsageLimitSnapshot(
            credits: ChappieUsageCredits(hasCredits: true, isUnlimited: false, approximateLocalMessages: [1, 2]),
            additional: [ChappieUsageLimitSnapshot(limitID: "fox")], spendControl: ChappieSpendControl(isReached: true),
            reachedType: .rateLimit
        ).json
        #expect(usage["additional"]?[0]?["limit_id"] == "fox" && usage["reached_type"] == "rate_limit_reached")
        #expect(
            usage["credits"]?["approximate_local_messages"] == [1, 2] && usage["spend_control"]?["reached"] == true)
    }
}
