/// Credits beyond the plan's windows.
public struct ChappieUsageCredits: Sendable, Hashable, Codable {
    /// Whether the account has credits.
    public var hasCredits: Bool
    /// Whether the credits never run out.
    public var isUnlimited: Bool
    /// The balance in the backend's spelling.
    public var balance: String?
    /// The lowest and the highest number of messages on the user's machine that they pay for, or `nil` if the backend
    /// does not report it.
    public var approximateLocalMessages: [Int]?
    /// The lowest and the highest number of messages in the cloud that they pay for, or `nil` if the backend does not
    /// report it.
    public var approximateCloudMessages: [Int]?
    /// Whether the limit for what may be used beyond the plan is reached, or `nil` if the backend does not report it.
    public var isOverageLimitReached: Bool?

    /// Creates credits with the given properties.
    public init(
        hasCredits: Bool, isUnlimited: Bool, balance: String? = nil, approximateLocalMessages: [Int]? = nil,
        approximateCloudMessages: [Int]? = nil, isOverageLimitReached: Bool? = nil
    ) {
        self.hasCredits = hasCredits
        self.isUnlimited = isUnlimited
        self.balance = balance
        self.approximateLocalMessages = approximateLocalMessages
        self.approximateCloudMessages = approximateCloudMessages
        self.isOverageLimitReached = isOverageLimitReached
    }

    init?(_ json: ChappieJSON?) {
        guard let json else { return nil }
        let isOverageLimitReached = PeerNumber.flag(json["overage_limit_reached"])
        guard let hasCredits = PeerNumber.flag(json["has_credits"]) ?? isOverageLimitReached.map({ _ in false }) else {
            return nil
        }
        func range(_ name: String) -> [Int]? { json[name]?.array?.compactMap { PeerNumber.integer($0) } }
        self.init(
            hasCredits: hasCredits, isUnlimited: PeerNumber.flag(json["unlimited"]) ?? false,
            balance: PeerNumber.text(json["balance"]), approximateLocalMessages: range("approx_local_messages"),
            approximateCloudMessages: range("approx_cloud_messages"), isOverageLimitReached: isOverageLimitReached)
    }
}

/// The spending limit of one user in a workspace. Amounts are in the backend's spelling.
public struct ChappieSpendControl: Sendable, Hashable, Codable {
    /// Whether the limit is reached.
    public var isReached: Bool
    /// The amount that the user may spend.
    public var limit: String?
    /// The amount that is spent.
    public var used: String?
    /// The amount that is left.
    public var remaining: String?
    /// The used part of the limit in percent, 0…100, as in ``ChappieUsageWindow/usedPercent``.
    public var usedPercent: Double?
    /// The time when the limit resets.
    public var resetsAt: Date?
    /// The time until the reset. See ``ChappieUsageWindow/resetsInSeconds``.
    public var resetsInSeconds: TimeInterval?

    /// Creates a spending limit with the given properties.
    public init(
        isReached: Bool, limit: String? = nil, used: String? = nil, remaining: String? = nil,
        usedPercent: Double? = nil, resetsAt: Date? = nil, resetsInSeconds: TimeInterval? = nil
    ) {
        self.isReached = isReached
        self.limit = limit
        self.used = used
        self.remaining = remaining
        self.usedPercent = usedPercent
        self.resetsAt = resetsAt
        self.resetsInSeconds = resetsInSeconds
    }

    init?(_ json: ChappieJSON?) {
        guard let json, json.object != nil else { return nil }
        let own = json["individual_limit"]
        self.init(
            isReached: PeerNumber.flag(json["reached"]) ?? false, limit: PeerNumber.text(own?["limit"]),
            used: PeerNumber.text(own?["used"]), remaining: PeerNumber.text(own?["remaining"]),
            usedPercent: PeerNumber.percent(PeerNumber.number(own?["used_percent"])),
            resetsAt: PeerNumber.reset(PeerNumber.number(own?["reset_at"])),
            resetsInSeconds: PeerNumber.duration(PeerNumber.number(own?["reset_after_seconds"])))
    }
}
