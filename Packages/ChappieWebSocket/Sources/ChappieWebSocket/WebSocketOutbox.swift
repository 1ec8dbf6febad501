/// The bytes that wait to be written.
struct WebSocketOutbox {
    /// A message that would lead beyond this many queued bytes waits, unless it is the only one.
    static let limitBytes = 1 << 20
    /// From this many bytes of answers on that the peer has not taken, nothing more is read: a peer that sends pings and
    /// reads nothing would fill the memory with pongs.
    static let answerLimitBytes = 64 << 10
    /// One TLS record. The TLS library reports nothing before it has sent all that it was given at once, so that a large
    /// piece on a slow line would show no progress.
    static let pieceBytes = 16 << 10
    /// Smaller leftovers of capacity are kept for the next bytes.
    private static let keptCapacity = 64 << 10

    /// Not looked at by the socket yet.
    private var queued: [UInt8] = []
    /// The piece that the socket is being offered. It stays as and where it is until it has all been taken: TLS insists on being
    /// offered the same bytes again.
    private var offered: [UInt8] = []
    private var offset = 0
    /// How much of either are answers.
    private var queuedAnswerBytes = 0
    private var offeredAnswerBytes = 0
    /// How many bytes were queued in all, and how many of them need no waiting for any more.
    private(set) var queuedTotal = 0
    private(set) var writtenTotal = 0
    /// Since when the socket takes nothing; `nil` while it does.
    private(set) var blockedSince: Int?

    var byteCount: Int { queued.count + offered.count - offset }
    var isEmpty: Bool { byteCount == 0 }

    /// Whether a message of that size may be queued now.
    func hasRoom(for bytes: Int) -> Bool { isEmpty || byteCount + bytes <= Self.limitBytes }

    /// Whether the peer has to take what it has asked for before it may ask for more.
    var owesTooMuch: Bool { queuedAnswerBytes + offeredAnswerBytes >= Self.answerLimitBytes }

    mutating func append(_ bytes: [UInt8]) {
        queuedTotal += bytes.count
        if queued.isEmpty { queued = bytes } else { queued += bytes }
    }

    /// Queues what the peer's own frames call for: pongs, and the answer to its close.
    mutating func append(answer bytes: [UInt8]) {
        append(bytes)
        queuedAnswerBytes += bytes.count
    }

    /// The next piece to offer the socket; the same until something of it is taken. `nil` when there is nothing.
    mutating func nextPiece() -> (bytes: [UInt8], range: Range<Int>)? {
        if offset == offered.count {
            offered.removeAll(keepingCapacity: offered.capacity <= Self.keptCapacity)
            offset = 0
            swap(&offered, &queued)
            (offeredAnswerBytes, queuedAnswerBytes) = (queuedAnswerBytes, 0)
        }
        return offered.isEmpty ? nil : (offered, offset..<min(offset + Self.pieceBytes, offered.count))
    }

    /// - Returns: whether it went out after the socket had been blocked.
    mutating func took(_ count: Int) -> Bool {
        offset += count
        writtenTotal += count
        if offset == offered.count { offeredAnswerBytes = 0 }
        defer { blockedSince = nil }
        return blockedSince != nil
    }

    mutating func blocked(at now: Int) { blockedSince = blockedSince ?? now }

    /// Nothing more goes out.
    mutating func clear() {
        queued = []
        offered = []
        offset = 0
        writtenTotal = queuedTotal
        (queuedAnswerBytes, offeredAnswerBytes) = (0, 0)
        blockedSince = nil
    }
}
