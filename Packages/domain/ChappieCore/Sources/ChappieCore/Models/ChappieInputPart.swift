extension ChappieInputMessage {
    /// A part of a message. It is coded in the form of the Responses API, so that parts that this version does not know
    /// decode and encode unchanged.
    public enum Part: Sendable, Hashable {
        /// Plain text.
        case text(String)
        /// An image.
        case image(ChappieImage)
        /// A file.
        case file(ChappieFile)
        /// Any other part. It is sent unchanged.
        case other(ChappieJSON)

        /// Returns an image with this `https:` or `data:` address, which is not checked.
        public static func imageURL(_ url: String) -> Part { .image(ChappieImage(source: .url(url))) }
    }
}

extension ChappieInputMessage.Part: Codable {
    /// Decodes any JSON.
    public init(from decoder: any Decoder) throws { self.init(try ChappieJSON(from: decoder)) }

    /// Encodes the part as a part of a user's message. In a request, ``ChappieInputMessage/role`` determines the type
    /// of text parts.
    public func encode(to encoder: any Encoder) throws { try json(isAssistant: false).encode(to: encoder) }

    /// Reads a part in the form of the Responses API.
    @_spi(ChappieInternals) public init(_ json: ChappieJSON) {
        self = .other(json)
        guard let known = Self.known(json), let object = json.object else { return }
        // A part with members that the known case would lose is kept unchanged.
        let own = known.json(isAssistant: json["type"] == "output_text")
        if Set(own.object?.members ?? []) == Set(object.members) { self = known }
    }

    private static func known(_ json: ChappieJSON) -> Self? {
        let fileID = json["file_id"]?.string
        switch json["type"]?.string {
        case "input_text", "output_text": return json["text"]?.string.map(Self.text)
        case "input_image":
            let source = json["image_url"]?.string.map(ChappieImage.Source.url) ?? fileID.map { .fileID($0) }
            guard let source, let detail = json["detail"]?.string else { return nil }
            return .image(ChappieImage(source: source, detail: .init(rawValue: detail)))
        case "input_file":
            let source =
                json["file_data"]?.string.map(ChappieFile.Source.data) ?? json["file_url"]?.string.map { .url($0) }
                ?? fileID.map { .fileID($0) }
            return source.map { .file(ChappieFile(name: json["filename"]?.string, source: $0)) }
        default: return nil
        }
    }

    /// Returns the part in the form of the Responses API. The model's own text has another type there.
    func json(isAssistant: Bool) -> ChappieJSON {
        switch self {
        case .text(let text): return ["type": isAssistant ? "output_text" : "input_text", "text": .string(text)]
        case .image(let image):
            let source: (String, ChappieJSON) =
                switch image.source {
                case .url(let url): ("image_url", .string(url))
                case .fileID(let id): ("file_id", .string(id))
                }
            return .object(
                ChappieJSONObject([
                    ("type", "input_image"), source, ("detail", .string(image.detail.rawValue)),
                ]))
        case .file(let file):
            var object = ChappieJSONObject([("type", "input_file")])
            object["filename"] = file.name.map(ChappieJSON.string)
            switch file.source {
            case .data(let url): object["file_data"] = .string(url)
            case .url(let url): object["file_url"] = .string(url)
            case .fileID(let id): object["file_id"] = .string(id)
            }
            return .object(object)
        case .other(let json): return json
        }
    }
}
