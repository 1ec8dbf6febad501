@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore

/// The model of the next turn, and the reason for it.
public struct ChappieModelChoice: Sendable, Hashable, Codable {
    /// The reasons; unknown values survive.
    public struct Reason: RawRepresentable, Sendable, Hashable, Codable {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The program, or its user, has named it.
        public static let named = Reason(rawValue: "named")
        /// The conversation was begun with it.
        public static let conversation = Reason(rawValue: "conversation")
        /// It is the best model in the account's list.
        public static let bestListed = Reason(rawValue: "best_listed")
        /// It replaces the conversation's model, which is gone.
        public static let replacement = Reason(rawValue: "replacement")
        /// The list of models can't be had.
        public static let lastResort = Reason(rawValue: "last_resort")
    }

    /// The model's name in requests.
    public var slug: String
    /// The reason for the choice.
    public var reason: Reason
    /// The model that it replaces.
    public var replaces: String?

    /// A choice of these parts.
    public init(slug: String, reason: Reason, replaces: String? = nil) {
        self.slug = slug
        self.reason = reason
        self.replaces = replaces
    }
}

/// A model that the service refuses, and its reason.
public struct ChappieModelRefusal: Sendable, Hashable, Codable {
    /// The reasons, as far as the service gives them; unknown values survive.
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
    /// The model to use instead: the list's replacement for it, else the best listed model. `nil` if the list could not
    /// be had.
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
        case .notInPlan: "This account may not use the model \(name): it is retired, or your plan lacks it."
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
    /// The model to use if no list can be had. All known plans list it.
    static let lastResort = "gpt-6-luna"

    /// A clock that was set back makes a list old, too.
    func isDue(at now: Date) -> Bool { !(0...Self.lifetime).contains(now.timeIntervalSince(listedAt)) }

    subscript(slug: String) -> ChappieModel? { models.first { $0.slug == slug } }

    /// The best listed model that is none of `refused`.
    func best(without refused: Set<String> = [], at now: Date) -> ChappieModel? {
        models.first { $0.isListed && !refused.contains($0.slug) && !$0.isRetired(at: now) }
    }

    /// The model that replaces `slug`: the list's replacement for it, else the best model.
    func replacement(of slug: String, without refused: Set<String> = [], at now: Date) -> ChappieModel? {
        let upgrade = self[slug]?.upgrade.flatMap { self[$0.model] }
        if let upgrade, !refused.contains(upgrade.slug), !upgrade.isRetired(at: now) { return upgrade }
        return best(without: refused.union([slug]), at: now)
    }
}

extension ChappieModel {
    /// The optional members of requests that the model does not take, as the list says.
    var membersNotTaken: Set<String> {
        var names: Set<String> = []
        if !takesReasoningSummary || defaultReasoningSummary == "none" { names.insert("reasoning.summary") }
        if !supportsVerbosity { names.insert("text.verbosity") }
        return names
    }

    func isRetired(at now: Date) -> Bool { retiresAt.map { $0 <= now } ?? false }
}

extension ChappieNotice {
    static func continued(by account: ChappieAccountInfo) -> ChappieNotice {
        ChappieNotice(
            .accountChanged,
            "This conversation belongs to another account. It continues with \(name(of: account)), without the other "
                + "account's reasoning.")
    }

    static func newConversation(of account: ChappieAccountInfo) -> ChappieNotice {
        ChappieNotice(
            .accountChanged, "Another account has signed in: \(name(of: account)). A new conversation begins.")
    }

    private static func name(of account: ChappieAccountInfo) -> String {
        UntrustedText.forTerminal(account.email ?? account.ownerID ?? "the present sign-in")
    }

    static func verbosityLeftOut(by model: String) -> ChappieNotice {
        ChappieNotice(
            .optionLeftOut, "The model \(UntrustedText.forTerminal(model)) takes no verbosity; it is left out.")
    }

    static func picturesLeftOut(by model: String) -> ChappieNotice {
        ChappieNotice(
            .imageLeftOut,
            "The model \(UntrustedText.forTerminal(model)) takes text only. The conversation's pictures are left out.")
    }

    static let imageByAddress = ChappieNotice(
        .imageLeftOut,
        "Images that the conversation has by their address alone are left out: the model takes their bytes only.")
}

/// The wish from which a turn's model is chosen.
struct ModelWish: Sendable {
    /// The program or its user has named it.
    var named: String?
    /// The model of the conversation so far.
    var conversation: String?
    /// The refusals in this turn, in the order in which the service sent them.
    var refusals: [ChappieModelRefusal] = []

    /// Returns the model to ask next. A model that has refused in this turn is not asked again.
    ///
    /// - Parameter list: `nil` if none can be had.
    /// - Returns: `nil` if every model that may be asked has refused.
    func choice(from list: ModelList?, at now: Date) -> ChappieModelChoice? {
        let refused = Set(refusals.map(\.slug))
        if let named { return refused.contains(named) ? nil : ChappieModelChoice(slug: named, reason: .named) }
        let mayGuess = (list == nil || refused.isEmpty) && !refused.contains(ModelList.lastResort)
        let lastResort = mayGuess ? ModelList.lastResort : nil
        if let conversation {
            let isThere = list.map { $0[conversation].map { !$0.isRetired(at: now) } ?? false } ?? true
            if isThere, !refused.contains(conversation) {
                return ChappieModelChoice(slug: conversation, reason: .conversation)
            }
            let next = list?.replacement(of: conversation, without: refused, at: now)?.slug ?? lastResort
            return next.map { ChappieModelChoice(slug: $0, reason: .replacement, replaces: conversation) }
        }
        if let best = list?.best(without: refused, at: now) {
            return ChappieModelChoice(slug: best.slug, reason: .bestListed, replaces: refusals.last?.slug)
        }
        return lastResort.map { ChappieModelChoice(slug: $0, reason: .lastResort) }
    }
}

extension ChappieModelChoice {
    /// The notice to the user if the choice differs from the wish.
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
