/// One item of a response: a message, reasoning, a tool call, or something this version does not know.
///
/// The JSON is kept whole, so that an item goes back to the backend exactly as it came.
public struct ChappieOutputItem: Sendable, Hashable, Codable {
    /// The item as the backend sent it.
    public let json: ChappieJSON

    public init(_ json: ChappieJSON) { self.json = json }

    /// The kind of item: `message`, `reasoning`, `function_call`, `custom_tool_call`, …; empty when it has none.
    public var type: String { json["type"]?.string ?? "" }
    public var id: String? { json["id"]?.string }
    public var status: String? { json["status"]?.string }
    /// The role of a message.
    public var role: String? { json["role"]?.string }
    /// The name of the tool that a call is for.
    public var name: String? { json["name"]?.string }
    public var callID: String? { json["call_id"]?.string }

    /// The text of a message, its `output_text` parts joined; empty for other items.
    public var text: String {
        guard type == "message", let parts = json["content"]?.array else { return "" }
        return parts.reduce(into: "") { text, part in
            if part["type"]?.string == "output_text" { text += part["text"]?.string ?? "" }
        }
    }

    /// Whether the model asks the host to run something.
    public var isToolCall: Bool { type == "function_call" || type == "custom_tool_call" }

    public init(from decoder: any Decoder) throws { json = try ChappieJSON(from: decoder) }
    public func encode(to encoder: any Encoder) throws { try json.encode(to: encoder) }
}
