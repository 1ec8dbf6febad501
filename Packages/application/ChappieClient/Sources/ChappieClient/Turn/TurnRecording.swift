@_spi(ChappieInternals) public import ChappieCore

/// A step of a turn. It is reported before the next step begins, so that a program that stores it can determine after a
/// crash which calls may have run.
@_spi(ChappieInternals) public enum TurnStep: Sendable {
    /// The conversation was made shorter. The value is its new form.
    case compacted(ChappieClientContext)
    /// An answer ended in tool calls, and none of them has run. Without calls, the turn continues with messages that the
    /// user sent in the meantime.
    case called(TurnProgress)
    /// These calls run next, with these arguments.
    case running([ChappieToolCall])
    /// A call has ended.
    case ran(ChappieToolExecutionResult)
    /// The turn has ended, and will join the conversation.
    case finished(FinishedTurn)
    /// The turn ends without a complete answer, because of an error or a cancellation. Its items are those of an
    /// interrupted turn: the model's output so far, and a result for each call. A turn in which the model has written
    /// nothing has no such step.
    case stopped(FinishedTurn)
}

/// Returns all items of a conversation except the encrypted ones, or `nil` if they are not known.
@_spi(ChappieInternals) public typealias TurnHistory = @Sendable () async -> [ChappieJSON]?

/// Keeps the steps of a turn.
@_spi(ChappieInternals) public typealias TurnRecorder = @Sendable (TurnStep) async throws -> Void

/// A finished turn in the form that joins its conversation.
@_spi(ChappieInternals) public struct FinishedTurn: Sendable {
    /// The items: messages, answers, calls and results.
    public let items: [ChappieJSON]
    /// The last answer, with the tokens of all answers.
    public let response: ChappieResponse
    /// The model that answered.
    public let model: String
    /// The conversation's id at the backend.
    public let sessionID: String
    /// The account that the conversation belongs to.
    public let accountID: String?
    /// The user that the conversation belongs to.
    public let userID: String?
    /// The conversation's size after the turn, as counted by the backend.
    public let measuredTokens: Int?
    /// Whether the backend could not read the earlier encrypted items. They are then removed from the conversation,
    /// together with the ids of the other items.
    public let hasDroppedReasoning: Bool
    /// Whether a compaction could not be read, so that the turns that it had replaced are in the conversation again.
    public let hasRebuilt: Bool
    /// Whether the model was guessed because there was no list. The conversation does not keep it.
    public var isModelGuessed = false
}

extension ChappieToolExecutionResult {
    /// Returns a result for each call that has none among the items, because the backend refuses a call without one.
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

    /// Returns the result of a call that was interrupted before it had ended.
    @_spi(ChappieInternals) public static func interrupted(_ call: ChappieToolCall, hasStarted: Bool) -> Self {
        let output =
            hasStarted
            ? "The tool was interrupted while it ran. It may have done its work, or a part of it. It was not run again."
            : "The turn was interrupted before the tool ran."
        return Self(call: call, outcome: .interrupted, result: ChappieToolResult(output: output, isError: true))
    }

    /// The result as an input item of the Responses API.
    @_spi(ChappieInternals) public var inputItem: ChappieJSON {
        let text: ChappieJSON = .string(result.output)
        let words: [ChappieJSON] = text.string?.isEmpty == true ? [] : [["type": "input_text", "text": text]]
        let parts = words + result.parts
        var item: ChappieJSONObject = [
            "type": call.isCustom ? "custom_tool_call_output" : "function_call_output", "call_id": .string(call.callID),
            "output": result.parts.isEmpty ? text : .array(parts),
        ]
        if !result.sources.isEmpty { item[ServiceOutputs.member] = .array(result.sources.map(\.pageItem)) }
        return .object(item)
    }
}

extension ChappieSource {
    /// The page in the output of a search. See ``ServiceOutputs``.
    fileprivate var pageItem: ChappieJSON {
        var page: ChappieJSONObject = ["url": .string(url)]
        if let title { page["title"] = .string(title) }
        if let reference { page["ref_id"] = .string(reference) }
        return .object(page)
    }
}
