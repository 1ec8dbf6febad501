@_spi(ChappieInternals) public import ChappieCore

/// A turn that waits for the user's approval of a tool call. It is a value: keep it, in a file if need be, and continue
/// it in any process with ``ChappieClient/resume(_:decisions:)``.
///
/// It holds the conversation, so protect it as you would protect that. Calls that need no approval have been carried
/// out and are not carried out again. Resume it once: a copy that is resumed a second time, in another process, makes
/// the approved calls a second time.
public struct ChappiePendingTurn: Sendable, Hashable, Codable {
    /// The questions that are open.
    public let approvals: [ChappieApprovalRequest]
    /// The calls of the same round that have ended.
    public let completed: [ChappieToolExecutionResult]
    /// The conversation as it was before the turn.
    public let context: ChappieClientContext
    let progress: TurnProgress

    /// Creates a turn that continues after `progress`; the calls in `completed` have been carried out.
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

/// How far a turn has come when the model calls tools.
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

    /// Creates the progress as a record kept it.
    public init(calls: [ChappieToolCall], items: [ChappieJSON], round: Int, frameText: String) throws {
        let frame = try JSONDecoder().decode(RequestFrame.self, from: Data(frameText.utf8))
        self.init(calls: calls, items: items, round: round, frame: frame)
    }

    /// The items that the turn adds to the conversation so far: its messages, answers, and results of earlier rounds.
    public var items: [ChappieJSON] { itemText.items }

    /// Model, options and schema of the turn's requests, as JSON.
    public var frameText: String {
        (try? JSONEncoder().encode(frame)).map { String(decoding: $0, as: UTF8.self) } ?? "{}"
    }
}
