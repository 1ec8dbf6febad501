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
    let name: String
    let description: String
    let inputSchema: ChappieJSON

    /// The largest number of tools of a server, and the largest sizes of a description and a schema in bytes. Each
    /// request contains all of them.
    private static let limits = (tools: 256, description: 8 << 10, schema: 64 << 10)

    /// Divides a list into the tools that can be used and the other tools.
    static func read(_ list: [ChappieJSON]) -> (tools: [MCPTool], skipped: [ChappieMCPSkippedTool]) {
        var tools: [MCPTool] = []
        var skipped: [ChappieMCPSkippedTool] = []
        var names: Set<String> = []
        for entry in list {
            let name = entry["name"]?.string ?? ""
            let schema = entry["inputSchema"] ?? .null
            let reason =
                if !ToolName.isValid(name) {
                    "Its name must consist of 1 to 64 letters, digits, _ and -."
                } else if names.contains(name) {
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
                names.insert(name)
                tools.append(MCPTool(name: name, description: description, inputSchema: schema))
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
/// Line feeds join the texts, and images become parts. If the model cannot take some content, a line names it instead.
enum MCPResult {
    /// The image types that the Responses API accepts.
    private static let imageTypes: Set<String> = ["image/png", "image/jpeg", "image/gif", "image/webp"]

    static func convert(_ result: ChappieJSON) -> ChappieToolResult {
        var lines: [String] = []
        var parts: [ChappieJSON] = []
        for block in result["content"]?.array ?? [] {
            switch block["type"]?.string {
            case "text": lines.append(block["text"]?.string ?? "")
            case "image": add(data: block["data"], of: block["mimeType"], named: "an image", to: &parts, else: &lines)
            case "resource":
                let resource = block["resource"] ?? .null
                let address = resource["uri"]?.string ?? ""
                if let text = resource["text"]?.string {
                    lines.append("\(address):\n\(text)")
                } else {
                    add(data: resource["blob"], of: resource["mimeType"], named: address, to: &parts, else: &lines)
                }
            case "resource_link":
                let words = [block["name"], block["uri"], block["description"]].compactMap { $0?.string }
                lines.append(words.joined(separator: " · "))
            case let other:
                let type = block["mimeType"]?.string.map { ", \($0)" } ?? ""
                lines.append("[left out: \(other ?? "content without a type")\(type)]")
            }
        }
        if lines.isEmpty, parts.isEmpty, let value = result["structuredContent"] { lines = [value.serialized()] }
        return ChappieToolResult(
            output: lines.joined(separator: "\n"), parts: parts, isError: result["isError"]?.bool ?? false)
    }

    private static func add(
        data: ChappieJSON?, of type: ChappieJSON?, named name: String, to parts: inout [ChappieJSON],
        else lines: inout [String]
    ) {
        let type = type?.string ?? "no type"
        guard let data = data?.string, imageTypes.contains(type), isBase64(data) else {
            return lines.append("[left out: \(name), \(type)]")
        }
        parts.append(["type": "input_image", "image_url": .string("data:\(type);base64,\(data)")])
    }

    /// Returns whether `text` is Base64 (RFC 4648, section 4). Other text would become part of an address.
    private static func isBase64(_ text: String) -> Bool {
        !text.isEmpty
            && text.utf8.allSatisfy { byte in
                switch Unicode.Scalar(byte) {
                case "a"..."z", "A"..."Z", "0"..."9", "+", "/", "=": true
                default: false
                }
            }
    }
}
