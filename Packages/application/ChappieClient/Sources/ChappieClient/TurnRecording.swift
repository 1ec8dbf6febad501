@_spi(ChappieInternals) public import ChappieCore

/// A step of a turn. It is told before the next one begins, so that a program which keeps it knows after a crash what may
/// have happened.
@_spi(ChappieInternals) public enum TurnStep: Sendable {
    /// The conversation was made shorter, and is this one now.
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

/// How far a turn has come when the model calls tools.
@_spi(ChappieInternals) public struct TurnProgress: Sendable, Hashable, Codable {
    /// The calls of the round.
    public let calls: [ChappieToolCall]
    /// The round, counted from 1.
    public let round: Int
    /// The turn's items so far, as JSON text: the order of members is part of a prompt that is cached.
    private let itemText: String
    let frame: RequestFrame

    init(calls: [ChappieToolCall], items: [ChappieJSON], round: Int, frame: RequestFrame) {
        self.calls = calls
        self.round = round
        itemText = ChappieJSON.array(items).serialized()
        self.frame = frame.withoutTools
    }

    /// The progress as a record kept it.
    public init(calls: [ChappieToolCall], items: [ChappieJSON], round: Int, frameText: String) throws {
        let frame = try JSONDecoder().decode(RequestFrame.self, from: Data(frameText.utf8))
        self.init(calls: calls, items: items, round: round, frame: frame)
    }

    /// The items that the turn adds to the conversation so far: its messages, answers, and results of earlier rounds.
    public var items: [ChappieJSON] { (try? ChappieJSON(parsing: itemText))?.array ?? [] }

    /// Model, options and schema of the turn's requests, as JSON.
    public var frameText: String {
        (try? JSONEncoder().encode(frame)).map { String(decoding: $0, as: UTF8.self) } ?? "{}"
    }
}

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
    /// The conversation's size after the turn, as the backend counted it.
    public let measuredTokens: Int?
    /// Whether the earlier encrypted items could not be read by the backend, and are gone from the conversation.
    public let hasDroppedReasoning: Bool
}

extension ChappieClientContext {
    /// Whether an item is encrypted for one account and model.
    @_spi(ChappieInternals) public static func isEncrypted(_ item: ChappieJSON) -> Bool {
        Conversation.isEncrypted(item)
    }
}
