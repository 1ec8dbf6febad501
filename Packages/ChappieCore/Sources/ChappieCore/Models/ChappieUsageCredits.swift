/// Credits beyond the plan's windows.
public struct ChappieUsageCredits: Sendable, Hashable, Codable {
    public var hasCredits: Bool
    public var isUnlimited: Bool
    /// In the backend's spelling.
    public var balance: String?

    public init(hasCredits: Bool, isUnlimited: Bool, balance: String? = nil) {
        self.hasCredits = hasCredits
        self.isUnlimited = isUnlimited
        self.balance = balance
    }

    init?(_ json: ChappieJSON?) {
        guard let json, let hasCredits = json["has_credits"]?.bool else { return nil }
        self.init(
            hasCredits: hasCredits, isUnlimited: json["unlimited"]?.bool ?? false, balance: json["balance"]?.string)
    }
}
