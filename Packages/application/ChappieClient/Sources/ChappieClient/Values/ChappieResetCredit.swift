@_spi(ChappieInternals) public import ChappieCore

/// A credit with which the user can reset the plan's limits once, free of charge.
public struct ChappieResetCredit: Sendable, Hashable, Codable, Identifiable {
    /// The state of a credit. Unknown values are kept.
    public struct Status: RawRepresentable, Sendable, Hashable, Codable {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The credit can be redeemed until it expires.
        public static let available = Status(rawValue: "available")
        /// The credit has been redeemed.
        public static let redeemed = Status(rawValue: "redeemed")
    }

    /// The id of the credit at the service.
    public var id: String
    /// The state of the credit.
    public var status: Status
    /// The kind of limits that it resets, such as `codex_rate_limits`.
    public var resetType: String?
    /// The time at which the user got it.
    public var grantedAt: Date?
    /// The time until which it can be redeemed.
    public var expiresAt: Date?
    /// The service's name for it.
    public var title: String?
    /// The service's description of it.
    public var details: String?

    /// Creates a credit with these properties.
    public init(
        id: String, status: Status = .available, resetType: String? = nil, grantedAt: Date? = nil,
        expiresAt: Date? = nil, title: String? = nil, details: String? = nil
    ) {
        self.id = id
        self.status = status
        self.resetType = resetType
        self.grantedAt = grantedAt
        self.expiresAt = expiresAt
        self.title = title
        self.details = details
    }

    /// Reads a credit of the service, or returns `nil` if it has no id.
    init?(_ json: ChappieJSON) {
        guard let id = json["id"]?.string, !id.isEmpty else { return nil }
        func date(_ name: String) -> Date? {
            PeerNumber.date(json[name]?.double) ?? json[name]?.string.flatMap(HTTPDate.rfc3339)
        }
        self.init(
            id: id, status: Status(rawValue: json["status"]?.string ?? ""), resetType: json["reset_type"]?.string,
            grantedAt: date("granted_at"), expiresAt: date("expires_at"), title: json["title"]?.string,
            details: json["description"]?.string)
    }

    /// Returns whether it can be redeemed at this time.
    public func isAvailable(at now: Date) -> Bool { status == .available && expiresAt.map { $0 > now } ?? true }

    /// The position in a list. Available credits come first, and the one that expires first before the others.
    func order(at now: Date) -> (Int, TimeInterval) {
        (isAvailable(at: now) ? 0 : 1, expiresAt?.timeIntervalSince1970 ?? .infinity)
    }
}

/// A request to redeem a credit. Sending the same request again redeems nothing more.
public struct ChappieRedemptionRequest: Sendable, Hashable, Codable {
    /// The id by which the service recognizes a request that it has carried out. It is a UUID.
    public var id: String
    /// The credit to redeem. `nil` lets the service choose one.
    public var creditID: String?

    /// Creates a request with a new id.
    public init(creditID: String? = nil, id: String = UUID().uuidString.lowercased()) {
        self.id = id
        self.creditID = creditID
    }
}

/// The outcome of a redeemed credit.
public struct ChappieRedemption: Sendable, Hashable {
    /// The number of windows that were reset, if the service reports it.
    public var windowsReset: Int?
    /// Whether an earlier attempt with the same id had redeemed the credit.
    public var wasRedeemedBefore: Bool

    /// Creates an outcome with these properties.
    public init(windowsReset: Int? = nil, wasRedeemedBefore: Bool = false) {
        self.windowsReset = windowsReset
        self.wasRedeemedBefore = wasRedeemedBefore
    }
}

/// The reason for which the service redeemed no credit.
public enum ChappieResetRefusal: Sendable, Hashable {
    /// No limit is used, so there is nothing to reset. The credit is kept.
    case nothingToReset
    /// The account has no such credit, or it has been redeemed or has expired.
    case noCredit
    /// This account or plan can't redeem credits at present.
    case ineligible

    /// The refusal as a sentence.
    var sentence: String {
        switch self {
        case .nothingToReset: "Nothing was reset, because no limit is used. The credit is kept."
        case .noCredit: "There is no such reset credit, or it can't be redeemed any more."
        case .ineligible: "This account can't reset its limits at present."
        }
    }

    /// The user's next step.
    var advice: String {
        switch self {
        case .nothingToReset: "Redeem it when a limit is reached."
        case .noCredit: "Look at the list of your reset credits."
        case .ineligible: "Wait until the limits reset, or ask the administrator of your workspace."
        }
    }
}
