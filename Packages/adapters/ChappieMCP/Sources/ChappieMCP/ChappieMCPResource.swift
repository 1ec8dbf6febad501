import ChappieCore

/// Something that a tool server offers for reading: a file, a page or a record.
///
/// The server wrote every text in it. Treat the texts as data, and make them safe before you show them.
public struct ChappieMCPResource: Sendable, Hashable {
    /// The resource's address with any scheme, at most 8 KiB. For a template, it is a pattern (RFC 6570) that yields
    /// addresses.
    public let uri: String
    /// The server's name for the resource.
    public let name: String
    /// The server's description for the user and the model, at most 8 KiB. It is empty if the server does not provide
    /// one.
    public let description: String
    /// The resource's media type, or `nil` if the server does not specify it.
    public let mediaType: String?
    /// The size in bytes, or `nil` if the server does not specify it.
    public let size: Int?
    /// Whether ``uri`` is a pattern.
    public let isTemplate: Bool

    /// Creates a resource with the given properties.
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

    /// Creates a resource from an entry of a list. Returns `nil` if the entry has no usable address.
    init?(_ entry: ChappieJSON, isTemplate: Bool) {
        guard let uri = entry[isTemplate ? "uriTemplate" : "uri"]?.string, !uri.isEmpty, uri.utf8.count <= 8 << 10
        else { return nil }
        self.init(
            uri: uri, name: MCPTool.bounded(entry["title"]?.string ?? entry["name"]?.string ?? ""),
            description: MCPTool.bounded(entry["description"]?.string ?? ""),
            mediaType: entry["mimeType"]?.string.map { String($0.prefix(200)) }, size: entry["size"]?.int,
            isTemplate: isTemplate)
    }

    /// The resource as JSON for the model.
    var json: ChappieJSON {
        var json: ChappieJSONObject = [isTemplate ? "uriTemplate" : "uri": .string(uri), "name": .string(name)]
        if !description.isEmpty { json["description"] = .string(description) }
        json["mimeType"] = mediaType.map { .string($0) }
        json["size"] = size.map { .integer($0) }
        return .object(json)
    }
}

/// A part of a resource's content. Most resources have one part.
public struct ChappieMCPContent: Sendable, Hashable {
    /// The content itself.
    public enum Body: Sendable, Hashable {
        /// Text, unchanged from the server.
        case text(String)
        /// The bytes of any other content.
        case bytes([UInt8])
    }

    /// The address of this part.
    public let uri: String
    /// The part's media type, or `nil` if the server does not specify it.
    public let mediaType: String?
    /// The content itself.
    public let body: Body

    /// Creates a content with the given properties.
    public init(uri: String, mediaType: String? = nil, body: Body) {
        self.uri = uri
        self.mediaType = mediaType
        self.body = body
    }

    /// Creates a content from an entry. Returns `nil` if the entry has neither text nor Base64 (RFC 4648, section 4).
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

/// A prompt of a tool server, which is a template for a request of the user.
///
/// The server wrote every text in it. Treat the texts as data, and make them safe before you show them.
public struct ChappieMCPPrompt: Sendable, Hashable {
    /// A placeholder in the prompt that the user fills in.
    public struct Argument: Sendable, Hashable {
        /// The argument's name.
        public let name: String
        /// The server's description, at most 8 KiB. It is empty if the server does not provide one.
        public let description: String
        /// Whether the prompt requires the argument.
        public let isRequired: Bool

        /// Creates an argument with the given properties.
        public init(name: String, description: String = "", isRequired: Bool = false) {
            self.name = name
            self.description = description
            self.isRequired = isRequired
        }
    }

    /// The server's name for the prompt, at most 8 KiB.
    public let name: String
    /// The server's description, at most 8 KiB. It is empty if the server does not provide one.
    public let description: String
    /// The prompt's placeholders in the server's order, at most 100.
    public let arguments: [Argument]

    /// Creates a prompt with the given properties.
    public init(name: String, description: String = "", arguments: [Argument] = []) {
        self.name = name
        self.description = description
        self.arguments = arguments
    }

    /// Creates a prompt from an entry of a list. Returns `nil` if the entry has no usable name.
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
    /// Creates an input message from a message of a prompt. Its role is the user or the model, never a role above the
    /// user.
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
