/// An event of a stream while a turn runs. New cases may be added, so switch with a `default`.
///
/// The large, rare cases are indirect, so that the thousands of text deltas stay small.
public enum ChappieStreamEvent: Sendable, Hashable {
    /// The backend has accepted the request.
    case created(String)
    /// A piece of the answer, never empty. Pieces that arrive together may be joined.
    case textDelta(String)
    /// A piece of the model's text about its work. It is never empty, and not a part of the answer. ``item(_:)`` ends
    /// the message.
    case commentaryDelta(String)
    /// The connection broke in the middle of the answer, and the model writes another one. The complete new answer
    /// follows.
    ///
    /// `discarded` is the text of the answer that broke, which is the end of the text that was delivered so far.
    /// Commentary, summaries, arguments and items that arrived after the last ``toolCallCompleted(_:)`` are also void.
    /// No tool of the host has run for them. The event occurs only if the client's `replayDivergence` allows it.
    case restarted(discarded: String)
    /// A piece of the summary of the model's reasoning, never empty.
    case reasoningSummaryDelta(String)
    /// A piece of the arguments of a tool call that the model is writing, for a display of its progress. The complete
    /// call arrives as ``item(_:)``. ``toolCallRequested(_:)`` follows if the host has to run the call.
    indirect case toolArgumentsDelta(ChappieToolArgumentsDelta)
    /// The account's limits, from the headers of the answer or from an event.
    indirect case usageLimits(ChappieUsageLimitSnapshot)
    /// The model has called a tool of the host, which runs now.
    indirect case toolCallRequested(ChappieToolExecutionRequest)
    /// The call waits for the user's approval.
    indirect case approvalRequested(ChappieApprovalRequest)
    /// The call has ended, and the model will get its result.
    indirect case toolCallCompleted(ChappieToolExecutionResult)
    /// A change of the connection below the stream.
    case transport(ChappieTransportEvent)
    /// The turn differs from the request, for instance in its model or its effort. Each difference is reported once.
    case notice(ChappieNotice)
    /// The user gave the running turn a message, which its next request contains. If the model was finishing its
    /// answer, the answer still arrives, and ``created(_:)`` then begins another one. The last answer is the result.
    indirect case steered(ChappieInputMessage)
    /// An item is complete. Unknown kinds are included.
    case item(ChappieOutputItem)
    /// The turn has ended. This is always the last event of a stream that did not throw.
    indirect case completed(ChappieResponse)
}

extension AsyncSequence where Element == ChappieStreamEvent {
    /// Only the answer's text, piece by piece. It ends and fails like the stream itself. An answer that starts again
    /// begins with a line feed.
    ///
    /// ```swift
    /// for try await text in client.stream("Hello").text { print(text, terminator: "") }
    /// ```
    public var text: AsyncCompactMapSequence<Self, String> {
        compactMap { event in
            switch event {
            case .textDelta(let text): text
            case .restarted(let discarded): discarded.isEmpty ? nil : "\n"
            default: nil
            }
        }
    }
}

/// A sentence for the user about a turn that differs from the request.
public struct ChappieNotice: Sendable, Hashable, Codable {
    /// The kinds of notices. Unknown values are kept.
    public struct Kind: RawRepresentable, Sendable, Hashable, Codable {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The conversation's model is retired or was refused. Another model answers.
        public static let modelReplaced = Kind(rawValue: "model_replaced")
        /// The account's list offers no model, or it could not be loaded. The model is a guess.
        public static let modelGuessed = Kind(rawValue: "model_guessed")
        /// The model will be retired soon, or was retired.
        public static let modelRetires = Kind(rawValue: "model_retires")
        /// A model has answered that is not the requested one.
        public static let otherModel = Kind(rawValue: "other_model")
        /// The answer came in another tier of service than the request's.
        public static let otherTier = Kind(rawValue: "other_tier")
        /// The model does not support the requested effort, or has answered with another one.
        public static let effortChanged = Kind(rawValue: "effort_changed")
        /// An image of the conversation can no longer be sent.
        public static let imageLeftOut = Kind(rawValue: "image_left_out")
        /// The model does not accept an option of the request, so the option is left out.
        public static let optionLeftOut = Kind(rawValue: "option_left_out")
        /// The request offered a tool of the backend, but the answer came without it.
        public static let toolNotUsed = Kind(rawValue: "tool_not_used")
        /// A tool of the service has failed. The turn continues without it.
        public static let serviceToolFailed = Kind(rawValue: "service_tool_failed")
        /// A provider of tools has failed. The turn continues without its tools.
        public static let toolsUnavailable = Kind(rawValue: "tools_unavailable")
        /// The conversation belongs to another account than the one that is signed in.
        public static let accountChanged = Kind(rawValue: "account_changed")
        /// The service reviews the answer before it shows anything, which can take minutes.
        public static let answerReviewed = Kind(rawValue: "answer_reviewed")
        /// No data arrives over a WebSocket. The answer arrives over server-sent events.
        public static let webSocketBlocked = Kind(rawValue: "web_socket_blocked")
        /// The previous turn has no complete answer, and is part of the conversation from here on.
        public static let turnIncluded = Kind(rawValue: "turn_included")
        /// The conversation was summarised to make room, or a summary leaves something out.
        public static let compacted = Kind(rawValue: "compacted")
        /// A summary of the earlier conversation can no longer be read, and nothing replaces it.
        public static let compactionLost = Kind(rawValue: "compaction_lost")
    }

    /// The kind of change.
    public var kind: Kind
    /// A sentence for the user.
    public var message: String

    /// Creates a notice with this kind and message.
    public init(_ kind: Kind, _ message: String) {
        self.kind = kind
        self.message = message
    }
}

/// An event of the connection below a stream.
public enum ChappieTransportEvent: Sendable, Hashable {
    /// The transport of an answer.
    public enum Kind: String, Sendable, Hashable, Codable {
        /// Server-sent events over HTTP.
        case serverSentEvents = "sse"
        /// Messages of a WebSocket.
        case webSocket = "websocket"
    }

    /// The answer has begun to arrive.
    case connected(Kind)
    /// The client waits before another attempt after a rate limit. Attempt `attempt` of `maximum` follows, `delay` from
    /// now.
    case waiting(attempt: Int, maximum: Int, delay: Duration)
    /// The connection broke or could not be opened. Attempt `attempt` of `maximum` follows, `delay` from now. The part
    /// of the answer that was delivered is not delivered again, unless ``ChappieStreamEvent/restarted(discarded:)``
    /// follows.
    case reconnecting(attempt: Int, maximum: Int, delay: Duration)
    /// From here on the answer uses another transport.
    case fellBack(Kind)
}
