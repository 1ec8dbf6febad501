/// A model as the backend lists it.
public struct ChappieModel: Sendable, Hashable, Codable, Identifiable {
    /// The name that requests carry.
    public var slug: String
    public var displayName: String
    public var description: String?
    public var supportedInAPI: Bool
    /// Lower comes first.
    public var priority: Int
    /// Whether the backend wants it in a list for people.
    public var isListed: Bool
    /// `text`, `image`, …
    public var inputModalities: [String]
    public var supportedReasoningLevels: [ChappieReasoningEffort]
    public var defaultReasoningLevel: ChappieReasoningEffort?
    /// In tokens.
    public var contextWindow: Int?
    public var supportsSearchTool: Bool
    public var supportsParallelToolCalls: Bool
    public var supportsVerbosity: Bool
    /// The model wants the backend's "lite" request shape, which this version does not send.
    public var usesResponsesLite: Bool

    public var id: String { slug }

    /// Reads one entry of the model list; `nil` when it has no slug. Everything else has a default.
    public init?(_ json: ChappieJSON) {
        guard let slug = json["slug"]?.string ?? json["id"]?.string, !slug.isEmpty else { return nil }
        self.slug = slug
        displayName = json["display_name"]?.string ?? slug
        description = json["description"]?.string
        supportedInAPI = json["supported_in_api"]?.bool ?? true
        priority = json["priority"]?.int ?? Int.max
        isListed = (json["visibility"]?.string ?? "list") == "list"
        inputModalities = json["input_modalities"]?.array?.compactMap(\.string) ?? ["text"]
        supportedReasoningLevels = (json["supported_reasoning_levels"]?.array ?? []).compactMap {
            ($0["effort"]?.string ?? $0.string).map(ChappieReasoningEffort.init(rawValue:))
        }
        defaultReasoningLevel = json["default_reasoning_level"]?.string.map(ChappieReasoningEffort.init(rawValue:))
        contextWindow = json["context_window"]?.int
        supportsSearchTool = json["supports_search_tool"]?.bool ?? false
        usesResponsesLite = json["use_responses_lite"]?.bool ?? false
        supportsParallelToolCalls = json["supports_parallel_tool_calls"]?.bool ?? !usesResponsesLite
        supportsVerbosity = json["support_verbosity"]?.bool ?? false
    }

    /// Reads the model list, best first; both the backend's `{"models":[…]}` and an OpenAI-style `{"data":[…]}`.
    ///
    /// - Returns: `nil` when the body is neither. Entries without a slug are passed over.
    public static func list(_ body: ChappieJSON) -> [ChappieModel]? {
        guard let entries = body["models"]?.array ?? body["data"]?.array else { return nil }
        return entries.compactMap(ChappieModel.init).enumerated()
            .sorted { ($0.element.priority, $0.offset) < ($1.element.priority, $1.offset) }.map(\.element)
    }
}
