/// A ChatGPT plan. Unknown plans keep their raw value.
public enum ChappiePlan: Sendable, Hashable {
    /// A plan for one user.
    case free, go, plus, pro, proLite, proMax
    /// A plan for a group or a company.
    case team, business, selfServeBusinessUsageBased, enterprise, enterpriseUsageBased
    /// A plan for a school or a university.
    case edu, eduPro
    /// A plan that this version does not know. The string is the backend's name.
    case other(String)

    private static let known: [(raw: String, plan: ChappiePlan, name: String)] = [
        ("free", .free, "Free"), ("go", .go, "Go"), ("plus", .plus, "Plus"), ("pro", .pro, "Pro"),
        ("prolite", .proLite, "Pro Lite"), ("promax", .proMax, "Pro Max"), ("team", .team, "Team"),
        ("business", .business, "Business"),
        ("self_serve_business_usage_based", .selfServeBusinessUsageBased, "Self Serve Business Usage Based"),
        ("enterprise", .enterprise, "Enterprise"),
        ("enterprise_cbp_usage_based", .enterpriseUsageBased, "Enterprise CBP Usage Based"),
        ("edu", .edu, "Edu"), ("edu_pro", .eduPro, "Edu Pro"),
    ]
    /// Returns whether both names mean the same plan. ChatGPT Team was renamed to Business.
    @_spi(ChappieInternals) public func isSame(as other: ChappiePlan) -> Bool {
        let business: [ChappiePlan] = [.team, .business, .selfServeBusinessUsageBased]
        return self == other || business.contains(self) && business.contains(other)
    }

    /// Reads the backend's name of a plan, in upper or lower case. `hc` is Enterprise and `education` is Edu.
    public init(rawValue: String) {
        let word = rawValue.lowercased()
        let canonical = ["hc": "enterprise", "education": "edu"][word] ?? word
        self = Self.known.first { $0.raw == canonical }?.plan ?? .other(rawValue)
    }

    /// The backend's name of the plan.
    public var rawValue: String {
        if case .other(let raw) = self { return raw }
        return Self.known.first { $0.plan == self }?.raw ?? ""
    }

    /// A name for users. An unknown plan has the backend's spelling.
    public var displayName: String {
        if case .other(let raw) = self { return raw }
        return Self.known.first { $0.plan == self }?.name ?? ""
    }
}

extension ChappiePlan: Codable {
    /// Decodes the backend's name.
    public init(from decoder: any Decoder) throws { self.init(rawValue: try String(from: decoder)) }

    public func encode(to encoder: any Encoder) throws { try rawValue.encode(to: encoder) }
}
