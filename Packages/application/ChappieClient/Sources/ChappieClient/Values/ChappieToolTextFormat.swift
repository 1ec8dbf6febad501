import ChappieCore

/// The form of the free text that a custom tool takes instead of JSON arguments.
///
/// The service makes the model follow a grammar while it writes. The text is not checked again before the handler runs,
/// so a handler that depends on its form has to parse it.
///
/// As JSON it has the service's own form: `{"type": "text"}`, or `{"type": "grammar", "syntax": "lark", "definition":
/// "…"}`.
/// Source: `custom` tools of the Responses API. The Codex CLI declares `apply_patch` in this way.
public enum ChappieToolTextFormat: Sendable, Hashable {
    /// Any text.
    case text
    /// Text that fits a grammar in the syntax of Lark. Its start rule is called `start`.
    case lark(String)
    /// Text that fits a regular expression in the syntax of Rust's `regex` crate.
    case regex(String)

    /// The grammar, or `nil` if there is none.
    var definition: String? {
        switch self {
        case .text: nil
        case .lark(let definition), .regex(let definition): definition
        }
    }

    private var syntax: String? {
        switch self {
        case .text: nil
        case .lark: "lark"
        case .regex: "regex"
        }
    }

    /// The value of `format` in a declaration, or `nil` for any text, which is the service's default.
    var json: ChappieJSON? {
        guard let syntax, let definition else { return nil }
        return ["type": "grammar", "syntax": .string(syntax), "definition": .string(definition)]
    }
}

extension ChappieToolTextFormat: Codable {
    private enum CodingKeys: CodingKey { case type, syntax, definition }

    public init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        switch try values.decode(String.self, forKey: .type) {
        case "text":
            self = .text
            return
        case "grammar": break
        default:
            throw DecodingError.dataCorruptedError(
                forKey: .type, in: values, debugDescription: "The type is neither text nor grammar.")
        }
        let definition = try values.decode(String.self, forKey: .definition)
        switch try values.decode(String.self, forKey: .syntax) {
        case "lark": self = .lark(definition)
        case "regex": self = .regex(definition)
        default:
            throw DecodingError.dataCorruptedError(
                forKey: .syntax, in: values, debugDescription: "The syntax is neither lark nor regex.")
        }
    }

    public func encode(to encoder: any Encoder) throws {
        var values = encoder.container(keyedBy: CodingKeys.self)
        try values.encode(syntax == nil ? "text" : "grammar", forKey: .type)
        try values.encodeIfPresent(syntax, forKey: .syntax)
        try values.encodeIfPresent(definition, forKey: .definition)
    }
}
