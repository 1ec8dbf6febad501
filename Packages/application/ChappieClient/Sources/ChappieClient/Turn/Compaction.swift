@_spi(ChappieInternals) import ChappieCore

/// Makes a long conversation shorter: by the backend's own compaction, or by a summary in words.
struct Compaction: Sendable {
    let turn: Turn
    let conversation: Conversation
    /// The model's window, in tokens.
    let window: Int

    static let introduction = "This is a summary of the conversation so far:\n\n"
    /// The window of a model that the list does not know, in tokens; the backend's own fallback has this window.
    static let usualWindow = 272_000
    /// How much of the user's own words stays, in tokens, and at most a quarter of the window.
    private static let keptWords = 64_000
    /// How often a summary is asked for with half of the conversation, if the whole is too long.
    private static let halvings = 4

    private static let question = """
        Summarise the conversation so far for yourself, so that you can go on without it: what the user wants, what was \
        decided and done, what tools said, names and numbers that matter, and what is still to do. Answer with the \
        summary alone.
        """

    /// - Returns: the items that replace the conversation's, and the summary if it is text.
    /// - Throws: ``ChappieClientError``, `CancellationError`.
    func run() async throws -> (items: [ChappieJSON], summary: String?) {
        if turn.takesCompaction {
            do {
                return (try await compacted(), nil)
            } catch {
                guard Self.mayBeSummarised(error) else { throw error }
            }
        }
        let summary = try await summarised()
        // It ranks as the user's words do: a tool's output may have had its say in it.
        return (words + [ChappieInputMessage.user(Self.introduction + summary).inputItem], summary)
    }

    /// A request whose last item asks for it (protocol of the Codex CLI 0.163.0, "v2"): the answer is one encrypted item.
    private func compacted() async throws -> [ChappieJSON] {
        let response = try await turn.answer(
            to: ["type": "compaction_trigger"], after: conversation.items, toolChoice: .automatic)
        let made = response.items.filter { $0.type == "compaction" && $0.json["encrypted_content"]?.string != nil }
        guard response.status == .completed, made.count == 1 else { throw ChappieClientError.invalidResponse }
        return words + made.map(\.json)
    }

    /// The newest messages of the user and the program, as far as they go into the budget.
    private var words: [ChappieJSON] {
        var left = min(Self.keptWords, window / 4)
        let kept = conversation.items.reversed().filter { item in
            guard item["type"]?.string == "message", item["role"]?.string != "assistant" else { return false }
            left -= ChappieClientContext.estimatedTokens(of: [item])
            return left >= 0
        }
        return kept.reversed()
    }

    /// A summary in words. If the conversation is too long to be summarised whole, its older half is left out first.
    private func summarised() async throws -> String {
        var items = conversation.items
        for attempt in 0...Self.halvings {
            do {
                let response = try await turn.answer(
                    to: ChappieInputMessage.user(Self.question).inputItem, after: items, toolChoice: .none)
                guard response.status == .completed, !response.outputText.isEmpty else {
                    throw ChappieClientError.responseFailed(response)
                }
                return response.outputText
            } catch  where Self.isTooLong(error) && attempt < Self.halvings {
                // A turn stays whole: a tool's result without its call is refused.
                let middle = items.count / 2
                let start = items.indices.dropFirst(middle).first { items[$0]["role"]?.string == "user" }
                guard let start, start > 0 else { throw error }
                items.removeFirst(start)
            }
        }
        throw ChappieClientError.contextWindowExceeded
    }

    private static func isTooLong(_ error: any Error) -> Bool {
        switch ChappieClientError.wrapping(error) as? ChappieClientError {
        case .contextWindowExceeded, .messageTooLarge: true
        default: false
        }
    }

    /// Whether a plain request may succeed after the compaction failed. A limit, a missing sign-in and a lost network
    /// prevent both.
    private static func mayBeSummarised(_ error: any Error) -> Bool {
        switch ChappieClientError.wrapping(error) as? ChappieClientError {
        case .httpError(429, _): false
        case .httpError, .responseFailed, .invalidResponse, .contextWindowExceeded, .messageTooLarge,
            .streamingTransportReplayDiverged:
            true
        default: false
        }
    }
}
