/// The queue of bytes to write.
struct WebSocketOutbox {
    /// The maximum number of queued bytes. A message that would exceed it waits, unless it is the only one.
    static let limitBytes = 1 << 20
    /// The number of bytes of our answers that the peer may leave unread before nothing more is read from it.
    /// Otherwise, a peer that sends pings and reads nothing would fill the memory with pongs.
    static let answerLimitBytes = 64 << 10
    /// The size of one TLS record. The TLS library reports no progress until it has sent everything that it was given
    /// at once, so a large piece on a slow line would appear to be stuck.
    static let pieceBytes = 16 << 10

    /// The frames in order. The first frame keeps its bytes and its address until it has been accepted completely,
    /// because TLS must be offered the same bytes again.
    private var frames: [(bytes: [UInt8], isAnswer: Bool)] = []
    /// The number of bytes of the first frame that were accepted.
    private var offset = 0
    private var answerBytes = 0
    /// The number of bytes ever queued, and the number of bytes that need no more waiting.
    private(set) var queuedTotal = 0
    private(set) var writtenTotal = 0
    /// The time since which the socket accepts nothing, or `nil` while it accepts bytes.
    private(set) var blockedSince: Int?

    var byteCount: Int { queuedTotal - writtenTotal }
    var isEmpty: Bool { byteCount == 0 }

    /// Returns whether a message of this size may be queued at this time.
    func hasRoom(for bytes: Int) -> Bool { isEmpty || byteCount + bytes <= Self.limitBytes }

    /// Whether the peer must read our answers before it may send more.
    var owesTooMuch: Bool { answerBytes >= Self.answerLimitBytes }

    /// Appends bytes to the queue.
    ///
    /// - Parameter isAnswer: Whether the bytes answer the peer's frames. They are then pongs, or the answer to its
    ///   close frame.
    mutating func append(_ bytes: [UInt8], isAnswer: Bool = false) {
        guard !bytes.isEmpty else { return }
        frames.append((bytes, isAnswer))
        queuedTotal += bytes.count
        if isAnswer { answerBytes += bytes.count }
    }

    /// The next piece to offer to the socket, or `nil` if the queue is empty. It stays the same until the socket
    /// accepts a part of it.
    var nextPiece: (bytes: [UInt8], range: Range<Int>)? {
        frames.first.map { ($0.bytes, offset..<min(offset + Self.pieceBytes, $0.bytes.count)) }
    }

    /// Removes the bytes that the socket has accepted.
    ///
    /// - Returns: Whether the socket had been blocked before.
    mutating func took(_ count: Int) -> Bool {
        offset += count
        writtenTotal += count
        if let first = frames.first, offset == first.bytes.count {
            frames.removeFirst()
            offset = 0
            if first.isAnswer { answerBytes -= first.bytes.count }
        }
        defer { blockedSince = nil }
        return blockedSince != nil
    }

    mutating func blocked(at now: Int) { blockedSince = blockedSince ?? now }

    /// Empties the queue, so that nothing more is sent.
    mutating func clear() {
        frames = []
        offset = 0
        answerBytes = 0
        blockedSince = nil
        writtenTotal = queuedTotal
    }
}
