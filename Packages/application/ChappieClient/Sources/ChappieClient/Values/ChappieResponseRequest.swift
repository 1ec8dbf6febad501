public import ChappieCore
public import ChappieJSONSchema

/// A turn with more than one message, or with its own options.
public struct ChappieResponseRequest: Sendable, Hashable, Codable {
    /// The messages are appended to the conversation in this order. Must not be empty.
    public var messages: [ChappieInputMessage]
    /// Overrides the options of the last message, as far as it sets any.
    public var options: ChappieMessageOptions
    /// The slug of the model for this turn alone; `nil`, the default, means the client's model.
    public var model: String?
    /// The schema that the answer must match, in the backend's strict mode. Default `nil`: the answer is text.
    public var outputSchema: ChappieJSONSchema?

    /// A turn with these messages.
    public init(
        messages: [ChappieInputMessage], options: ChappieMessageOptions = ChappieMessageOptions(),
        model: String? = nil, outputSchema: ChappieJSONSchema? = nil
    ) {
        self.messages = messages
        self.options = options
        self.model = model
        self.outputSchema = outputSchema
    }

    /// The options of the turn: the last message's, overridden by ``options``.
    @_spi(ChappieInternals) public var turnOptions: ChappieMessageOptions {
        var all = messages.last?.options ?? options
        if options.reasoningEffort != .automatic { all.reasoningEffort = options.reasoningEffort }
        all.verbosity = options.verbosity ?? all.verbosity
        return all
    }
}
