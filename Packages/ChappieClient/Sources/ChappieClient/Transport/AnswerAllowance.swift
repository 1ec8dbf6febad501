import ChappieCore

/// How large one answer may become, by the bytes as they arrive; sans-IO. It bounds what is kept of an answer, and what
/// waits for a reader that has stopped.
struct AnswerAllowance: Sendable {
    private let limit: Int
    private let host: String
    private var received = 0

    /// - Parameters:
    ///   - limit: in bytes; default 256 MiB, many times what any model says.
    ///   - host: the backend's, for the error.
    init(limit: Int = 256 << 20, host: String) {
        self.limit = limit
        self.host = host
    }

    /// More of the answer has come.
    ///
    /// - Throws: ``ChappieTransportError`` with code `.bodyTooLarge`.
    mutating func received(_ count: Int) throws(ChappieTransportError) {
        guard count <= limit - received else {
            throw ChappieTransportError(
                .bodyTooLarge, stage: .responseBody, host: host, reason: "the answer is over \(limit) bytes")
        }
        received += count
    }
}
