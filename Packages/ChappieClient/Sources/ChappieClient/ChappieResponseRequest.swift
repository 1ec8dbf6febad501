public import ChappieCore
public import ChappieJSONSchema

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
