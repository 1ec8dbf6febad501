public import FoundationEssentials

/// A usage limit that was reached.
public struct ChappieUsageLimit: Sendable, Hashable, Codable {
    /// The backend's word for the error; typically `usage_limit_reached`.
    public var type: String
    /// Safe to show to a person: see ``ChappieResponseError/message``.
    public var message: String?
    public var plan: ChappiePlan?
    public var resetsAt: Date?
    /// As the backend said when it answered; not a countdown.
    public var resetsInSeconds: TimeInterval?
    public var rateLimit: ChappieUsageLimitSnapshot?

    public init(
        type: String = "usage_limit_reached", message: String? = nil, plan: ChappiePlan? = nil, resetsAt: Date? = nil,
        resetsInSeconds: TimeInterval? = nil, rateLimit: ChappieUsageLimitSnapshot? = nil
    ) {
        self.type = type
        self.message = message
        self.plan = plan
        self.resetsAt = resetsAt
        self.resetsInSeconds = resetsInSeconds
        self.rateLimit = rateLimit
    }
}
