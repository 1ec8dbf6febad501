/// An event of a stream while a turn runs. New cases may come: switch with a `default`.
///
/// The large, rare cases are indirect, so that the thousands of text deltas stay small.
public enum ChappieStreamEvent: Sendable, Hashable {
    /// The backend has accepted the request.
    case created(String)
    /// A piece of the answer; never empty. Pieces that arrive together may be joined.
    case textDelta(String)
    /// A piece of what the model says while it works; never empty, and no part of the answer. The message is over with its
    /// ``item(_:)``.
    case commentaryDelta(String)
    /// A piece of the summary of the model's reasoning; never empty.
    case reasoningSummaryDelta(String)
    /// The account's limits, as the answer's headers or an event say.
    indirect case usageLimits(ChappieUsageLimitSnapshot)
    /// The model has called a tool of the host's; its turn to run has come.
    indirect case toolCallRequested(ChappieToolExecutionRequest)
    /// The call waits for the user's approval.
    indirect case approvalRequested(ChappieApprovalRequest)
    /// The call is over, and the model will be told.
    indirect case toolCallCompleted(ChappieToolExecutionResult)
    /// A change on the wire below.
    case transport(ChappieTransportEvent)
    /// The turn goes on otherwise than it was asked for: with another model, another effort. Told once.
    case notice(ChappieNotice)
    /// An item is complete; unknown kinds included.
    case item(ChappieOutputItem)
    /// The turn is over; always the last event of a stream that did not throw.
    indirect case completed(ChappieResponse)
}

extension AsyncSequence where Element == ChappieStreamEvent {
    /// The answer's text alone, piece by piece. It ends, and fails, like the stream itself.
    ///
    /// ```swift
    /// for try await text in client.stream("Hello").text { print(text, terminator: "") }
    /// ```
    public var text: AsyncCompactMapSequence<Self, String> {
        compactMap { event in if case .textDelta(let text) = event { text } else { nil } }
    }
}

/// A sentence for the user about a turn that goes on otherwise than it was asked for.
public struct ChappieNotice: Sendable, Hashable, Codable {
    /// The kinds of notices; unknown values survive.
    public struct Kind: RawRepresentable, Sendable, Hashable, Codable {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The conversation's model is retired or refused; another one answers.
        public static let modelReplaced = Kind(rawValue: "model_replaced")
        /// The list of models can't be had; the model is a guess.
        public static let modelGuessed = Kind(rawValue: "model_guessed")
        /// The model does not have the effort that was asked for.
        public static let effortChanged = Kind(rawValue: "effort_changed")
        /// An image of the conversation can't be sent any more.
        public static let imageLeftOut = Kind(rawValue: "image_left_out")
    }

    /// What has changed.
    public var kind: Kind
    /// A sentence for people.
    public var message: String

    /// A notice of these parts.
    public init(_ kind: Kind, _ message: String) {
        self.kind = kind
        self.message = message
    }
}

/// An event on the wire below a stream.
public enum ChappieTransportEvent: Sendable, Hashable {
    /// How an answer travels.
    public enum Kind: String, Sendable, Hashable, Codable {
        /// Server-sent events over HTTP.
        case serverSentEvents = "sse"
        /// Messages of a WebSocket.
        case webSocket = "websocket"
    }

    /// The answer has begun to arrive.
    case connected(Kind)
    /// Waiting before another try after a rate limit: try `attempt` of `maximum`, `delay` from now.
    case waiting(attempt: Int, maximum: Int, delay: Duration)
    /// The connection broke, or would not open: attempt `attempt` of `maximum` follows, `delay` from now. What has been
    /// shown of the answer is not shown again.
    case reconnecting(attempt: Int, maximum: Int, delay: Duration)
    /// The answer comes another way from here on.
    case fellBack(Kind)
}
