import ArgumentParser
import ChappieSDK
import FoundationEssentials

/// `chappie usage`: how much of the plan's limits is used.
struct Usage: ProgramCommand {
    static let configuration = CommandConfiguration(
        abstract: "Show how much of your plan's limits is used.",
        discussion: "With --json: {\"plan\":…,\"primary\":{\"used_percent\":…,\"window_minutes\":…,\"resets_at\":…},…}."
    )

    @OptionGroup var options: GlobalOptions

    func run(in program: Program) async throws {
        let usage = try await program.client().usageLimits()
        guard !options.json else { return Output.json(usage.json) }
        if let plan = usage.plan { Output.line("Plan: \(plan.displayName)") }
        for window in [usage.primary, usage.secondary].compactMap({ $0 }) { Output.line(describe(window)) }
        if usage.primary == nil, usage.secondary == nil { Output.line("The service names no limits.") }
        if let credits = usage.credits, credits.hasCredits {
            Output.line(credits.isUnlimited ? "Credits: unlimited" : "Credits: \(credits.balance ?? "some")")
        }
    }

    private func describe(_ window: ChappieUsageWindow) -> String {
        let filled = min(max(window.wholePercent / 5, 0), 20)
        let bar = String(repeating: "█", count: filled) + String(repeating: "░", count: 20 - filled)
        let length = window.windowMinutes.map(Self.length) ?? "limit"
        let reset = window.resetsAt.map { ", resets at \($0.localMinute)" } ?? ""
        return "\(bar) \(window.wholePercent) % of \(length)\(reset)"
    }

    private static func length(_ minutes: Int) -> String {
        switch minutes {
        case let minutes where minutes % 1440 == 0: "\(minutes / 1440) d"
        case let minutes where minutes % 60 == 0: "\(minutes / 60) h"
        default: "\(minutes) min"
        }
    }
}
