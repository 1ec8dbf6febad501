@_spi(ChappieInternals) import ChappieCore

/// The size of the parts that a turn adds to a conversation: its messages with their files, and the tools.
struct RequestSize {
    /// The largest size of a request in bytes. The service documents 50 MB for all files and pictures of a request
    /// (platform.openai.com, "Images and vision" and "File inputs", November 2026).
    private static let limit = 50_000_000

    private let frame: RequestFrame
    private var parts: [(name: String, byteCount: Int)] = []
    private var toolByteCount = 0

    init(_ items: [ChappieJSON], _ frame: RequestFrame) {
        self.frame = frame
        for item in items {
            guard let content = item["content"]?.array else {
                parts.append(("a tool's result", item.roughByteCount))
                continue
            }
            for part in content { parts.append((Self.name(of: part), part.roughByteCount)) }
        }
        for tool in frame.tools {
            let name = String((tool["name"]?.string ?? tool["type"]?.string ?? "").prefix(100))
            let size = tool.roughByteCount
            parts.append((tool["type"] == "namespace" ? "the tools of \(name)" : "the tool \(name)", size))
            toolByteCount += size
        }
    }

    private static func name(of part: ChappieJSON) -> String {
        switch part["type"]?.string {
        case "input_file": "the file \(part["filename"]?.string?.prefix(200) ?? "without a name")"
        case "input_image": "a picture"
        default: "the text of the question"
        }
    }

    /// Throws if the parts have more bytes than the service takes, or the tools more tokens than the model.
    ///
    /// - Throws: ``ChappieClientError/inputTooLarge(_:)``.
    func check(window: Int?, items: [ChappieJSON]) throws(ChappieClientError) {
        let byteCount = parts.reduce(0) { $0 + $1.byteCount }
        let toolTokens = toolByteCount / 4
        let toolsAreTooLarge = window.map { toolTokens > $0 } ?? false
        guard byteCount > Self.limit || toolsAreTooLarge else { return }
        let largest = parts.max { $0.byteCount < $1.byteCount }
        throw .inputTooLarge(
            ChappieInputSize(
                model: frame.model, isQuestion: true, estimatedTokens: toolsAreTooLarge ? toolTokens : nil,
                contextWindow: toolsAreTooLarge ? window : nil,
                byteCount: toolsAreTooLarge ? toolByteCount : byteCount,
                pictureCount: items.reduce(0) { $0 + Pictures.count(in: $1) },
                pictureByteCount: items.reduce(0) { $0 + Pictures.byteCount(in: $1) }, toolByteCount: toolByteCount,
                largestPart: largest.map { "\($0.name) with \(ChappieInputSize.megabytes($0.byteCount))" }))
    }
}

extension ChappieJSON {
    /// The approximate size in bytes of JSON, without escapes.
    fileprivate var roughByteCount: Int {
        switch self {
        case .string(let text): text.utf8.count + 2
        case .array(let elements): elements.reduce(2) { $0 + $1.roughByteCount + 1 }
        case .object(let object):
            object.members.reduce(2) { $0 + $1.name.utf8.count + 4 + $1.value.roughByteCount }
        default: 5
        }
    }
}
