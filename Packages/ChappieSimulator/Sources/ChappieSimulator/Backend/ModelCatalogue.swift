import ChappieCore

/// The models on offer: some of the shape that takes tools at the top level, some of the lite shape, one hidden.
struct ModelCatalogue: Sendable {
    private struct Entry {
        let slug: String
        let name: String
        let description: String
        let contextWindow: Int
        let isLite: Bool
        let defaultEffort: String
        let efforts: [String]
        var isHidden = false
    }

    static let whole = ModelCatalogue()

    /// The body of the models endpoint.
    let bytes: [UInt8]
    /// Changes when, and only when, the catalogue does.
    let entityTag: String

    /// - Parameter slugs: the models that are listed; `nil` for all.
    init(only slugs: [String]? = nil) {
        let models = Self.entries.enumerated().filter { slugs?.contains($0.element.slug) ?? true }.map {
            Self.model($0.element, priority: $0.offset + 1)
        }
        bytes = (["models": .array(models)] as ChappieJSON).serializedBytes()
        entityTag = "W/\"" + Base64URL.encode(Array(SHA256.digest(bytes).prefix(12))) + "\""
    }

    private static let entries = [
        Entry(
            slug: "gpt-5.5", name: "GPT-5.5", description: "A simulated model that repeats what it was asked.",
            contextWindow: 272_000, isLite: false, defaultEffort: "medium",
            efforts: ["low", "medium", "high", "xhigh"]),
        Entry(
            slug: "gpt-5.5-mini", name: "GPT-5.5 mini", description: "The same, with a small context window.",
            contextWindow: 16_000, isLite: false, defaultEffort: "low", efforts: ["low", "medium"]),
        Entry(
            slug: "gpt-6.1-sol", name: "GPT-6.1 Sol",
            description: "A simulated model that takes its tools in the input.",
            contextWindow: 272_000, isLite: true, defaultEffort: "low",
            efforts: ["low", "medium", "high", "xhigh", "max", "ultra"]),
        Entry(
            slug: "codex-auto-review", name: "Codex Auto Review", description: "Hidden from lists.",
            contextWindow: 272_000, isLite: true, defaultEffort: "medium", efforts: ["low", "medium", "high"],
            isHidden: true),
    ]

    private static func model(_ entry: Entry, priority: Int) -> ChappieJSON {
        let efforts = entry.efforts.map { effort -> ChappieJSON in
            ["effort": .string(effort), "description": .string("Thinks with \(effort) effort")]
        }
        var object = ChappieJSONObject([
            ("slug", .string(entry.slug)), ("display_name", .string(entry.name)),
            ("description", .string(entry.description)), ("default_reasoning_level", .string(entry.defaultEffort)),
            ("supported_reasoning_levels", .array(efforts)), ("visibility", entry.isHidden ? "hide" : "list"),
            ("priority", .integer(priority)), ("context_window", .integer(entry.contextWindow)),
            ("max_context_window", .integer(entry.contextWindow)), ("use_responses_lite", .bool(entry.isLite)),
            ("tool_mode", entry.isLite ? "code_mode_only" : nil),
        ])
        for (name, value) in common { object[name] = value }
        return .object(object)
    }

    private static let common: [(String, ChappieJSON)] = [
        ("shell_type", "unified_exec"), ("supported_in_api", true), ("additional_speed_tiers", []),
        ("service_tiers", [["id": "priority", "name": "Fast", "description": "Answers sooner"]]),
        ("availability_nux", nil), ("upgrade", nil),
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
