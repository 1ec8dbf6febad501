/// What a backend's error codes mean, as data.
public struct ChappieErrorTable: Sendable, Hashable {
    /// What to do about an error.
    public enum Meaning: String, Sendable, Hashable {
        /// The plan's quota is used up: final until it resets.
        case usageLimitReached
        /// Too many requests just now: worth another try after a pause.
        case rateLimited
        /// The conversation is longer than the model's window.
        case contextWindowExceeded
        /// The model has no capacity; another model may.
        case overloaded
        /// The request itself, or what it asks for, was refused; trying again changes nothing.
        case refused
        /// The backend has lost the thread of a WebSocket conversation, not the person: the whole request on a new
        /// connection mends it.
        case conversationLost
    }

    /// Meanings by `error.code` or `error.type`, lower case.
    public var meanings: [String: Meaning]

    public init(meanings: [String: Meaning]) { self.meanings = meanings }

    /// The meaning of the first code that has one.
    public func meaning(of codes: String?...) -> Meaning? {
        for case let code? in codes {
            if let meaning = meanings[code.lowercased()] { return meaning }
        }
        return nil
    }

    /// The codes of the ChatGPT/Codex backend.
    public static let chatGPT = ChappieErrorTable(meanings: [
        "usage_limit_reached": .usageLimitReached, "usage_not_included": .usageLimitReached,
        "insufficient_quota": .usageLimitReached, "credit_balance_exhausted": .usageLimitReached,
        "organization_spend_limit_exceeded": .usageLimitReached, "project_spend_limit_exceeded": .usageLimitReached,
        "organization_usage_limit_exceeded": .usageLimitReached,
        "rate_limit_exceeded": .rateLimited, "slow_down": .rateLimited,
        "context_length_exceeded": .contextWindowExceeded,
        "server_is_overloaded": .overloaded,
        "cyber_policy": .refused, "bio_policy": .refused, "misalignment_policy_violation": .refused,
        "invalid_prompt": .refused,
        "websocket_connection_limit_reached": .conversationLost, "previous_response_not_found": .conversationLost,
    ])
}
