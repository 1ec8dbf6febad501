@_spi(ChappieInternals) import ChappieCore

/// The size of an input that the service does not take.
public struct ChappieInputSize: Sendable, Hashable, Codable {
    /// The requested model.
    public var model: String
    /// Whether the question and its files are too large by themselves. Otherwise the conversation is.
    public var isQuestion: Bool
    /// The estimated size in tokens if their number is the reason, or `nil` if the number of bytes is.
    public var estimatedTokens: Int?
    /// The model's window in tokens, if it is known.
    public var contextWindow: Int?
    /// The size in bytes of JSON.
    public var byteCount: Int
    /// The number of pictures and files.
    public var pictureCount: Int
    /// The size of the pictures and files in bytes of JSON.
    public var pictureByteCount: Int
    /// The size of the declarations of tools in bytes of JSON.
    public var toolByteCount: Int
    /// The largest part of the request as text, such as `the tools of files`, if it is known.
    public var largestPart: String?
    /// A listed model that takes an input of this size, if there is one.
    public var suggestion: String?

    /// Creates a size with the given properties. Default: no optional values, and no pictures.
    public init(
        model: String, isQuestion: Bool, estimatedTokens: Int? = nil, contextWindow: Int? = nil, byteCount: Int,
        pictureCount: Int = 0, pictureByteCount: Int = 0, toolByteCount: Int = 0, largestPart: String? = nil,
        suggestion: String? = nil
    ) {
        self.model = model
        self.isQuestion = isQuestion
        self.estimatedTokens = estimatedTokens
        self.contextWindow = contextWindow
        self.byteCount = byteCount
        self.pictureCount = pictureCount
        self.pictureByteCount = pictureByteCount
        self.toolByteCount = toolByteCount
        self.largestPart = largestPart
        self.suggestion = suggestion
    }

    /// Whether most of the bytes belong to pictures.
    public var isMostlyPictures: Bool { pictureByteCount * 2 > byteCount }
    /// Whether most of the bytes belong to declarations of tools.
    public var isMostlyTools: Bool { toolByteCount * 2 > byteCount }

    var sentence: String {
        sizes + (largestPart.map { " The largest part is \(UntrustedText.forTerminal($0))." } ?? "")
    }

    private var sizes: String {
        let subject =
            isMostlyTools
            ? "The declarations of the tools have"
            : isQuestion ? "The question and its files have" : "The conversation has"
        let name = UntrustedText.forTerminal(String(model.prefix(100)))
        if let estimatedTokens {
            let size = "\(subject) about \(Self.grouped((estimatedTokens + 500) / 1000 * 1000)) tokens"
            guard let contextWindow else { return "\(size), which is more than \(name) takes." }
            return "\(size); \(name) takes \(Self.grouped(contextWindow))."
        }
        let pictures = pictureCount == 1 ? "a picture" : "\(pictureCount) pictures"
        let most = isMostlyPictures ? ", most of it \(pictures)" : ""
        return "\(subject) \(megabytes)\(most). The service takes less."
    }

    var advice: String {
        if isMostlyTools { return "Offer fewer tools." }
        guard isQuestion else {
            return isMostlyPictures
                ? "A compaction leaves the pictures out." : "Compact the conversation, or start a new one."
        }
        guard estimatedTokens == nil else {
            let other = suggestion.map { "Use \(UntrustedText.forTerminal($0)), or ask" } ?? "Ask"
            return "\(other) about a smaller part."
        }
        return isMostlyPictures ? "Attach fewer or smaller pictures." : "Attach less."
    }

    private var megabytes: String { Self.megabytes(byteCount) }

    /// Returns a size with one decimal, such as `29.8 MB`.
    static func megabytes(_ byteCount: Int) -> String {
        let tenths = (byteCount + 50_000) / 100_000
        return "\(tenths / 10).\(tenths % 10) MB"
    }

    /// Returns the number with separators, such as `272,000`.
    private static func grouped(_ number: Int) -> String {
        let digits = Array("\(number)")
        return digits.enumerated().reduce(into: "") { text, digit in
            if digit.offset > 0, (digits.count - digit.offset) % 3 == 0 { text += "," }
            text.append(digit.element)
        }
    }
}
