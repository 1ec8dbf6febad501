/// What the model says to a prompt: output items in order.
struct Reply: Sendable, Hashable {
    enum Output: Sendable, Hashable {
        case reasoning(summary: String)
        /// Streamed piece by piece; the pieces joined are the text.
        case message(pieces: [String])
        case functionCall(name: String, namespace: String?, arguments: String)
        case customCall(name: String, namespace: String?, input: String)
        case compaction(encryptedContent: String)
    }

    let outputs: [Output]
}
