@_spi(ChappieInternals) import ChappieCore

/// The pace at which a WebSocket is read. In a burst of messages, reading rests after each visit.
struct WebSocketReadPace {
    /// Whether there may be bytes that the socket doesn't report: reading was interrupted, or TLS holds them.
    var mustReadOn = false
    /// The end of the rest, or `nil` if reading may continue.
    private(set) var restUntil: Int?
    private var lastMessagesAt: Int?
    // These are valid for one visit.
    private var bytes = 0
    private var hasMessages = false

    func isResting(at now: Int) -> Bool { restUntil.map { now < $0 } ?? false }

    mutating func endRest() { restUntil = nil }

    /// Ends the rest, because the answer to a message must not wait for it.
    mutating func messageSent() {
        lastMessagesAt = nil
        restUntil = nil
    }

    mutating func visitBegan() {
        mustReadOn = false
        restUntil = nil
        bytes = 0
        hasMessages = false
    }

    mutating func read(_ count: Int) { bytes += count }

    mutating func readMessages() { hasMessages = true }

    /// Ends a visit, and begins a rest if the visit belongs to a burst.
    ///
    /// - Parameters:
    ///   - hasMore: Whether reading stopped although there may be more bytes.
    ///   - mayRest: Whether the connection is open.
    mutating func visitEnded(hasMore: Bool, mayRest: Bool, at now: Int) {
        mustReadOn = mustReadOn || hasMore
        guard hasMessages else { return }
        // TLS returns one record at a time, so a visit that stopped at its limit has not read everything.
        if !hasMore, mayRest, let lastMessagesAt, now - lastMessagesAt <= Burst.gap, bytes < Burst.bulkBytes {
            restUntil = now + Burst.rest
            mustReadOn = true
        }
        lastMessagesAt = now
    }
}
