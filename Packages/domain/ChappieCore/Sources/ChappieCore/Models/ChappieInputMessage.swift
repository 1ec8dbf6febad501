/// A message to the model.
///
/// ```swift
/// .user("What is this?")
/// .user("Quickly: what is this?", fastMode: true)
/// .user("What is on it?", images: [try ChappieImage(path: "photo.jpg")])
/// ```
public struct ChappieInputMessage: Sendable, Hashable, Codable {
    /// The speaker. Unknown values are kept.
    public struct Role: RawRepresentable, Sendable, Hashable, Codable {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The user.
        public static let user = Role(rawValue: "user")
        /// The model.
        public static let assistant = Role(rawValue: "assistant")
        /// The program, about the entire conversation.
        public static let system = Role(rawValue: "system")
        /// The program, which ranks above the user.
        public static let developer = Role(rawValue: "developer")
    }

    /// The speaker.
    public var role: Role
    /// The parts of the message, in order.
    public var parts: [Part]
    /// The options for the answer to the message.
    public var options: ChappieMessageOptions

    /// Creates a message of any role and content.
    public init(role: Role, parts: [Part], options: ChappieMessageOptions = ChappieMessageOptions()) {
        self.role = role
        self.parts = parts
        self.options = options
    }

    /// The text of the message, which is its text parts joined.
    public var text: String {
        parts.reduce(into: "") { text, part in if case .text(let more) = part { text += more } }
    }

    /// Returns a message of the user.
    public static func user(_ text: String) -> Self { user(text, images: []) }
    /// Returns a message of the user, which has the images and files before the text about them. `fastMode` asks for
    /// low reasoning effort.
    public static func user(
        _ text: String, images: [ChappieImage] = [], files: [ChappieFile] = [], fastMode: Bool = false
    ) -> Self {
        .init(
            role: .user, parts: images.map(Part.image) + files.map(Part.file) + [.text(text)],
            options: ChappieMessageOptions(fastMode: fastMode))
    }
    /// Returns a message of the program about the entire conversation.
    public static func system(_ text: String) -> Self { .init(role: .system, parts: [.text(text)]) }
    /// Returns an earlier message of the model.
    public static func assistant(_ text: String) -> Self { .init(role: .assistant, parts: [.text(text)]) }
    /// Returns an instruction of the program, which ranks above the user's instructions.
    public static func developer(_ text: String) -> Self { .init(role: .developer, parts: [.text(text)]) }

    /// The message as an input item of the Responses API.
    @_spi(ChappieInternals) public var inputItem: ChappieJSON {
        let content = parts.map { $0.json(isAssistant: role == .assistant) }
        return ["type": "message", "role": .string(role.rawValue), "content": .array(content)]
    }
}

// MARK: Options

/// The options for the answer to one message.
public struct ChappieMessageOptions: Sendable, Hashable, Codable {
    /// The amount of reasoning. Default `.automatic`, which is the model's default.
    public var reasoningEffort: ChappieReasoningEffort
    /// The length of the answer. Default `nil`, which is the model's default.
    public var verbosity: ChappieVerbosity?

    /// Creates the options for the answer to one message.
    ///
    /// - Parameters:
    ///   - fastMode: Whether the effort is low, unless `reasoningEffort` is set. Default `false`.
    ///   - reasoningEffort: The effort. Default `.automatic`.
    ///   - verbosity: The length of the answer. Default `nil`, which leaves it to the service.
    public init(
        fastMode: Bool = false, reasoningEffort: ChappieReasoningEffort = .automatic, verbosity: ChappieVerbosity? = nil
    ) {
        self.reasoningEffort = fastMode && reasoningEffort == .automatic ? .low : reasoningEffort
        self.verbosity = verbosity
    }

    /// Whether ``reasoningEffort`` is low. Setting it to `false` leaves the effort to the model.
    public var fastMode: Bool {
        get { reasoningEffort == .low }
        set { if newValue != fastMode { reasoningEffort = newValue ? .low : .automatic } }
    }
}

/// The amount of reasoning before an answer. Unknown values are kept.
///
/// Other types would have an optional instead of ``automatic``. Here `.none` is an effort and must not mean "not
/// given".
public struct ChappieReasoningEffort: RawRepresentable, Sendable, Hashable, Codable {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }

    /// The model's default. Requests don't name it.
    public static let automatic = ChappieReasoningEffort(rawValue: "automatic")
    /// No reasoning at all.
    public static let none = ChappieReasoningEffort(rawValue: "none")
    /// Almost no reasoning.
    public static let minimal = ChappieReasoningEffort(rawValue: "minimal")
    /// Little reasoning, as in fast mode.
    public static let low = ChappieReasoningEffort(rawValue: "low")
    /// A medium amount of reasoning.
    public static let medium = ChappieReasoningEffort(rawValue: "medium")
    /// Much reasoning.
    public static let high = ChappieReasoningEffort(rawValue: "high")
    /// More than ``high``.
    public static let extraHigh = ChappieReasoningEffort(rawValue: "xhigh")
    /// The highest effort of most models.
    public static let max = ChappieReasoningEffort(rawValue: "max")
    /// More than ``max``, if a model supports it.
    public static let ultra = ChappieReasoningEffort(rawValue: "ultra")
}

extension KeyedDecodingContainer {
    /// Decodes an effort. Synthesised decoding calls this, because documents may omit an effort that is automatic.
    func decode(_ type: ChappieReasoningEffort.Type, forKey key: Key) throws -> ChappieReasoningEffort {
        try decodeIfPresent(type, forKey: key) ?? .automatic
    }
}

/// The length of a model's answers. Unknown values are kept.
public struct ChappieVerbosity: RawRepresentable, Sendable, Hashable, Codable {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }

    /// Short answers.
    public static let low = ChappieVerbosity(rawValue: "low")
    /// Answers of the usual length.
    public static let medium = ChappieVerbosity(rawValue: "medium")
    /// Long answers.
    public static let high = ChappieVerbosity(rawValue: "high")
}
