import FoundationEssentials

extension Credential {
    /// Whether an access token should be renewed before it is used.
    enum Freshness: Sendable, Hashable {
        case fresh
        /// Renew it; but it may still be used when that fails.
        case due
        /// It has ended.
        case expired
    }

    /// Renewal is due this long before the end.
    static let earlyRefresh: TimeInterval = 5 * 60
    /// A token that does not say when it ends is renewed at this age.
    static let maximumAge: TimeInterval = 8 * 24 * 60 * 60

    /// How fresh the access token is at `now`, by the wall clock.
    func freshness(at now: Date) -> Freshness {
        if let expiresAt {
            if expiresAt <= now { return .expired }
            return expiresAt <= now.addingTimeInterval(Self.earlyRefresh) ? .due : .fresh
        }
        guard let lastRefresh else { return .due }
        return now.timeIntervalSince(lastRefresh) > Self.maximumAge ? .due : .fresh
    }
}
