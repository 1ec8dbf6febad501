@_spi(ChappieInternals) public import ChappieCore

/// A request for a picture.
///
/// ```swift
/// var request = ChappieImageRequest("a red fox in the snow")
/// request.quality = .low
/// let image = try await client.generateImage(request)
/// ```
public struct ChappieImageRequest: Sendable, Hashable, Codable {
    /// The fineness of a picture. More of it takes longer and uses more of the plan. Unknown values are kept.
    public struct Quality: RawRepresentable, Sendable, Hashable, Codable {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The service chooses.
        public static let auto = Quality(rawValue: "auto")
        /// The fastest.
        public static let low = Quality(rawValue: "low")
        /// The middle.
        public static let medium = Quality(rawValue: "medium")
        /// The finest.
        public static let high = Quality(rawValue: "high")
    }

    /// The background of a picture. Unknown values are kept.
    public struct Background: RawRepresentable, Sendable, Hashable, Codable {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The service chooses.
        public static let auto = Background(rawValue: "auto")
        /// The picture has no transparent parts.
        public static let opaque = Background(rawValue: "opaque")
        /// The background is transparent.
        public static let transparent = Background(rawValue: "transparent")
    }

    /// The description of the picture, or of the change to the given pictures.
    public var prompt: String
    /// The model that makes the picture. Default ``defaultModel``. The list of models does not name such models.
    public var model: String
    /// The size as `WIDTHxHEIGHT` in pixels, or `auto`. Default `auto`. The picture may have another size.
    public var size: String
    /// The fineness. Default `.auto`. The picture may have another one.
    public var quality: Quality
    /// The background. Default `.opaque`.
    public var background: Background

    /// The model that the Codex CLI 0.163.0 names.
    public static let defaultModel = "gpt-image-2"

    /// The largest number of pictures that one request can change.
    public static let imageLimit = 5

    /// Creates a request for a picture.
    public init(
        _ prompt: String, model: String = Self.defaultModel, size: String = "auto", quality: Quality = .auto,
        background: Background = .opaque
    ) {
        self.prompt = prompt
        self.model = model
        self.size = size
        self.quality = quality
        self.background = background
    }

    /// Returns the request in the form of the service.
    ///
    /// - Parameter images: the `data:` URLs of the pictures to change.
    func body(images: [String]) -> ChappieJSONObject {
        var body: ChappieJSONObject = [:]
        if !images.isEmpty { body["images"] = .array(images.map { ["image_url": .string($0)] }) }
        body["prompt"] = .string(prompt)
        body["background"] = .string(background.rawValue)
        body["model"] = .string(model)
        body["quality"] = .string(quality.rawValue)
        body["size"] = .string(size)
        return body
    }
}

/// The reason why no picture came back.
public enum ChappieImageFailure: Sendable, Hashable {
    /// The service's safety check refused the prompt or a picture. The string is the service's message, if it gives
    /// one.
    case refusedBySafetyCheck(String?)
    /// There were too many requests for pictures. The date is the time from which on another one may be accepted, if
    /// the service gives it. Pictures have their own limits.
    case tooManyPictures(until: Date?)
    /// The answer contains no picture.
    case noPicture
    /// The answer is not a PNG, JPEG or WebP image.
    case notAPicture
    /// The request was sent, but no answer came. The picture may have been made, and may count towards the limits. The
    /// string is the reason.
    case mayHaveBeenMade(String)

    /// The failure as a sentence.
    var sentence: String {
        switch self {
        case .refusedBySafetyCheck(let message):
            "The service's safety check refused this prompt or picture" + (message.map { ": \($0)" } ?? ".")
        case .tooManyPictures(let until):
            "There were too many pictures just now"
                + (until.map { "; the next one may be made at \($0.formatted(.iso8601))." } ?? ".")
        case .noPicture: "No picture came back."
        case .notAPicture: "What came back is not a PNG, JPEG or WebP picture. Nothing was saved."
        case .mayHaveBeenMade(let reason):
            "No picture came back: \(UntrustedText.sentence(reason)) It may have been made, and may count towards your limits."
        }
    }

    /// The user's next step.
    var advice: String {
        switch self {
        case .refusedBySafetyCheck: "Describe something else."
        case .tooManyPictures: "Wait, then ask again. Pictures have their own limits."
        case .noPicture: "Ask again, or describe it differently."
        case .notAPicture: "Check that the configured address is the right service."
        case .mayHaveBeenMade: "Ask again if you want to spend another picture."
        }
    }
}
