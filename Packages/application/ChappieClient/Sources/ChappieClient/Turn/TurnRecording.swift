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
    /// A call has ended.
    case ran(ChappieToolExecutionResult)
    /// The turn has ended, and joins the conversation next.
    case finished(FinishedTurn)
    /// The turn ends without a whole answer, because of an error or a cancellation. Its items are those of an
    /// interrupted turn: what the model has said, and a result for each call. A turn in which the model has said
    /// nothing has no such step.
    case stopped(FinishedTurn)
}

/// Returns the items of everything that was said in a conversation, without what is encrypted; `nil` if they are not
/// known.
@_spi(ChappieInternals) public typealias TurnHistory = @Sendable () async -> [ChappieJSON]?

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
    /// Whether a compaction could not be read, and the turns for which it stood are in the conversation again.
    public let hasRebuilt: Bool
    /// Whether the model was guessed because there was no list. The conversation does not keep it.
    public var isModelGuessed = false
}

extension ChappieToolExecutionResult {
    /// Returns a result for each call that has none among the items: the backend refuses a call without one.
    ///
    /// - Parameters:
    ///   - known: returns the result of the call with this id, if it has ended.
    ///   - hasStarted: returns whether the call with this id may have run.
    @_spi(ChappieInternals) public static func missing(
        in items: [ChappieJSON], known: (String) -> Self?, hasStarted: (String) -> Bool
    ) -> [Self] {
        let answered = Set(
            items.compactMap { $0["type"]?.string?.hasSuffix("_call_output") == true ? $0["call_id"]?.string : nil })
        let calls = items.compactMap { ChappieToolCall(ChappieOutputItem($0)) }
        return calls.filter { !answered.contains($0.callID) }.map { call in
            known(call.callID) ?? .interrupted(call, hasStarted: hasStarted(call.callID))
        }
    }

    /// The result as an input item of the Responses API.
    @_spi(ChappieInternals) public var inputItem: ChappieJSON { item }
}
