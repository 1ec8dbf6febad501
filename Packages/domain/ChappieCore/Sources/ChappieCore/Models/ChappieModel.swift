/// A model in the backend's list.
///
/// A feature that the list does not mention counts as supported, because older lists and other backends mention few.
public struct ChappieModel: Sendable, Hashable, Codable, Identifiable {
    /// The name of the model in requests.
    public var slug: String
    /// The name that users see.
    public var displayName: String
    /// A sentence about the model.
    public var description: String?
    /// Whether requests may name it.
    public var supportedInAPI: Bool
    /// The rank. Models with lower numbers precede the others.
    public var priority: Int
    /// Whether the backend lists the model for users. Default `true`, also for a visibility that is not known here.
    public var isListed: Bool
    /// The kinds of input: `text`, `image`, … Default: both of these.
    public var inputModalities: [String]
    /// The efforts that requests may name.
    public var supportedReasoningLevels: [ChappieReasoningEffort]
    /// The effort of a request that names none, or `.automatic` if the backend does not name it.
    public var defaultReasoningLevel: ChappieReasoningEffort
    /// The effort that requests use for `ultra`, if the model has one.
    public var multiAgentReasoningEffort: ChappieReasoningEffort?
    /// The context window, in tokens.
    public var contextWindow: Int?
    /// The largest window that the model supports, in tokens.
    public var maximumContextWindow: Int?
    /// The part of the window that a conversation may fill, in percent. The rest is for the answer. Default 95.
    public var effectiveContextWindowPercent: Int
    /// The size in tokens at which the backend's own clients compact a conversation, or `nil` for 90 % of the window.
    public var autoCompactTokenLimit: Int?
    /// Whether the model has the backend's search tool, according to the list.
    public var supportsSearchTool: Bool
    /// The kinds of content that the model reads on the web, `text` or also `image`. Empty if the list does not offer
    /// web search with the model. See `ChappieServiceTool.webSearch()`.
    public var webSearchContentTypes: [String]
    /// The tiers of service that requests may name, in addition to the usual one.
    public var serviceTiers: [ChappieServiceTier]
    /// Whether several tools may be called in one round.
    public var supportsParallelToolCalls: Bool
    /// Whether requests have the lite form, in which tools are sent in the input and calls arrive one at a time.
    public var usesResponsesLite: Bool
    /// The name of the family of models that can read this model's compactions. Compactions of another family are left
    /// out.
    public var compactionHash: String?
    /// Whether the model writes summaries of its reasoning. Default `true`.
    public var supportsReasoningSummaries: Bool
    /// Whether requests may ask for a summary of the reasoning. Default `true`. See ``takesReasoningSummary``.
    public var supportsReasoningSummaryParameter: Bool
    /// The summary of a request that names none, such as `auto` or `none`. `nil` if the list does not mention it.
    public var defaultReasoningSummary: String?
    /// Whether requests may name a ``ChappieVerbosity``. Default `true`.
    public var supportsVerbosity: Bool
    /// The verbosity of a request that names none.
    public var defaultVerbosity: ChappieVerbosity?
    /// The lowest version of the backend's own client that may use the model. `nil` if the list does not mention it.
    /// The backend is known to name versions here that are too low.
    public var minimalClientVersion: String?
    /// The backend's note for users about the availability of the model.
    public var availabilityNote: String?
    /// The model that replaces this one, or `nil` if this model stays.
    public var upgrade: ChappieModelUpgrade?

    public var id: String { slug }

    /// The time when the model is retired, or `nil` if the backend does not name it.
    public var retiresAt: Date? { upgrade?.retirementAt }

    /// Whether a request may ask for a summary of the reasoning, and the model then writes one.
    public var takesReasoningSummary: Bool {
        supportsReasoningSummaries && supportsReasoningSummaryParameter
    }

    /// Creates a model with the given properties.
    public init(
        slug: String, displayName: String? = nil, description: String? = nil, supportedInAPI: Bool = true,
        priority: Int = .max, isListed: Bool = true, inputModalities: [String] = ["text", "image"],
        supportedReasoningLevels: [ChappieReasoningEffort] = [],
        defaultReasoningLevel: ChappieReasoningEffort = .automatic,
        multiAgentReasoningEffort: ChappieReasoningEffort? = nil, contextWindow: Int? = nil,
        maximumContextWindow: Int? = nil, effectiveContextWindowPercent: Int = 95, autoCompactTokenLimit: Int? = nil,
        supportsSearchTool: Bool = false, webSearchContentTypes: [String] = [],
        serviceTiers: [ChappieServiceTier] = [], supportsParallelToolCalls: Bool = true,
        usesResponsesLite: Bool = false,
        compactionHash: String? = nil, supportsReasoningSummaries: Bool = true,
        supportsReasoningSummaryParameter: Bool = true, defaultReasoningSummary: String? = nil,
        supportsVerbosity: Bool = true, defaultVerbosity: ChappieVerbosity? = nil,
        minimalClientVersion: String? = nil, availabilityNote: String? = nil,
        upgrade: ChappieModelUpgrade? = nil
    ) {
        self.slug = slug
        self.displayName = displayName ?? slug
        self.description = description
        self.supportedInAPI = supportedInAPI
        self.priority = priority
        self.isListed = isListed
        self.inputModalities = inputModalities
        self.supportedReasoningLevels = supportedReasoningLevels
        self.defaultReasoningLevel = defaultReasoningLevel
        self.multiAgentReasoningEffort = multiAgentReasoningEffort
        self.contextWindow = contextWindow
        self.maximumContextWindow = maximumContextWindow
        self.effectiveContextWindowPercent = effectiveContextWindowPercent
        self.autoCompactTokenLimit = autoCompactTokenLimit
        self.supportsSearchTool = supportsSearchTool
        self.webSearchContentTypes = webSearchContentTypes
        self.serviceTiers = serviceTiers
        self.supportsParallelToolCalls = supportsParallelToolCalls
        self.usesResponsesLite = usesResponsesLite
        self.compactionHash = compactionHash
        self.supportsReasoningSummaries = supportsReasoningSummaries
        self.supportsReasoningSummaryParameter = supportsReasoningSummaryParameter
        self.defaultReasoningSummary = defaultReasoningSummary
        self.supportsVerbosity = supportsVerbosity
        self.defaultVerbosity = defaultVerbosity
        self.minimalClientVersion = minimalClientVersion
        self.availabilityNote = availabilityNote
        self.upgrade = upgrade
    }
}

/// A tier of service in which a model is offered. It determines how soon answers arrive, and their cost.
public struct ChappieServiceTier: Sendable, Hashable, Codable, Identifiable {
    /// The name in requests, such as `priority`.
    public var id: String
    /// The name for users, such as `Fast`.
    public var name: String
    /// The backend's text about the meaning and the cost.
    public var description: String?

    /// Creates a tier with the given properties.
    public init(id: String, name: String? = nil, description: String? = nil) {
        self.id = id
        self.name = name ?? id
        self.description = description
    }

    init?(_ json: ChappieJSON) {
        guard let id = UntrustedText.token(json["id"]?.string, limit: 100) else { return nil }
        self.init(id: id, name: json["name"]?.string, description: json["description"]?.string)
    }
}

/// The model that replaces another one.
public struct ChappieModelUpgrade: Sendable, Hashable, Codable {
    /// The slug of the model to use instead.
    public var model: String
    /// The changes, in Markdown, for users.
    public var notes: String?
    /// The time when the old model is retired, or `nil` if the backend does not name it.
    public var retirementAt: Date?

    /// Creates an upgrade with the given properties.
    public init(model: String, notes: String? = nil, retirementAt: Date? = nil) {
        self.model = model
        self.notes = notes
        self.retirementAt = retirementAt
    }

    init?(_ json: ChappieJSON?) {
        guard let json, let model = json["model"]?.string, !model.isEmpty else { return nil }
        let retirement = json["retirement_at"]
        self.init(
            model: model, notes: json["migration_markdown"]?.string,
            retirementAt: PeerNumber.date(retirement?.double)
                ?? retirement?.string.flatMap { try? Date($0, strategy: .iso8601) })
    }
}

@_spi(ChappieInternals) extension ChappieModel {
    /// Reads one entry of the model list, or returns `nil` if it has no slug, or a slug that is not plain text. All
    /// other members have a default.
    public init?(_ json: ChappieJSON) {
        // The slug is put into header fields and shown on terminals.
        guard let slug = UntrustedText.token(json["slug"]?.string ?? json["id"]?.string, limit: 200) else { return nil }
        func effort(_ json: ChappieJSON?) -> ChappieReasoningEffort? {
            json?.string.map(ChappieReasoningEffort.init(rawValue:))
        }
        let modalities = (json["input_modalities"]?.array ?? []).compactMap(\.string)
        self.init(
            slug: slug, displayName: json["display_name"]?.string, description: json["description"]?.string,
            supportedInAPI: json["supported_in_api"]?.bool ?? true, priority: json["priority"]?.int ?? .max,
            isListed: !["hide", "none"].contains(json["visibility"]?.string),
            inputModalities: modalities.isEmpty ? ["text", "image"] : modalities,
            supportedReasoningLevels: (json["supported_reasoning_levels"]?.array ?? []).compactMap {
                effort($0["effort"]) ?? effort($0)
            },
            defaultReasoningLevel: effort(json["default_reasoning_level"]) ?? .automatic,
            multiAgentReasoningEffort: effort(json["multi_agent_reasoning_effort"]),
            contextWindow: json["context_window"]?.int, maximumContextWindow: json["max_context_window"]?.int,
            effectiveContextWindowPercent: json["effective_context_window_percent"]?.int ?? 95,
            autoCompactTokenLimit: json["auto_compact_token_limit"]?.int,
            supportsSearchTool: json["supports_search_tool"]?.bool ?? false,
            webSearchContentTypes: (json["web_search_tool_type"]?.string ?? "").split(separator: "_")
                .filter { $0 != "and" }.map(String.init),
            serviceTiers: (json["service_tiers"]?.array ?? []).compactMap(ChappieServiceTier.init),
            supportsParallelToolCalls: json["supports_parallel_tool_calls"]?.bool
                ?? (json["use_responses_lite"]?.bool != true),
            usesResponsesLite: json["use_responses_lite"]?.bool ?? false,
            compactionHash: json["comp_hash"].flatMap { $0.string ?? $0.int.map(String.init) },
            supportsReasoningSummaries: json["supports_reasoning_summaries"]?.bool ?? true,
            supportsReasoningSummaryParameter: json["supports_reasoning_summary_parameter"]?.bool ?? true,
            defaultReasoningSummary: json["default_reasoning_summary"]?.string,
            supportsVerbosity: json["support_verbosity"]?.bool ?? true,
            defaultVerbosity: json["default_verbosity"]?.string.map(ChappieVerbosity.init(rawValue:)),
            minimalClientVersion: UntrustedText.token(json["minimal_client_version"]?.string, limit: 50),
            availabilityNote: json["availability_nux"]?["message"]?.string,
            upgrade: ChappieModelUpgrade(json["upgrade"]))
    }

    /// Returns whether two names are of the same model. A provider prefix and the date of a snapshot make no difference.
    @_spi(ChappieInternals) public static func isSame(_ name: String, _ other: String) -> Bool {
        undated(name) == undated(other)
    }

    /// Returns the name in lower case, without a provider prefix and without the date of a snapshot at the end, as in
    /// `gpt-5-2025-08-07`, `gpt-5-20250807` and `gpt-4-0613`.
    private static func undated(_ name: String) -> String {
        let own = name.lowercased().split(separator: "/").last.map(String.init) ?? name
        var parts = own.split(separator: "-", omittingEmptySubsequences: false)
        let digits = parts.map { part in part.allSatisfy { $0.isASCII && $0.isNumber } ? part.count : 0 }
        if digits.count > 3, digits.suffix(3) == [4, 2, 2] {
            parts.removeLast(3)
        } else if parts.count > 1, [8, 4].contains(digits.last) || parts.last == "latest" {
            parts.removeLast()
        }
        return parts.joined(separator: "-")
    }

    /// Reads the model list, which begins with the best model. It is the backend's `{"models":[…]}` or an OpenAI-style
    /// `{"data":[…]}`.
    ///
    /// - Parameter ranked: Whether `priority` determines the order. Otherwise the order of the list stays.
    /// - Returns: The models, or `nil` if the body is neither. Entries without a slug are skipped.
    public static func list(_ body: ChappieJSON, ranked: Bool = true) -> [ChappieModel]? {
        guard let entries = body["models"]?.array ?? body["data"]?.array else { return nil }
        let models = entries.compactMap(ChappieModel.init)
        guard ranked else { return models }
        return models.enumerated()
            .sorted { ($0.element.priority, $0.offset) < ($1.element.priority, $1.offset) }.map(\.element)
    }
}

@_spi(ChappieInternals) extension ChappieModel {
    /// Whether the model is for the backend's own purposes, although the list may show it. Such a model answers only if
    /// it is named.
    public var isInternal: Bool {
        ["gpt-reserve", "codex-auto-review"].contains { slug == $0 || slug.hasPrefix($0 + "-") }
    }

    /// The efforts, from the lowest to the highest.
    private static let efforts: [ChappieReasoningEffort] = [
        .none, .minimal, .low, .medium, .high, .extraHigh, .max, .ultra,
    ]

    /// Returns the effort for a request to this model if the caller asked for `wanted`. `ultra` is never sent. An
    /// effort that the model does not support becomes the nearest lower one, or else the lowest.
    ///
    /// If a model does not list its efforts, the result is its default, or the caller's value.
    public func effort(for wanted: ChappieReasoningEffort) -> ChappieReasoningEffort {
        let supported = supportedReasoningLevels.filter { $0 != .ultra }
        let own = defaultReasoningLevel == .ultra ? effort(for: .ultra) : defaultReasoningLevel
        if wanted == .ultra {
            if let multi = multiAgentReasoningEffort, supported.contains(multi) { return multi }
            return supported.isEmpty || supported.contains(.max) ? .max : supported.last ?? .max
        }
        guard wanted != .automatic else { return own }
        guard !supported.isEmpty, !supported.contains(wanted) else { return wanted }
        guard let rank = Self.efforts.firstIndex(of: wanted) else { return own }
        let known = Self.efforts.filter(supported.contains)
        return known.last { Self.efforts.firstIndex(of: $0).map { $0 < rank } ?? false } ?? known.first ?? own
    }
}

/// A filter for the models to list. By default it matches the models that the backend lists for users.
public struct ChappieModelFilter: Sendable, Hashable, Codable {
    /// Whether the API supports the model. `nil` matches both.
    public var supportedInAPI: Bool?
    /// A kind of input that the model supports, such as `text` or `image`. `nil` matches all.
    public var inputModality: String?
    /// Whether the model can search the web. `nil` matches both.
    public var supportsSearchTool: Bool?
    /// Whether several tools may be called in one round. `nil` matches both.
    public var supportsParallelToolCalls: Bool?
    /// A reasoning effort that requests may name, in the backend's spelling. `nil` matches all.
    public var reasoningLevel: String?
    /// Whether models that the backend hides from lists match. Default `false`.
    public var includesHidden: Bool

    /// Creates a filter. Without arguments it matches the models that the backend lists for users.
    public init(
        supportedInAPI: Bool? = nil, inputModality: String? = nil, supportsSearchTool: Bool? = nil,
        supportsParallelToolCalls: Bool? = nil, reasoningLevel: String? = nil, includesHidden: Bool = false
    ) {
        self.supportedInAPI = supportedInAPI
        self.inputModality = inputModality
        self.supportsSearchTool = supportsSearchTool
        self.supportsParallelToolCalls = supportsParallelToolCalls
        self.reasoningLevel = reasoningLevel
        self.includesHidden = includesHidden
    }

    /// A filter for the models for text that the API supports.
    public static let textInAPI = ChappieModelFilter(supportedInAPI: true, inputModality: "text")

    /// Returns whether `model` may be listed.
    public func matches(_ model: ChappieModel) -> Bool {
        func agrees<Value: Equatable>(_ wanted: Value?, _ value: Value) -> Bool { wanted == nil || wanted == value }
        return (includesHidden || model.isListed) && agrees(supportedInAPI, model.supportedInAPI)
            && agrees(supportsSearchTool, model.supportsSearchTool)
            && agrees(supportsParallelToolCalls, model.supportsParallelToolCalls)
            && inputModality.map(model.inputModalities.contains) != false
            && reasoningLevel.map { model.supportedReasoningLevels.map(\.rawValue).contains($0) } != false
    }
}
