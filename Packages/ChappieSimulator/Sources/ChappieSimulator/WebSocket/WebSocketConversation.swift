import ChappieCore

/// What one connection remembers from message to message.
struct WebSocketConversation: Sendable {
    /// Bytes of input and output that are remembered. Past it the connection forgets, and says
    /// `previous_response_not_found` as if it had never known.
    static let memoryLimit = 16 * 1024 * 1024

    let connection: Int
    /// The turn state of the handshake, until the first turn has taken it.
    var turnState: String?
    /// Turns until the connection's time is over; `nil` for no limit.
    let requestLimit: Int?
    private(set) var turnCount = 0
    private(set) var lastResponseID: String?
    /// What the last response answered, and its own output.
    private(set) var items: [ChappieJSON] = []
    private var size = 0

    init(connection: Int, turnState: String? = nil, requestLimit: Int? = nil) {
        self.connection = connection
        self.turnState = turnState
        self.requestLimit = requestLimit
    }

    /// Whether the connection has answered all that it may.
    var isOverLimit: Bool { requestLimit.map { turnCount >= $0 } ?? false }

    mutating func countTurn() { turnCount += 1 }

    /// A response was given: the next input may start from it.
    ///
    /// - Parameters:
    ///   - input: the whole input it answered.
    ///   - byteCount: bytes of the message that brought it.
    ///   - continues: whether the message started from the response before.
    mutating func remember(
        response id: String, input: [ChappieJSON], output: [ChappieJSON], byteCount: Int, continues: Bool
    ) {
        size = (continues ? size : 0) + byteCount + output.reduce(0) { $0 + $1.serializedBytes().count }
        guard size <= Self.memoryLimit else { return forget() }
        lastResponseID = id
        items = input + output
    }

    private mutating func forget() {
        lastResponseID = nil
        items = []
        size = 0
    }
}
