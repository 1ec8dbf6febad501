/// A message to the model.
///
/// ```swift
/// .user("What is this?")
/// .user("Quickly: what is this?", fastMode: true)
/// .user("What is on it?", images: [try ChappieImage(path: "photo.jpg")])
/// ```
public struct ChappieInputMessage: Sendable, Hashable, Codable {
    /// The speaker; unknown values survive.
    public struct Role: RawRepresentable, Sendable, Hashable, Codable {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The user.
        public static let user = Role(rawValue: "user")
        /// The model.
        public static let assistant = Role(rawValue: "assistant")
        /// The program, about the whole conversation.
        public static let system = Role(rawValue: "system")
        /// The program, above the user.
        public static let developer = Role(rawValue: "developer")
    }

    /// The speaker.
    public var role: Role
    /// The parts of the message, in order.
    public var parts: [Part]
    /// How the message is to be answered.
    public var options: ChappieMessageOptions

    /// A message of any role and content.
    public init(role: Role, parts: [Part], options: ChappieMessageOptions = ChappieMessageOptions()) {
        self.role = role
        self.parts = parts
        self.options = options
    }

    /// The text of the message, its text parts joined.
    public var text: String {
        parts.reduce(into: "") { text, part in if case .text(let more) = part { text += more } }
    }

    /// A message of the user.
    public static func user(_ text: String) -> Self { user(text, images: []) }
    /// A message of the user: images and files, then the text about them. `fastMode` asks for low reasoning effort.
    public static func user(
        _ text: String, images: [ChappieImage] = [], files: [ChappieFile] = [], fastMode: Bool = false
    ) -> Self {
        .init(
            role: .user, parts: images.map(Part.image) + files.map(Part.file) + [.text(text)],
            options: ChappieMessageOptions(fastMode: fastMode))
    }
    /// A message of the program about the whole conversation.
    public static func system(_ text: String) -> Self { .init(role: .system, parts: [.text(text)]) }
    /// An earlier message of the model.
    public static func assistant(_ text: String) -> Self { .init(role: .assistant, parts: [.text(text)]) }
    /// An instruction of the program, which ranks above the user's.
    public static func developer(_ text: String) -> Self { .init(role: .developer, parts: [.text(text)]) }

    /// The message as an input item of the Responses API.
    @_spi(ChappieInternals) public var inputItem: ChappieJSON {
        let content = parts.map { $0.json(isAssistant: role == .assistant) }
        return ["type": "message", "role": .string(role.rawValue), "content": .array(content)]
    }
}

/// A turn with more than one message, or with its own options.
public struct ChappieResponseRequest: Sendable, Hashable, Codable {
    /// Appended to the conversation in this order; must not be empty.
    public var messages: [ChappieInputMessage]
    /// Wins over the options of the last message where it says something.
    public var options: ChappieMessageOptions
    /// The slug of the model for this turn alone; `nil`, the default, means the client's.
    public var model: String?
    /// The JSON that the answer must be, in the backend's strict mode. Default `nil`: text.
    public var outputSchema: ChappieJSONSchema?

    /// A turn of these messages.
    public init(
        messages: [ChappieInputMessage], options: ChappieMessageOptions = ChappieMessageOptions(),
        model: String? = nil, outputSchema: ChappieJSONSchema? = nil
    ) {
        self.messages = messages
        self.options = options
        self.model = model
        self.outputSchema = outputSchema
    }

    /// The options of the turn: those of its last message, and over them ``options``.
    @_spi(ChappieInternals) public var turnOptions: ChappieMessageOptions {
        var all = messages.last?.options ?? options
        if options.reasoningEffort != .automatic { all.reasoningEffort = options.reasoningEffort }
        all.verbosity = options.verbosity ?? all.verbosity
        return all
    }
}

// MARK: Options

/// How one message is to be answered.
public struct ChappieMessageOptions: Sendable, Hashable, Codable {
    /// Default `.automatic`: the model's own.
    public var reasoningEffort: ChappieReasoningEffort
    /// Default `nil`: the model's own.
    public var verbosity: ChappieVerbosity?

    /// - Parameter fastMode: low effort, unless `reasoningEffort` says otherwise. Default `false`.
    public init(
        fastMode: Bool = false, reasoningEffort: ChappieReasoningEffort = .automatic, verbosity: ChappieVerbosity? = nil
    ) {
        self.reasoningEffort = fastMode && reasoningEffort == .automatic ? .low : reasoningEffort
        self.verbosity = verbosity
    }

    /// Whether ``reasoningEffort`` is low. Switching it off leaves the effort to the model.
    public var fastMode: Bool {
        get { reasoningEffort == .low }
        set { if newValue != fastMode { reasoningEffort = newValue ? .low : .automatic } }
    }
}

/// How hard a model thinks before it answers; unknown values survive.
///
/// ``automatic`` stands where other types have an optional: `.none` is an effort here and must not mean "not given".
public struct ChappieReasoningEffort: RawRepresentable, Sendable, Hashable, Codable {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }

    /// The model's own; requests don't name it.
    public static let automatic = ChappieReasoningEffort(rawValue: "automatic")
    /// No reasoning at all.
    public static let none = ChappieReasoningEffort(rawValue: "none")
    /// Barely any.
    public static let minimal = ChappieReasoningEffort(rawValue: "minimal")
    /// Little, as in fast mode.
    public static let low = ChappieReasoningEffort(rawValue: "low")
    /// Some.
    public static let medium = ChappieReasoningEffort(rawValue: "medium")
    /// Much.
    public static let high = ChappieReasoningEffort(rawValue: "high")
    /// More than much.
    public static let extraHigh = ChappieReasoningEffort(rawValue: "xhigh")
    /// As much as most models know.
    public static let max = ChappieReasoningEffort(rawValue: "max")
    /// More than ``max``, where a model has it.
    public static let ultra = ChappieReasoningEffort(rawValue: "ultra")
}

extension KeyedDecodingContainer {
    /// Synthesised decoding comes here: documents may leave out an effort that is automatic.
    func decode(_ type: ChappieReasoningEffort.Type, forKey key: Key) throws -> ChappieReasoningEffort {
        try decodeIfPresent(type, forKey: key) ?? .automatic
    }
}

/// How much a model writes; unknown values survive.
public struct ChappieVerbosity: RawRepresentable, Sendable, Hashable, Codable {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }

    /// Terse.
    public static let low = ChappieVerbosity(rawValue: "low")
    /// Usual.
    public static let medium = ChappieVerbosity(rawValue: "medium")
    /// Wordy.
    public static let high = ChappieVerbosity(rawValue: "high")
}
