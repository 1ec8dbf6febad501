@_spi(ChappieInternals) import ChappieClient
@_spi(ChappieInternals) import ChappieCore
import ChappieMarkdown
import ChappieSDK
import FoundationEssentials
import Synchronization

/// The row below a chat's prompt. It shows the model, how much of its window is used, and the limits that the account
/// last reported. Nothing is requested for it.
final class ChatStatus: Sendable {
    private let parts = Mutex<[String]>([])

    /// Returns the row for a terminal.
    func row(columns: Int) -> String { Self.row(parts.withLock(\.self), columns: columns) }

    /// Returns the row. Parts without room are left out from the end, and the first part is cut.
    static func row(_ parts: [String], columns: Int) -> String {
        var parts = parts
        while parts.count > 1, PlainText.columns(of: parts.joined(separator: " · ")) >= columns { parts.removeLast() }
        return columns < 4 ? "" : PlainText.cut(parts.joined(separator: " · "), to: columns - 1)
    }

    /// Takes over the values that are known before the next prompt.
    func update(_ chat: ChatThread, _ limits: ChappieUsageLimitSnapshot?) async {
        let parts = await Self.parts(chat, limits)
        self.parts.withLock { $0 = parts }
    }

    /// Takes over the values that the client has learned since the first prompt, if there was nothing to show there.
    ///
    /// - Returns: whether there is something to show now.
    func fill(_ chat: ChatThread) async -> Bool {
        let found = await Self.parts(chat, nil)
        return parts.withLock { parts in
            guard parts.isEmpty, !found.isEmpty else { return false }
            parts = found
            return true
        }
    }

    private static func parts(
        _ chat: ChatThread, _ limits: ChappieUsageLimitSnapshot?
    ) async -> [String] {
        // The sign-in of a kept conversation was read before its first prompt.
        let known = await chat.client.knownWindow(
            of: await chat.knownModel, readsStore: chat.kept != nil)
        guard let model = UntrustedText.message(known.model, limit: 100) else { return [] }
        let now = Date()
        // After a reset since the last report, the used part of a window is unknown.
        let windows = [limits?.primary, limits?.secondary].compactMap(\.self).filter { ($0.resetsAt ?? now) >= now }
        return [model, size(await chat.context.estimatedTokens, known.contextWindow ?? 0)]
            + windows.map { "\(length($0.windowMinutes)) \($0.wholePercent) %" }
    }

    /// Returns a length such as `5 h` or `week`. A short row fits into a narrow window, and a terminal that breaks its
    /// rows again seldom breaks it.
    private static func length(_ minutes: Int?) -> String {
        guard let minutes, minutes > 0 else { return "limit" }
        switch minutes {
        case 10_080: return "week"
        case 1440: return "day"
        case _ where minutes % 10_080 == 0: return "\(minutes / 10_080) weeks"
        case _ where minutes % 1440 == 0: return "\(minutes / 1440) d"
        case _ where minutes % 60 == 0: return "\(minutes / 60) h"
        default: return "\(minutes) min"
        }
    }

    private static func size(_ tokens: Int, _ window: Int) -> String {
        guard window > 0 else { return "context \(tokens) tokens" }
        let size = ChappieContextSize(estimatedTokens: tokens, contextWindow: window)
        return "context \(Int(size.usedPercent.rounded(.up))) %"
    }
}
