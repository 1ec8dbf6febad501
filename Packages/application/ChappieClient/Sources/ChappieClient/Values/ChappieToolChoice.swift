import ChappieCore

/// The rule for the tool calls in a turn's first answer. After their results, the model decides itself.
///
/// Source: `tool_choice` of the Responses API. The Codex CLI sends only `auto`.
public enum ChappieToolChoice: Sendable, Hashable, Codable {
    /// The model decides.
    case automatic
    /// It calls no tool.
    case none
    /// It calls at least one.
    case required
    /// It calls the function of this name.
    case function(String)
    /// It calls the custom tool of this name, which takes free text.
    case custom(String)

    var json: ChappieJSON {
        switch self {
        case .automatic: "auto"
        case .none: "none"
        case .required: "required"
        case .function(let name): ["type": "function", "name": .string(name)]
        case .custom(let name): ["type": "custom", "name": .string(name)]
        }
    }
}
