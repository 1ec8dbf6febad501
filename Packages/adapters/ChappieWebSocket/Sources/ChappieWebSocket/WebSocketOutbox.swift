/// The queue of bytes to write.
struct WebSocketOutbox {
    /// A message that would exceed this many queued bytes waits, unless it is the only one.
    static let limitBytes = 1 << 20
    /// If the peer leaves this many bytes of our answers unread, nothing more is read from it. Otherwise a peer that
    /// sends pings and reads nothing would fill the memory with pongs.
    static let answerLimitBytes = 64 << 10
    /// One TLS record. The TLS library reports no progress until it has sent everything that it was given at once, so a
    /// large piece on a slow line would look stuck.
    static let pieceBytes = 16 << 10

    /// In order. The first frame keeps its bytes and its address until all of it has been taken: TLS must be offered
    /// the same bytes again.
    private var frames: [(bytes: [UInt8], isAnswer: Bool)] = []
    /// The number of bytes of the first frame that were taken.
    private var offset = 0
    private var answerBytes = 0
    /// The number of bytes ever queued, and the number of bytes that need no more waiting.
    private(set) var queuedTotal = 0
    private(set) var writtenTotal = 0
    /// The time since which the socket takes nothing; `nil` while it takes bytes.
    private(set) var blockedSince: Int?

    var byteCount: Int { queuedTotal - writtenTotal }
    var isEmpty: Bool { byteCount == 0 }

    /// Whether a message of that size may be queued now.
    func hasRoom(for bytes: Int) -> Bool { isEmpty || byteCount + bytes <= Self.limitBytes }

    /// Whether the peer must read our answers before it may send more.
    var owesTooMuch: Bool { answerBytes >= Self.answerLimitBytes }

    /// - Parameter isAnswer: Whether the bytes answer the peer's frames: they are pongs, or the answer to its close.
    mutating func append(_ bytes: [UInt8], isAnswer: Bool = false) {
        guard !bytes.isEmpty else { return }
        frames.append((bytes, isAnswer))
        queuedTotal += bytes.count
        if isAnswer { answerBytes += bytes.count }
    }

    /// The next piece to offer to the socket. It stays the same until the socket takes a part of it. `nil` if the queue
    /// is empty.
    var nextPiece: (bytes: [UInt8], range: Range<Int>)? {
        frames.first.map { ($0.bytes, offset..<min(offset + Self.pieceBytes, $0.bytes.count)) }
    }

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

    /// Drops the queue: nothing more goes out.
    mutating func clear() {
        frames = []
        offset = 0
        answerBytes = 0
        blockedSince = nil
        writtenTotal = queuedTotal
    }
}
