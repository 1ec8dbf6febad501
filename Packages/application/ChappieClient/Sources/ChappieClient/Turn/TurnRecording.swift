@_spi(ChappieInternals) public import ChappieCore

/// A step of a turn. It is reported before the next step begins, so that a program that keeps it can see after a crash
/// what may have happened.
@_spi(ChappieInternals) public enum TurnStep: Sendable {
    /// The conversation was made shorter; this is its new form.
    case compacted(ChappieClientContext)
    /// An answer ended in tool calls; none of them has run.
    case called(TurnProgress)
    /// These calls run next, with these arguments.
    case running([ChappieToolCall])
    /// A call is over.
    case ran(ChappieToolExecutionResult)
    /// The turn is over, and joins the conversation next.
    case finished(FinishedTurn)
}

/// Keeps the steps of a turn.
@_spi(ChappieInternals) public typealias TurnRecorder = @Sendable (TurnStep) async throws -> Void

/// A finished turn, as it joins its conversation.
@_spi(ChappieInternals) public struct FinishedTurn: Sendable {
    /// The items: messages, answers, calls and results.
    public let items: [ChappieJSON]
    /// The last answer, with the tokens of all.
    public let response: ChappieResponse
    /// The model that was asked.
    public let model: String
    /// The conversation's id at the backend.
    public let sessionID: String
    /// The account that the conversation belongs to.
    public let accountID: String?
    /// The user that the conversation belongs to.
    public let userID: String?
    /// The conversation's size after the turn, as the backend counted it.
    public let measuredTokens: Int?
    /// Whether the backend could not read the earlier encrypted items. They are gone from the conversation, and the ids
    /// of the other items with them.
    public let hasDroppedReasoning: Bool
}
