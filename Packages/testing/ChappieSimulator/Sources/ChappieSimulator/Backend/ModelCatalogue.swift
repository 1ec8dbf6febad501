@_spi(ChappieInternals) import ChappieCore

/// The month whose service a simulator reproduces.
public enum SimulatorMonth: String, Sendable, Hashable, Codable, CaseIterable {
    /// gpt-5.5 is offered, requests may have either form, and the `version` header field is ignored.
    case september2026 = "2026-09"
    /// gpt-5.5 is retired, and every model accepts the lite form.
    case november2026 = "2026-11"
}

/// The reason for which a model is refused.
enum ModelRefusal: String, Codable, Sendable, Hashable {
    case unsupported, newerVersion, notFound

    func response(to slug: String) -> BackendResponse {
        let detail =
            switch self {
            case .unsupported: "The '\(slug)' model is not supported when using Codex with a ChatGPT account."
            case .newerVersion:
                "The '\(slug)' model requires a newer version of Codex. "
                    + "Please upgrade to the latest app or CLI and try again."
            case .notFound: ""
            }
        guard self == .notFound else { return .json(["detail": .string(detail)], status: 400) }
        let error: ChappieJSON = [
            "message": .string("Model not found \(slug)".trimmed), "type": "invalid_request_error", "param": "model",
            "code": nil,
        ]
        return .json(["error": error], status: 404)
    }
}

/// The version of the wire format that a client names, which consists of numbers separated by dots.
struct ClientVersion: Sendable, Hashable, Comparable {
    private let numbers: [Int]

    init?(_ text: String?) {
        let parts = (text ?? "").prefix { $0 != "-" && $0 != "+" }.split(separator: ".")
        numbers = parts.compactMap { Int($0) }
        guard !numbers.isEmpty, numbers.count == parts.count else { return nil }
    }

    static func < (left: ClientVersion, right: ClientVersion) -> Bool {
        left.numbers.lexicographicallyPrecedes(right.numbers)
    }
}

/// One model of the catalogue.
struct CatalogueModel: Sendable, Hashable {
    /// The plans that have a model, unless an account specifies its models.
    enum Plans: Sendable { case all, paid, paidAndSwitchedOn }

    let slug: String
    let name: String
    var description = "A simulated model that repeats what it was asked."
    let priority: Int
    var contextWindow = 272_000
    var maximumContextWindow = 872_000
    var isLite = true
    var efforts = ["low", "medium", "high", "xhigh", "max", "ultra"]
    var defaultEffort = "low"
    var isHidden = false
    var upgrade: String?
    /// The class of the model. Only models of the same class can read each other's encrypted items.
    var compactionHash = "3000"
    var multiAgentEffort: String?
    var defaultTier: String?
    /// The oldest client version to which it is offered.
    var minimalVersion = "0.98.0"
    var plans = Plans.paid

    /// Returns whether accounts with this plan have the model.
    func isOffered(to plan: String) -> Bool {
        switch plans {
        case .all: true
        case .paid: !["free", "free_workspace", "go", "guest"].contains(plan)
        // In such a workspace, the administrator decides.
        case .paidAndSwitchedOn:
            !["free", "free_workspace", "go", "guest", "ent26"].contains(plan)
                && !["enterprise", "edu"].contains { plan.hasPrefix($0) }
        }
    }

    func isOffered(to client: ClientVersion?) -> Bool {
        guard let client, let minimal = ClientVersion(minimalVersion) else { return true }
        return minimal <= client
    }

    /// Returns the refusal of an effort, or `nil` if the model supports it. `ultra` is only for clients and is never
    /// sent.
    func problem(withEffort effort: String) -> BackendResponse? {
        let known = efforts.filter { $0 != "ultra" }
        guard !known.contains(effort) else { return nil }
        return .invalid(
            "Unsupported value: '\(effort)' is not supported with the '\(slug)' model. Supported values are: "
                + known.map { "'\($0)'" }.joined(separator: ", "),
            code: "unsupported_value", parameter: "reasoning.effort")
    }
}

/// The models that the backend offers.
struct ModelCatalogue: Sendable {
    let models: [CatalogueModel]
    /// The slugs of models that were offered earlier.
    let retired: Set<String>

    init(asOf month: SimulatorMonth, listsRetired: Bool = false) {
        switch month {
        case .september2026: (models, retired) = (Self.september, [])
        case .november2026:
            models = Self.november + (listsRetired ? [Self.retiredModel] : [])
            retired = ["gpt-5.5", "gpt-5.4", "gpt-5.4-mini", "gpt-5.3-codex-spark", "gpt-5.3-codex", "gpt-5.2"]
        }
    }

    subscript(slug: String) -> CatalogueModel? { models.first { $0.slug == slug } }

    /// Returns the models that an account may use. These are the models that it specifies, or otherwise those of its
    /// plan. An old client gets fewer models.
    func models(for account: SimulatorAccount, client: ClientVersion?) -> [CatalogueModel] {
        models.filter {
            (account.models?.contains($0.slug) ?? $0.isOffered(to: account.plan)) && $0.isOffered(to: client)
        }
    }

    /// Returns a tag that changes if, and only if, the list changes.
    static func entityTag(of models: [CatalogueModel]) -> String {
        "W/\"\(models.map(\.slug).joined(separator: "+"))\""
    }

    /// Returns the class of models that read each other's encrypted items.
    static func compactionHash(of slug: String) -> String { slug.hasPrefix("gpt-5.5") ? "2911" : "3000" }

    // MARK: The lists

    private static let november = [
        CatalogueModel(
            slug: "gpt-6.1-sol", name: "GPT-6.1-Sol", priority: 1, multiAgentEffort: "xhigh",
            minimalVersion: "0.153.0", plans: .paidAndSwitchedOn),
        CatalogueModel(
            slug: "gpt-6-astra", name: "GPT-6-Astra", priority: 2, multiAgentEffort: "xhigh",
            minimalVersion: "0.153.0"),
        CatalogueModel(
            slug: "gpt-6-sol", name: "GPT-6-Sol", priority: 3, defaultEffort: "medium", defaultTier: "priority",
            minimalVersion: "0.155.0"),
        CatalogueModel(
            slug: "gpt-6-luna", name: "GPT-6-Luna", priority: 4, efforts: ["low", "medium", "high", "xhigh", "max"],
            defaultEffort: "medium", defaultTier: "priority", minimalVersion: "0.155.0", plans: .all),
        CatalogueModel(
            slug: "gpt-5.6-sol", name: "GPT-5.6-Sol", priority: 5, upgrade: "gpt-6-sol", minimalVersion: "0.144.0"),
        CatalogueModel(
            slug: "gpt-5.6-terra", name: "GPT-5.6-Terra", priority: 8, defaultEffort: "medium", upgrade: "gpt-6-sol",
            minimalVersion: "0.144.0"),
        CatalogueModel(
            slug: "gpt-5.6-luna", name: "GPT-5.6-Luna", priority: 9,
            efforts: ["low", "medium", "high", "xhigh", "max"], defaultEffort: "medium", upgrade: "gpt-6-luna",
            minimalVersion: "0.144.0"),
        CatalogueModel(
            slug: "codex-auto-review", name: "Codex Auto Review", description: "Hidden from lists.", priority: 43,
            efforts: ["low", "medium", "high", "xhigh", "max"], defaultEffort: "medium", isHidden: true),
    ]

    private static let retiredModel = CatalogueModel(
        slug: "gpt-5.5", name: "GPT-5.5", priority: 13, maximumContextWindow: 272_000, isLite: false,
        efforts: ["low", "medium", "high", "xhigh"], defaultEffort: "medium", upgrade: "gpt-6-sol",
        compactionHash: "2911", minimalVersion: "0.124.0", plans: .all)

    private static let september = [
        CatalogueModel(
            slug: "gpt-5.5", name: "GPT-5.5", priority: 1, maximumContextWindow: 272_000, isLite: false,
            efforts: ["low", "medium", "high", "xhigh"], defaultEffort: "medium", compactionHash: "2911",
            plans: .all),
        CatalogueModel(
            slug: "gpt-5.5-mini", name: "GPT-5.5 mini", description: "The same, with a small context window.",
            priority: 2, contextWindow: 16_000, maximumContextWindow: 16_000, isLite: false,
            efforts: ["low", "medium"], compactionHash: "2911", plans: .all),
        CatalogueModel(
            slug: "gpt-6.1-sol", name: "GPT-6.1 Sol",
            description: "A simulated model that takes its tools in the input.", priority: 3,
            maximumContextWindow: 272_000, plans: .all),
        CatalogueModel(
            slug: "codex-auto-review", name: "Codex Auto Review", description: "Hidden from lists.", priority: 4,
            maximumContextWindow: 272_000, efforts: ["low", "medium", "high"], defaultEffort: "medium",
            isHidden: true, plans: .all),
    ]
}

extension CatalogueModel {
    /// The model as an entry of the list.
    var json: ChappieJSON {
        let levels = efforts.map { effort -> ChappieJSON in
            ["effort": .string(effort), "description": .string("Thinks with \(effort) effort")]
        }
        let own: [(String, ChappieJSON)] = [
            ("slug", .string(slug)), ("display_name", .string(name)), ("description", .string(description)),
            ("default_reasoning_level", .string(defaultEffort)), ("supported_reasoning_levels", .array(levels)),
            ("visibility", isHidden ? "hide" : "list"), ("priority", .integer(priority)),
            ("context_window", .integer(contextWindow)), ("max_context_window", .integer(maximumContextWindow)),
            ("use_responses_lite", .bool(isLite)), ("tool_mode", isLite ? "code_mode_only" : nil),
            ("comp_hash", .string(compactionHash)),
            ("multi_agent_reasoning_effort", multiAgentEffort.map(ChappieJSON.string) ?? .null),
            ("default_service_tier", defaultTier.map(ChappieJSON.string) ?? .null),
            ("minimal_client_version", .string(minimalVersion)), ("upgrade", upgradeJSON),
        ]
        return .object(ChappieJSONObject(own + Self.common))
    }

    private var upgradeJSON: ChappieJSON {
        guard let upgrade else { return .null }
        return [
            "model": .string(upgrade), "migration_markdown": "Meet \(upgrade)\n\nIt takes this model's place.\n",
            "retirement_at": nil,
        ]
    }

    private static let common: [(String, ChappieJSON)] = [
        ("shell_type", "unified_exec"), ("supported_in_api", true), ("additional_speed_tiers", []),
        ("service_tiers", [["id": "priority", "name": "Fast", "description": "Answers sooner"]]),
        ("availability_nux", nil),
        ("base_instructions", "You are a simulated model. Repeat what you are asked, in Markdown."),
        ("model_messages", nil), ("include_skills_usage_instructions", false),
        ("include_plugin_usage_instructions", false), ("include_apps_usage_instructions", false),
        ("supports_reasoning_summary_parameter", true), ("supports_reasoning_summaries", true),
        ("default_reasoning_summary", "auto"), ("support_verbosity", true), ("default_verbosity", "low"),
        ("apply_patch_tool_type", "freeform"), ("web_search_tool_type", "text"),
        ("truncation_policy", ["mode": "tokens", "limit": 10_000]), ("supports_image_detail_original", false),
        ("effective_context_window_percent", 95), ("experimental_supported_tools", []),
        ("input_modalities", ["text", "image"]), ("supports_search_tool", false),
        ("supports_parallel_tool_calls", true), ("supports_experimental_context", false),
        ("supports_reasoning_effort_updates", false), ("node_repl_auto_review_required", false),
        ("node_repl_disabled", true),
    ]
}
