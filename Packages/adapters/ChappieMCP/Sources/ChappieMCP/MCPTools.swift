import ChappieClient
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieJSONSchema

/// A tool of a server that cannot be used, with the reason.
public struct ChappieMCPSkippedTool: Sendable, Hashable {
    /// The server's name for the tool, or an empty string if it has none.
    public let name: String
    /// The reason why the tool cannot be used, as a sentence.
    public let reason: String

    /// Creates a skipped tool with the given properties.
    public init(name: String, reason: String) {
        self.name = name
        self.reason = reason
    }
}

/// A tool from a server's list, after the checks.
struct MCPTool: Sendable, Hashable {
    /// The server's name for the tool.
    let name: String
    /// The name for the model, which the backend accepts.
    let offeredName: String
    let description: String
    let inputSchema: ChappieJSON
    /// Whether the server states that the tool changes nothing.
    var isReadOnly = false

    /// The largest number of tools of a server, and the largest sizes of a description and a schema in bytes. The model
    /// searches for tools if there are many, so the number bounds only the memory.
    private static let limits = (tools: 2048, description: 8 << 10, schema: 64 << 10)

    /// Divides a list into the tools that can be used and the other tools.
    static func read(_ list: [ChappieJSON]) -> (tools: [MCPTool], skipped: [ChappieMCPSkippedTool]) {
        var tools: [MCPTool] = []
        var skipped: [ChappieMCPSkippedTool] = []
        var entries: [String: ChappieJSON] = [:]
        let accepted = ToolName.accepted(list.compactMap { $0["name"]?.string })
        for entry in list {
            let name = entry["name"]?.string ?? ""
            // A server may repeat a page of its list.
            guard entries[name] != entry else { continue }
            let schema = entry["inputSchema"] ?? .null
            let reason =
                if name.isEmpty {
                    "It has no name."
                } else if entries[name] != nil {
                    "The list has another tool of that name."
                } else if tools.count >= limits.tools {
                    "The list has more than \(limits.tools) tools."
                } else {
                    fault(of: schema)
                }
            if let reason {
                skipped.append(ChappieMCPSkippedTool(name: String(name.prefix(200)), reason: reason))
            } else {
                let description = bounded(entry["description"]?.string ?? entry["title"]?.string ?? "")
                entries[name] = entry
                tools.append(
                    MCPTool(
                        name: name, offeredName: accepted[name] ?? name, description: description, inputSchema: schema,
                        isReadOnly: entry["annotations"]?["readOnlyHint"]?.bool == true))
            }
        }
        return (tools, skipped)
    }

    /// Returns a server's description of a tool, resource or prompt, cut to 8 KiB.
    static func bounded(_ text: String) -> String {
        guard text.utf8.count > limits.description else { return text }
        return String(decoding: text.utf8.prefix(limits.description), as: UTF8.self) + "…"
    }

    private static func fault(of schema: ChappieJSON) -> String? {
        guard schema.object != nil else { return "Its inputSchema is not an object." }
        guard ChappieJSONSchema(schema).allowsObjects else { return "Its inputSchema does not describe an object." }
        guard schema.serializedBytes().count <= limits.schema else { return "Its inputSchema is longer than 64 KiB." }
        do throws(ChappieJSONSchemaError) {
            try ChappieJSONSchema(schema).check()
            return nil
        } catch {
            return "Its inputSchema can't be used, at \"\(error.path)\": \(error.reason)"
        }
    }
}

/// The tools with which a model reads a server's resources.
enum MCPReader: String, Sendable, CaseIterable {
    case list = "list_resources"
    case read = "read_resource"

    var description: String {
        switch self {
        case .list: "Lists what this server gives to be read: addresses, and templates of addresses (RFC 6570)."
        case .read: "Reads one of this server's resources."
        }
    }

    var inputSchema: ChappieJSON {
        switch self {
        case .list: ["type": "object", "properties": [:], "additionalProperties": false]
        case .read:
            [
                "type": "object", "properties": ["uri": ["type": "string", "description": "The resource's address."]],
                "required": ["uri"], "additionalProperties": false,
            ]
        }
    }
}

/// The conversion of a call's result into a result for the model.
///
/// Line feeds join the texts, and images become parts. Texts after the first image are parts too, so that the order is
/// kept. If the model cannot take some content, a line names it instead.
enum MCPResult {
    /// The texts and images of a result, in their order.
    private struct Contents {
        var output: [String] = []
        var parts: [ChappieJSON] = []

        mutating func append(text: String) {
            guard !text.isEmpty else { return }
            if parts.isEmpty {
                output.append(text)
            } else {
                parts.append(["type": "input_text", "text": .string(text)])
            }
        }

        mutating func append(data: ChappieJSON?, of type: ChappieJSON?, named name: String) {
            guard let url = data?.string.flatMap(MCPResult.imageURL) else {
                return append(text: "[left out: \(name), \(type?.string ?? "no type")]")
            }
            parts.append(["type": "input_image", "image_url": .string(url)])
        }
    }

    static func convert(_ result: ChappieJSON) -> ChappieToolResult {
        var contents = Contents()
        let content = result["content"] ?? .null
        for block in content.array ?? (content.isNull ? [] : [content]) { append(block, to: &contents) }
        let isError = result["isError"]?.bool ?? false
        if let value = result["structuredContent"], !contents.output.contains(where: { isText($0, of: value) }) {
            contents.append(text: value.serialized())
        }
        if contents.output.isEmpty, contents.parts.isEmpty {
            if isError { contents.append(text: "The tool failed without a message.") }
            // A result of a form that is not known, such as a task.
            let rest = (result.object?.members ?? []).filter { !known.contains($0.name) }
            if !rest.isEmpty {
                contents.append(
                    text: ChappieJSON.object(ChappieJSONObject(rest.map { ($0.name, $0.value) })).serialized())
            }
        }
        return ChappieToolResult(
            output: contents.output.joined(separator: "\n"), parts: contents.parts, isError: isError)
    }

    /// The members of a result that are not for the model, or have been read.
    private static let known: Set<String> = ["content", "structuredContent", "isError", "_meta", "resultType"]

    /// Returns whether a text is this value as JSON. The official Python SDK puts a value that is not an object into a
    /// member `result`, and writes the value itself as the text.
    private static func isText(_ text: String, of value: ChappieJSON) -> Bool {
        if value.object?.members.count == 1, let inner = value["result"] {
            if inner.string == text || isText(text, of: inner) { return true }
        }
        guard let parsed = try? ChappieJSON(parsing: Array(text.utf8)) else { return false }
        return parsed == value || parsed.sorted == value.sorted
    }

    private static func append(_ block: ChappieJSON, to contents: inout Contents) {
        if let text = block.string { return contents.append(text: text) }
        switch block["type"]?.string {
        case "text":
            let text = block["text"] ?? .null
            contents.append(text: text.string ?? (text.isNull ? "" : text.serialized()))
        case "image": contents.append(data: block["data"], of: block["mimeType"], named: "an image")
        case "resource":
            let resource = block["resource"] ?? .null
            let address = resource["uri"]?.string ?? ""
            if let text = resource["text"]?.string {
                contents.append(text: "\(address):\n\(text)")
            } else {
                contents.append(data: resource["blob"], of: resource["mimeType"], named: address)
            }
        case "resource_link":
            let words = [block["name"], block["uri"], block["description"]].compactMap { $0?.string }
            contents.append(text: words.joined(separator: " · "))
        case let other:
            let type = block["mimeType"]?.string.map { ", \($0)" } ?? ""
            contents.append(text: "[left out: \(other ?? "content without a type")\(type)]")
        }
    }

    /// Returns an image as an address. Its type comes from its bytes, because servers often name another one. Returns
    /// `nil` for other data.
    ///
    /// - Parameter text: Base64 in either alphabet, which may have white space and be in an address.
    private static func imageURL(_ text: String) -> String? {
        let digits = text.hasPrefix("data:") ? text.drop { $0 != "," }.dropFirst() : text[...]
        let plain = String(digits.filter { !$0.isWhitespace }).replacing("+", with: "-").replacing("/", with: "_")
        guard let bytes = Base64URL.decode(plain), let format = ChappieImage.Format(sniffing: bytes) else { return nil }
        return "data:\(format.mediaType);base64,\(Data(bytes).base64EncodedString())"
    }
}

extension ChappieJSON {
    /// The value with the members of each object in the order of their names.
    fileprivate var sorted: ChappieJSON {
        if let array { return .array(array.map(\.sorted)) }
        guard let members = object?.members else { return self }
        let inOrder = members.map { ($0.name, $0.value.sorted) }.sorted { $0.0 < $1.0 }
        return .object(ChappieJSONObject(inOrder))
    }
}
