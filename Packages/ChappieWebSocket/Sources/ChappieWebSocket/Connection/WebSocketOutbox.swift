/// What waits to be written, and the senders that wait for room.
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
    /// The socket takes nothing for now.
    private(set) var isBlocked = false
    private var senders: [(id: Int, byteCount: Int, resume: Resume)] = []

    var byteCount: Int { queued.count + offered.count - offset }
    var isEmpty: Bool { byteCount == 0 }

    /// Whether a message of that size may be queued now.
    func hasRoom(for bytes: Int) -> Bool { isEmpty || byteCount + bytes <= Self.limitBytes }

    /// Whether the peer has to take what it has asked for before it may ask for more.
    var owesTooMuch: Bool { queuedAnswerBytes + offeredAnswerBytes >= Self.answerLimitBytes }

    mutating func append(_ bytes: [UInt8]) {
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
        if offset == offered.count { offeredAnswerBytes = 0 }
        defer { isBlocked = false }
        return isBlocked
    }

    mutating func blocked() { isBlocked = true }

    /// Nothing more goes out.
    mutating func clear() {
        queued = []
        offered = []
        offset = 0
        (queuedAnswerBytes, offeredAnswerBytes) = (0, 0)
    }

    // MARK: The senders' side

    /// - Parameter bytes: what the sender wants room for.
    mutating func wait(as id: Int, for bytes: Int, _ resume: @escaping Resume) { senders.append((id, bytes, resume)) }

    /// Takes out a sender that gives up.
    mutating func giveUp(_ id: Int) -> Resume? {
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
}
