public import ChappieCore

/// A turn that waits for the user's approval of a tool call. It is a value. Store it, in a file if necessary, and
/// continue it in any process with ``ChappieClient/resume(_:decisions:)``.
///
/// It contains the conversation, so protect it in the same way. Calls that need no approval have already run and do not
/// run again. Resume it only once: a copy that is resumed again, in another process, runs the approved calls again.
public struct ChappiePendingTurn: Sendable, Hashable, Codable {
    /// The open questions.
    public let approvals: [ChappieApprovalRequest]
    /// The calls of the same round that have ended.
    public let completed: [ChappieToolExecutionResult]
    /// The conversation before the turn.
    public let context: ChappieClientContext
    let progress: TurnProgress

    /// Creates a turn that continues after `progress`. The calls in `completed` have already run.
    @_spi(ChappieInternals) public init(
        approvals: [ChappieApprovalRequest], completed: [ChappieToolExecutionResult], context: ChappieClientContext,
        progress: TurnProgress
    ) {
        self.approvals = approvals
        self.completed = completed
        self.context = context
        self.progress = progress
    }
}

/// The progress of a turn when the model calls tools.
@_spi(ChappieInternals) public struct TurnProgress: Sendable, Hashable, Codable {
    /// The calls of the round.
    public let calls: [ChappieToolCall]
    /// The round, counted from 1.
    public let round: Int
    private let itemText: ItemText
    let frame: RequestFrame

    init(calls: [ChappieToolCall], items: [ChappieJSON], round: Int, frame: RequestFrame) {
        self.calls = calls
        self.round = round
        itemText = ItemText(items)
        self.frame = frame.withoutTools
    }

    /// Creates the progress from the values of a record.
    public init(calls: [ChappieToolCall], items: [ChappieJSON], round: Int, frameText: String) throws {
        let frame = try JSONDecoder().decode(RequestFrame.self, from: Data(frameText.utf8))
        self.init(calls: calls, items: items, round: round, frame: frame)
    }

    /// The items that the turn adds to the conversation so far: its messages, its answers, and the results of earlier
    /// rounds.
    public var items: [ChappieJSON] { itemText.items }

    /// The model, the options and the schema of the turn's requests, as JSON.
    public var frameText: String {
        (try? JSONEncoder().encode(frame)).map { String(decoding: $0, as: UTF8.self) } ?? "{}"
    }
}
