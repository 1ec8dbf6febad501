import ChappieCore
import FoundationEssentials

/// Something that a tool server gives to be read: a file, a page, a record.
///
/// The server wrote every text in it: it is data, and has to be made safe before it is shown.
public struct ChappieMCPResource: Sendable, Hashable {
    /// Its address, of any scheme, at most 8 KiB; for a template a pattern (RFC 6570) that gives addresses.
    public let uri: String
    /// The server's name for it.
    public let name: String
    /// The server's description, for the user and the model; empty if the server does not say, at most 8 KiB.
    public let description: String
    /// Its media type; `nil` if the server does not say.
    public let mediaType: String?
    /// In bytes; `nil` if the server does not say.
    public let size: Int?
    /// Whether ``uri`` is a pattern.
    public let isTemplate: Bool

    /// A resource with the given properties.
    public init(
        uri: String, name: String, description: String = "", mediaType: String? = nil, size: Int? = nil,
        isTemplate: Bool = false
    ) {
        self.uri = uri
        self.name = name
        self.description = description
        self.mediaType = mediaType
        self.size = size
        self.isTemplate = isTemplate
    }

    /// `nil` for an entry without a usable address.
    init?(_ entry: ChappieJSON, isTemplate: Bool) {
        guard let uri = entry[isTemplate ? "uriTemplate" : "uri"]?.string, !uri.isEmpty, uri.utf8.count <= 8 << 10
        else { return nil }
        self.init(
            uri: uri, name: MCPTool.bounded(entry["title"]?.string ?? entry["name"]?.string ?? ""),
            description: MCPTool.bounded(entry["description"]?.string ?? ""),
            mediaType: entry["mimeType"]?.string.map { String($0.prefix(200)) }, size: entry["size"]?.int,
            isTemplate: isTemplate)
    }

    /// The resource for the model.
    var json: ChappieJSON {
        var json: ChappieJSONObject = [isTemplate ? "uriTemplate" : "uri": .string(uri), "name": .string(name)]
        if !description.isEmpty { json["description"] = .string(description) }
        json["mimeType"] = mediaType.map { .string($0) }
        json["size"] = size.map { .integer($0) }
        return .object(json)
    }
}

/// A part of what a resource holds; most have one.
public struct ChappieMCPContent: Sendable, Hashable {
    /// The content itself.
    public enum Body: Sendable, Hashable {
        /// Text, as the server gives it.
        case text(String)
        /// Anything else.
        case bytes([UInt8])
    }

    /// The address of this part.
    public let uri: String
    /// Its media type; `nil` if the server does not say.
    public let mediaType: String?
    /// The content itself.
    public let body: Body

    /// A content with the given properties.
    public init(uri: String, mediaType: String? = nil, body: Body) {
        self.uri = uri
        self.mediaType = mediaType
        self.body = body
    }

    /// `nil` for an entry with neither text nor Base64 (RFC 4648, section 4).
    init?(_ entry: ChappieJSON) {
        let body: Body
        if let text = entry["text"]?.string {
            body = .text(text)
        } else if let digits = entry["blob"]?.string, let bytes = Data(base64Encoded: digits) {
            body = .bytes(Array(bytes))
        } else {
            return nil
        }
        self.init(uri: entry["uri"]?.string ?? "", mediaType: entry["mimeType"]?.string, body: body)
    }
}

/// A prompt of a tool server: a template for what the user asks.
///
/// The server wrote every text in it: it is data, and has to be made safe before it is shown.
public struct ChappieMCPPrompt: Sendable, Hashable {
    /// A blank in the prompt that the user fills in.
    public struct Argument: Sendable, Hashable {
        /// The argument's name.
        public let name: String
        /// The server's description; empty if the server does not say, at most 8 KiB.
        public let description: String
        /// Whether the prompt can't be had without it.
        public let isRequired: Bool

        /// An argument with the given properties.
        public init(name: String, description: String = "", isRequired: Bool = false) {
            self.name = name
            self.description = description
            self.isRequired = isRequired
        }
    }

    /// The server's name for it, at most 8 KiB.
    public let name: String
    /// The server's description; empty if the server does not say, at most 8 KiB.
    public let description: String
    /// The blanks in it, in the server's order; at most 100.
    public let arguments: [Argument]

    /// A prompt with the given properties.
    public init(name: String, description: String = "", arguments: [Argument] = []) {
        self.name = name
        self.description = description
        self.arguments = arguments
    }

    /// `nil` for an entry without a usable name.
    init?(_ entry: ChappieJSON) {
        guard let name = entry["name"]?.string, !name.isEmpty, name.utf8.count <= 8 << 10 else { return nil }
        let arguments = (entry["arguments"]?.array ?? []).prefix(100).compactMap { argument -> Argument? in
            guard let name = argument["name"]?.string, !name.isEmpty, name.utf8.count <= 8 << 10 else { return nil }
            return Argument(
                name: name, description: MCPTool.bounded(argument["description"]?.string ?? ""),
                isRequired: argument["required"]?.bool ?? false)
        }
        self.init(
            name: name, description: MCPTool.bounded(entry["description"]?.string ?? entry["title"]?.string ?? ""),
            arguments: arguments)
    }
}

extension ChappieInputMessage {
    /// A message of a prompt. The server speaks as the user or as the model, never above the user.
    init(_ message: ChappieJSON) {
        let role: Role = message["role"]?.string == "assistant" ? .assistant : .user
        let content = message["content"] ?? .null
        let result = MCPResult.convert(["content": .array(content.array ?? [content])])
        var parts: [Part] = result.output.isEmpty ? [] : [.text(result.output)]
        for part in result.parts {
            guard let address = part["image_url"]?.string else { continue }
            parts.append(role == .user ? .image(ChappieImage(source: .url(address))) : .text("[left out: an image]"))
        }
        self.init(role: role, parts: parts)
    }
}
