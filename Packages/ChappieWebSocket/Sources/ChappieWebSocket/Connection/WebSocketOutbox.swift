/// What waits to be written, the senders that wait for room, and those that wait until theirs is written.
struct WebSocketOutbox {
    typealias Resume = @Sendable (Result<Void, any Error>) -> Void

    /// A message that would lead beyond this many queued bytes waits, unless it is the only one.
    static let limitBytes = 1 << 20
    /// From this many bytes of answers on that the peer has not taken, nothing more is read: whoever sends pings and reads
    /// nothing would fill the memory with pongs.
    static let answerLimitBytes = 64 << 10
    /// Smaller leftovers of capacity are kept for the next bytes.
    private static let keptCapacity = 64 << 10

    /// Not looked at by the socket yet.
    private var queued: [UInt8] = []
    /// What the socket is being offered. It stays as and where it is until it has all been taken: TLS insists on being
    /// offered the same bytes again.
    private(set) var offered: [UInt8] = []
    private(set) var offset = 0
    /// How much of either are answers.
    private var queuedAnswerBytes = 0
    private var offeredAnswerBytes = 0
    /// How many bytes were queued in all, and how many of them need no waiting for any more.
    private(set) var queuedTotal = 0
    private var writtenTotal = 0
    /// Since when the socket takes nothing; `nil` while it does.
    private(set) var blockedSince: Duration?
    private var senders: [(id: Int, byteCount: Int, resume: Resume)] = []
    private var writers: [(id: Int, end: Int, resume: Resume)] = []

    var byteCount: Int { queued.count + offered.count - offset }
    var isEmpty: Bool { byteCount == 0 }
    var isBlocked: Bool { blockedSince != nil }
    var hasWriters: Bool { !writers.isEmpty }

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

    // MARK: The socket's side

    /// Makes sure that something is offered, if there is anything.
    mutating func offer() {
        guard offset == offered.count else { return }
        offered.removeAll(keepingCapacity: offered.capacity <= Self.keptCapacity)
        offset = 0
        swap(&offered, &queued)
        (offeredAnswerBytes, queuedAnswerBytes) = (queuedAnswerBytes, 0)
    }

    /// - Returns: whether it went out after the socket had been blocked.
    mutating func took(_ count: Int) -> Bool {
        offset += count
        writtenTotal += count
        if offset == offered.count { offeredAnswerBytes = 0 }
        defer { blockedSince = nil }
        return isBlocked
    }

    mutating func blocked(at now: Duration) { blockedSince = blockedSince ?? now }

    /// Nothing more goes out.
    mutating func clear() {
        queued = []
        offered = []
        offset = 0
        writtenTotal = queuedTotal
        (queuedAnswerBytes, offeredAnswerBytes) = (0, 0)
    }

    // MARK: The senders' side

    /// - Parameter bytes: what the sender wants room for.
    mutating func wait(as id: Int, for bytes: Int, _ resume: @escaping Resume) { senders.append((id, bytes, resume)) }

    /// - Parameter end: what ``queuedTotal`` was right behind the sender's message.
    mutating func awaitWriting(upTo end: Int, as id: Int, _ resume: @escaping Resume) {
        writers.append((id, end, resume))
    }

    /// Takes out a sender that gives up.
    mutating func giveUp(_ id: Int) -> Resume? {
        if let index = writers.firstIndex(where: { $0.id == id }) { return writers.remove(at: index).resume }
        guard let index = senders.firstIndex(where: { $0.id == id }) else { return nil }
        return senders.remove(at: index).resume
    }

    /// Takes out the first sender when there is room for it, so that it may try again; every one when `all` is set,
    /// because nothing goes out any more.
    mutating func release(all: Bool) -> [Resume] {
        guard let first = senders.first, all || hasRoom(for: first.byteCount) else { return [] }
        let count = all ? senders.count : 1
        defer { senders.removeFirst(count) }
        return senders.prefix(count).map(\.resume)
    }

    /// Takes out the senders whose messages are written; every one when `all` is set.
    mutating func releaseWriters(all: Bool) -> [Resume] {
        let count = all ? writers.count : writers.prefix { $0.end <= writtenTotal }.count
        defer { writers.removeFirst(count) }
        return writers.prefix(count).map(\.resume)
    }
}
