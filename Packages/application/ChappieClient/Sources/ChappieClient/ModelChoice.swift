@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore

/// The model of the next turn, and the reason for it.
public struct ChappieModelChoice: Sendable, Hashable, Codable {
    /// The reason for a choice. Unknown values are kept.
    public struct Reason: RawRepresentable, Sendable, Hashable, Codable {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The program, or its user, has named it.
        public static let named = Reason(rawValue: "named")
        /// The conversation began with it.
        public static let conversation = Reason(rawValue: "conversation")
        /// It is the best model in the account's list.
        public static let bestListed = Reason(rawValue: "best_listed")
        /// It replaces the conversation's model, which is no longer available.
        public static let replacement = Reason(rawValue: "replacement")
        /// The account's list shows no model to users. It is a model that the list hides.
        public static let hidden = Reason(rawValue: "hidden")
        /// The account's list has no model, so it is a guess from the plan.
        public static let emptyList = Reason(rawValue: "empty_list")
        /// The list of models could not be loaded, so it is a guess from the plan.
        public static let lastResort = Reason(rawValue: "last_resort")
    }

    /// The model's name in requests.
    public var slug: String
    /// The reason for the choice.
    public var reason: Reason
    /// The model that it replaces.
    public var replaces: String?

    /// Creates a choice from its parts.
    public init(slug: String, reason: Reason, replaces: String? = nil) {
        self.slug = slug
        self.reason = reason
        self.replaces = replaces
    }
}

/// A model that the service refuses, and its reason.
public struct ChappieModelRefusal: Sendable, Hashable, Codable {
    /// The reason for a refusal, as far as the service gives one. Unknown values are kept.
    public struct Reason: RawRepresentable, Sendable, Hashable, Codable {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The model is no longer available, at least for this way of signing in.
        public static let retired = Reason(rawValue: "retired")
        /// The account may not use it. An account with another plan may, or a workspace whose administrator has enabled
        /// it.
        public static let notInPlan = Reason(rawValue: "not_in_plan")
        /// The service requires a newer wire format for it, which a newer version of this program has.
        public static let newerClientNeeded = Reason(rawValue: "newer_client_needed")
        /// The model has no capacity at present, even after some pauses. It may answer later.
        public static let atCapacity = Reason(rawValue: "at_capacity")
        /// The service does not know the model, or gives no reason.
        public static let unknown = Reason(rawValue: "unknown")
    }

    /// The requested model.
    public var slug: String
    /// The reason for the refusal.
    public var reason: Reason
    /// The model to use instead: the list's replacement for it, else the best listed model. `nil` if the list could not
    /// be loaded.
    public var suggestion: String?
    /// The service's message. It is safe to show to the user. See `ChappieResponseError.message`.
    public var message: String?
    /// The id of the request. See `ChappieResponse.requestID`.
    public var requestID: String?

    /// Creates a refusal from its parts.
    public init(
        slug: String, reason: Reason, suggestion: String? = nil, message: String? = nil, requestID: String? = nil
    ) {
        self.slug = slug
        self.reason = reason
        self.suggestion = suggestion
        self.message = message
        self.requestID = requestID
    }

    var sentence: String {
        let name = UntrustedText.forTerminal(String(slug.prefix(100)))
        return switch reason {
        case .atCapacity: "\(name.isEmpty ? "The service" : name) is at capacity."
        case .retired: "The model \(name) is retired."
        case .notInPlan: "This account may not use the model \(name): it is retired, or your plan lacks it."
        case .newerClientNeeded: "The model \(name) requires a newer version of this program."
        default: "The service does not know the model \(name)."
        }
    }
}

/// The models of one account, from the most recently loaded list. Choosing a model is a pure function.
struct ModelList: Sendable {
    let account: ChappieAccountInfo
    /// The list's `ETag`.
    let tag: String?
    /// The models, starting with the best.
    let models: [ChappieModel]
    let listedAt: Date
    /// The models of the list that the service has recently refused.
    var refused: Set<String> = []

    /// The time for which a list is used without a request: one day.
    static let lifetime: TimeInterval = 24 * 3600

    /// Returns the models to try without a list, starting with the best. All known plans list the last one.
    static func lastResorts(of plan: ChappiePlan?) -> [String] {
        switch plan {
        case nil, .free, .go, .other: ["gpt-6-luna"]
        default: ["gpt-6-sol", "gpt-6-luna"]
        }
    }

    /// Returns whether the list is too old. It also is if the clock was set back.
    func isDue(at now: Date) -> Bool { !(0...Self.lifetime).contains(now.timeIntervalSince(listedAt)) }

    subscript(slug: String) -> ChappieModel? { models.first { $0.slug == slug } }

    /// Returns all models, starting with the best. Models that are internal, retired, recently refused or for newer
    /// clients are at the end.
    func bestFirst(at now: Date) -> [ChappieModel] {
        func isUsable(_ model: ChappieModel) -> Bool {
            !model.isInternal && !model.isRetired(at: now) && !refused.contains(model.slug) && !model.needsNewerClient
        }
        return models.filter(isUsable) + models.filter { !isUsable($0) }
    }

    /// Returns the best listed model that is not in `refused`. If the list shows no model, it is a hidden one.
    func best(without refused: Set<String> = [], at now: Date) -> ChappieModel? {
        let candidates = bestFirst(at: now).filter { !$0.isInternal }
        let listed = candidates.filter(\.isListed)
        return (listed.isEmpty ? candidates : listed).first { !refused.contains($0.slug) }
    }

    /// Returns whether `model` can read a compaction that `writer` has encrypted.
    ///
    /// - Parameter hash: the family of the writer, or `nil` if it is not known.
    func canRead(compactionOf writer: String, of hash: String? = nil, with model: String) -> Bool {
        guard writer != model else { return true }
        guard let hash = hash ?? self[writer]?.compactionHash else { return self[writer] != nil }
        return hash == self[model]?.compactionHash
    }

    /// Returns the model that replaces `slug`: the list's replacement for it, else the best model.
    func replacement(of slug: String, without refused: Set<String>, at now: Date) -> ChappieModel? {
        let upgrade = self[slug]?.upgrade.flatMap { self[$0.model] }
        if let upgrade, !refused.contains(upgrade.slug), !upgrade.isRetired(at: now) { return upgrade }
        return best(without: refused.union([slug]), at: now)
    }
}

extension ChappieModel {
    /// The optional members of requests that the model does not take according to the list.
    var membersNotTaken: Set<String> {
        var names: Set<String> = []
        if !takesReasoningSummary || defaultReasoningSummary == "none" { names.insert("reasoning.summary") }
        if !supportsVerbosity { names.insert("text.verbosity") }
        return names
    }

    func isRetired(at now: Date) -> Bool { retiresAt.map { $0 <= now } ?? false }

    /// Whether the list requires a newer wire format than this client's.
    var needsNewerClient: Bool {
        func numbers(_ version: String) -> [Int] {
            version.split(separator: ".").map { Int($0.prefix { $0.isASCII && $0.isNumber }) ?? 0 }
        }
        return minimalClientVersion.map { numbers(WireFormat.version).lexicographicallyPrecedes(numbers($0)) } ?? false
    }

    /// The time before a model's retirement from which on its users get a notice.
    private static let noticePeriod: TimeInterval = 30 * 24 * 3600

    /// Returns the notice to the user of a model that is retired, or will be soon.
    func retirementNotice(at now: Date) -> ChappieNotice? {
        guard let upgrade, let date = retiresAt, date.timeIntervalSince(now) < Self.noticePeriod else { return nil }
        let (name, other) = (UntrustedText.forTerminal(slug), UntrustedText.forTerminal(upgrade.model))
        let day = date.formatted(.iso8601).prefix(10)
        let verb = date <= now ? "was" : "will be"
        return ChappieNotice(.modelRetires, "The model \(name) \(verb) retired on \(day). Use \(other) instead.")
    }
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

    /// Returns the notice that a request's option is left out.
    ///
    /// - Parameter option: its path in the request, such as `reasoning.effort`.
    static func optionLeftOut(_ option: String, by model: String) -> ChappieNotice {
        ChappieNotice(
            .optionLeftOut,
            "The model \(UntrustedText.forTerminal(model)) does not take this \(option), so it is left out.")
    }

    static func picturesLeftOut(by model: String) -> ChappieNotice {
        ChappieNotice(
            .imageLeftOut,
            "The model \(UntrustedText.forTerminal(model)) takes text only. The conversation's pictures are left out.")
    }

    static let compactionLost = ChappieNotice(
        .compactionLost,
        "The summary of the earlier conversation can't be read any more. The model sees your own messages from it only."
    )

    static let imageByAddress = ChappieNotice(
        .imageLeftOut,
        "Images that the conversation has only by their address are left out: the model takes their bytes only.")
}

/// The wish from which a turn's model is chosen.
struct ModelWish: Sendable {
    /// The model that the program or its user has named.
    var named: String?
    /// The model of the conversation so far.
    var conversation: String?
    /// The refusals in this turn, in the order in which the service sent them.
    var refusals: [ChappieModelRefusal] = []

    /// Returns the model to try next. A model that was refused in this turn is not tried again. No model outside the
    /// list is tried if the list has one.
    ///
    /// - Parameters:
    ///   - list: `nil` if none can be loaded.
    ///   - plan: the account's plan.
    /// - Returns: `nil` if every model that may be tried was refused.
    func choice(from list: ModelList?, of plan: ChappiePlan?, at now: Date) -> ChappieModelChoice? {
        let refused = Set(refusals.map(\.slug))
        if let named { return refused.contains(named) ? nil : ChappieModelChoice(slug: named, reason: .named) }
        // A list that has no model to choose does not rule out other models.
        let usable = list.flatMap { $0.best(at: now) == nil ? nil : $0 }
        let guess = usable == nil ? ModelList.lastResorts(of: plan).first { !refused.contains($0) } : nil
        if let conversation {
            let isThere = usable.map { $0[conversation].map { !$0.isRetired(at: now) } ?? false } ?? true
            if isThere, !refused.contains(conversation) {
                return ChappieModelChoice(slug: conversation, reason: .conversation)
            }
            let next = usable?.replacement(of: conversation, without: refused, at: now)?.slug ?? guess
            return next.map { ChappieModelChoice(slug: $0, reason: .replacement, replaces: conversation) }
        }
        let replaces = refusals.last?.slug
        if let best = usable?.best(without: refused, at: now) {
            return ChappieModelChoice(
                slug: best.slug, reason: best.isListed ? .bestListed : .hidden, replaces: replaces)
        }
        return guess.map {
            ChappieModelChoice(slug: $0, reason: list == nil ? .lastResort : .emptyList, replaces: replaces)
        }
    }
}

extension ChappieModelChoice {
    /// Returns a notice to the user if the choice differs from the wish.
    ///
    /// - Parameters:
    ///   - refusals: the turn's refusals.
    ///   - list: the list from which the model was chosen.
    func notice(after refusals: [ChappieModelRefusal], _ list: ModelList?) -> ChappieNotice? {
        let slug = UntrustedText.forTerminal(slug)
        if let replaces {
            let name = UntrustedText.forTerminal(replaces)
            let cause =
                refusals.last { $0.slug == replaces }?.sentence
                ?? (list?[replaces] == nil
                    ? "The model \(name) is no longer in your model list." : "The model \(name) is retired.")
            return ChappieNotice(.modelReplaced, "\(cause) Using \(slug).")
        }
        return switch reason {
        case .lastResort: ChappieNotice(.modelGuessed, "Couldn't load your model list. Using \(slug).")
        case .emptyList where list?.models.isEmpty == false:
            ChappieNotice(.modelGuessed, "Your model list has no model for questions. Using \(slug).")
        case .emptyList: ChappieNotice(.modelGuessed, "Your model list is empty. Using \(slug).")
        case .hidden:
            ChappieNotice(.modelGuessed, "Your model list shows no model. Using \(slug), which the list hides.")
        default: nil
        }
    }
}
