/// A turn with more than one message, or with its own options.
public struct ChappieResponseRequest: Sendable, Hashable {
    /// Appended to the conversation in this order; must not be empty.
    public var messages: [ChappieInputMessage]
    /// Wins over the options of the last message where it says something.
    public var options: ChappieMessageOptions

    public init(messages: [ChappieInputMessage], options: ChappieMessageOptions = ChappieMessageOptions()) {
        self.messages = messages
        self.options = options
    }
}
