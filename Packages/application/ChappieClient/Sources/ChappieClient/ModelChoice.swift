import ChappieAuth
@_spi(ChappieInternals) import ChappieCore

/// The model of the next turn, and why it is that one.
public struct ChappieModelChoice: Sendable, Hashable, Codable {
    /// The reasons; unknown values survive.
    public struct Reason: RawRepresentable, Sendable, Hashable, Codable {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The program, or its user, has named it.
        public static let named = Reason(rawValue: "named")
        /// The conversation was begun with it.
        public static let conversation = Reason(rawValue: "conversation")
        /// It is the best one that the account lists.
        public static let bestListed = Reason(rawValue: "best_listed")
        /// It takes the place of the conversation's model, which is gone.
        public static let replacement = Reason(rawValue: "replacement")
        /// The list of models can't be had.
        public static let lastResort = Reason(rawValue: "last_resort")
    }

    /// The model's name in requests.
    public var slug: String
    /// Why it is this one.
    public var reason: Reason
    /// The model whose place it takes.
    public var replaces: String?

    /// A choice of these parts.
    public init(slug: String, reason: Reason, replaces: String? = nil) {
        self.slug = slug
        self.reason = reason
        self.replaces = replaces
    }
}

/// Why the service does not answer with a model.
public struct ChappieModelRefusal: Sendable, Hashable, Codable {
    /// The reasons, as far as the service tells; unknown values survive.
    public struct Reason: RawRepresentable, Sendable, Hashable, Codable {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The model is gone, for this way of signing in at least.
        public static let retired = Reason(rawValue: "retired")
        /// The account may not use it: another plan may, or a workspace whose administrator has switched it on.
        public static let notInPlan = Reason(rawValue: "not_in_plan")
        /// The service wants a newer wire format for it: a newer version of this program.
        public static let newerClientNeeded = Reason(rawValue: "newer_client_needed")
        /// The service does not know the model, or does not say.
        public static let unknown = Reason(rawValue: "unknown")
    }

    /// The model that was asked for.
    public var slug: String
    /// Why it is refused.
    public var reason: Reason
    /// The model to use instead: the one that the account's list names for it, else the best listed one. `nil` where the
    /// list could not be had.
    public var suggestion: String?

    /// A refusal of these parts.
    public init(slug: String, reason: Reason, suggestion: String? = nil) {
        self.slug = slug
        self.reason = reason
        self.suggestion = suggestion
    }

    var sentence: String {
        let name = UntrustedText.forTerminal(String(slug.prefix(100)))
        return switch reason {
        case .retired: "The model \(name) is retired."
        case .notInPlan: "The model \(name) is not one that this account may use: it is retired, or your plan lacks it."
        case .newerClientNeeded: "The service answers with the model \(name) only to a newer version of this program."
        default: "The service does not know the model \(name)."
        }
    }
}

/// The models of one account, as they were listed last; choosing is a pure function.
struct ModelList: Sendable {
    let account: ChappieAccountInfo
    /// The list's `ETag`.
    let tag: String?
    /// The models, best first.
    let models: [ChappieModel]
    let listedAt: Date

    /// A list is used for a day without asking.
    static let lifetime: TimeInterval = 24 * 3600
    /// The model that is asked for when no list can be had. All plans that are known list it.
    static let lastResort = "gpt-6-luna"

    /// A clock that was set back makes a list old, too.
    func isDue(at now: Date) -> Bool { !(0...Self.lifetime).contains(now.timeIntervalSince(listedAt)) }

    subscript(slug: String) -> ChappieModel? { models.first { $0.slug == slug } }

    /// The best listed model that is none of `refused`.
    func best(without refused: Set<String> = [], at now: Date) -> ChappieModel? {
        models.first { $0.isListed && !refused.contains($0.slug) && !$0.isRetired(at: now) }
    }

    /// The model that takes the place of `slug`: the one that the list names for it, else the best one.
    func replacement(of slug: String, without refused: Set<String> = [], at now: Date) -> ChappieModel? {
        let upgrade = self[slug]?.upgrade.flatMap { self[$0.model] }
        if let upgrade, !refused.contains(upgrade.slug), !upgrade.isRetired(at: now) { return upgrade }
        return best(without: refused.union([slug]), at: now)
    }
}

extension ChappieModel {
    func isRetired(at now: Date) -> Bool { retiresAt.map { $0 <= now } ?? false }
}

extension ChappieNotice {
    static let imageByAddress = ChappieNotice(
        .imageLeftOut,
        "Images that the conversation has by their address alone are left out: the model takes their bytes only.")
}

/// What a turn is to be answered by.
struct ModelWish: Sendable {
    /// The program or its user has named it.
    var named: String?
    /// The model of the conversation so far.
    var conversation: String?
    /// Models that the service has refused in this turn.
    var refused: Set<String> = []

    /// - Parameter list: `nil` where none can be had.
    func choice(from list: ModelList?, at now: Date) -> ChappieModelChoice {
        if let named { return ChappieModelChoice(slug: named, reason: .named) }
        if let conversation {
            let isThere = list.map { $0[conversation].map { !$0.isRetired(at: now) } ?? false } ?? true
            if isThere, !refused.contains(conversation) {
                return ChappieModelChoice(slug: conversation, reason: .conversation)
            }
            let next = list?.replacement(of: conversation, without: refused, at: now)?.slug
            return ChappieModelChoice(
                slug: next ?? ModelList.lastResort, reason: .replacement, replaces: conversation)
        }
        if let best = list?.best(without: refused, at: now) {
            return ChappieModelChoice(slug: best.slug, reason: .bestListed, replaces: refused.first)
        }
        return ChappieModelChoice(slug: ModelList.lastResort, reason: .lastResort)
    }
}

extension ChappieModelChoice {
    /// The sentence that the user is told when the choice is not the one that was asked for.
    var notice: ChappieNotice? {
        let slug = UntrustedText.forTerminal(slug)
        return switch reason {
        case .lastResort:
            ChappieNotice(
                .modelGuessed, "The list of your account's models can't be had just now; \(slug) is asked instead.")
        case _ where replaces != nil:
            ChappieNotice(
                .modelReplaced,
                "The model \(UntrustedText.forTerminal(replaces ?? "")) is not to be had any more; \(slug) answers instead."
            )
        default: nil
        }
    }
}
