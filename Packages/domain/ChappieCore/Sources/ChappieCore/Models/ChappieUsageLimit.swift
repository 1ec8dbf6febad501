/// A usage limit that was reached.
public struct ChappieUsageLimit: Sendable, Hashable, Codable {
    /// The backend's name for the error, usually `usage_limit_reached`. A rate limit counts as a usage limit if the
    /// backend asks for a pause of more than half a minute.
    public var type: String
    /// The backend's sentence, which is safe to show to the user. See ``ChappieResponseError/message``.
    public var message: String?
    /// The account's plan.
    public var plan: ChappiePlan?
    /// The time when the limit resets.
    public var resetsAt: Date?
    /// The time until the reset, from the moment of the backend's answer. It is not a countdown.
    public var resetsInSeconds: TimeInterval?
    /// All limits, if the answer contained them.
    public var rateLimit: ChappieUsageLimitSnapshot?
    /// The server's id of the exchange. See ``ChappieResponse/requestID``.
    public var requestID: String?
    /// The page on which the user manages usage, or `nil` if the backend has none.
    public var usagePage: URL?
    /// The plan of the account according to the service, if the sign-in names another one, ``planOfSignIn``. The plan
    /// may have changed after the sign-in.
    public var planOfService: ChappiePlan?
    /// The plan that the sign-in names, if the service names another one.
    public var planOfSignIn: ChappiePlan?

    /// Creates a limit with the given properties.
    public init(
        type: String = "usage_limit_reached", message: String? = nil, plan: ChappiePlan? = nil, resetsAt: Date? = nil,
        resetsInSeconds: TimeInterval? = nil, rateLimit: ChappieUsageLimitSnapshot? = nil, requestID: String? = nil,
        usagePage: URL? = nil
    ) {
        self.type = type
        self.message = message
        self.plan = plan
        self.resetsAt = resetsAt
        self.resetsInSeconds = resetsInSeconds
        self.rateLimit = rateLimit
        self.requestID = requestID
        self.usagePage = usagePage
    }

    /// The limit that was reached, if the backend names it.
    public var reachedType: ChappieUsageLimitSnapshot.ReachedType? {
        if let reached = rateLimit?.reachedType, reached != .rateLimit { return reached }
        guard type.hasPrefix("workspace_") else { return rateLimit?.reachedType }
        return ChappieUsageLimitSnapshot.ReachedType(rawValue: type)
    }
}
