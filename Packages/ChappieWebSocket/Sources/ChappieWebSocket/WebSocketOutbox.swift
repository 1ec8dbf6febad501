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

    /// In order. The first stays as and where it is until it has all been taken: TLS insists on being offered the same bytes
    /// again.
    private var frames: [(bytes: [UInt8], isAnswer: Bool)] = []
    /// How much of the first is taken.
    private var offset = 0
    private var answerBytes = 0
    /// How many bytes were queued in all, and how many of them need no waiting for any more.
    private(set) var queuedTotal = 0
    private(set) var writtenTotal = 0
    /// Since when the socket takes nothing; `nil` while it does.
    private(set) var blockedSince: Int?

    var byteCount: Int { queuedTotal - writtenTotal }
    var isEmpty: Bool { byteCount == 0 }

    /// Whether a message of that size may be queued now.
    func hasRoom(for bytes: Int) -> Bool { isEmpty || byteCount + bytes <= Self.limitBytes }

    /// Whether the peer has to take what it has asked for before it may ask for more.
    var owesTooMuch: Bool { answerBytes >= Self.answerLimitBytes }

    /// - Parameter isAnswer: the peer's own frames call for it: pongs, and the answer to its close.
    mutating func append(_ bytes: [UInt8], isAnswer: Bool = false) {
        guard !bytes.isEmpty else { return }
        frames.append((bytes, isAnswer))
        queuedTotal += bytes.count
        if isAnswer { answerBytes += bytes.count }
    }

    /// The next piece to offer the socket; the same until something of it is taken. `nil` when there is nothing.
    var nextPiece: (bytes: [UInt8], range: Range<Int>)? {
        frames.first.map { ($0.bytes, offset..<min(offset + Self.pieceBytes, $0.bytes.count)) }
    }

    /// - Returns: whether it went out after the socket had been blocked.
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

    /// Nothing more goes out.
    mutating func clear() {
        frames = []
        (offset, answerBytes, blockedSince) = (0, 0, nil)
        writtenTotal = queuedTotal
    }
}
