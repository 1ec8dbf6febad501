/// A message to the model.
///
/// ```swift
/// .user("What is this?")
/// .user("Quickly: what is this?", fastMode: true)
/// ```
public struct ChappieInputMessage: Sendable, Hashable, Codable {
    /// Who speaks; unknown values survive.
    public struct Role: RawRepresentable, Sendable, Hashable, Codable {
        public let rawValue: String

        public init(rawValue: String) { self.rawValue = rawValue }

        public static let user = Role(rawValue: "user")
        public static let assistant = Role(rawValue: "assistant")
        public static let system = Role(rawValue: "system")
        public static let developer = Role(rawValue: "developer")
    }

    /// A piece of a message. More kinds (files) will follow.
    public enum Part: Sendable, Hashable, Codable {
        case text(String)
        /// An image by URL, `https:` or `data:`.
        case imageURL(String)
    }

    public var role: Role
    public var parts: [Part]
    public var options: ChappieMessageOptions

    public init(role: Role, parts: [Part], options: ChappieMessageOptions = ChappieMessageOptions()) {
        self.role = role
        self.parts = parts
        self.options = options
    }

    /// What the person says.
    public static func user(_ text: String) -> Self { .init(role: .user, parts: [.text(text)]) }
    /// `fastMode` asks for low reasoning effort.
    public static func user(_ text: String, fastMode: Bool) -> Self {
        .init(role: .user, parts: [.text(text)], options: ChappieMessageOptions(fastMode: fastMode))
    }
    /// What the program says about the whole conversation.
    public static func system(_ text: String) -> Self { .init(role: .system, parts: [.text(text)]) }
    /// What the model said earlier.
    public static func assistant(_ text: String) -> Self { .init(role: .assistant, parts: [.text(text)]) }
    /// What the program asks of the model, above the person.
    public static func developer(_ text: String) -> Self { .init(role: .developer, parts: [.text(text)]) }

    /// The message as an input item of the Responses API.
    public var inputItem: ChappieJSON {
        let isAssistant = role == .assistant
        let content = parts.map { part -> ChappieJSON in
            switch part {
            case .text(let text): ["type": isAssistant ? "output_text" : "input_text", "text": .string(text)]
            case .imageURL(let url): ["type": "input_image", "image_url": .string(url), "detail": "high"]
            }
        }
        return ["type": "message", "role": .string(role.rawValue), "content": .array(content)]
    }
}
