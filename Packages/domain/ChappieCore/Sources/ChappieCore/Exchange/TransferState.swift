/// One HTTP exchange: its phase, its deadline, and the bytes that have arrived and have not been read.
///
/// A synchronous machine. The caller passes in times, which are readings of ``LoopClock``.
@_spi(ChappieInternals) public struct TransferState: Sendable {
    /// The stage of the exchange, and what is due next.
    public enum Phase: Equatable, Sendable {
        /// Resolving, connecting, the proxy's and the TLS handshake. Next: sending, awaitingHead, ended.
        case connecting
        /// Part of the request body is still unsent. Next: awaitingHead, awaitingBody (a server may answer early),
        /// ended.
        case sending
        /// The request is out. Next: awaitingBody, ended.
        case awaitingHead
        /// The head has arrived, but no byte of the body. Next: receiving, ended.
        case awaitingBody
        /// Next: paused, ended.
        case receiving
        /// The reader is slower than the network, so no deadline runs for the server. Next: receiving, ended.
        case paused
        case ended
    }

    /// The network has to wait while this many bytes are buffered: enough to keep a fast connection busy while the
    /// reader works, and small enough for hundreds of streams.
    public static let highWaterMark = 256 << 10

    /// If a transfer is cut off after a silence of this length, its connection may be dead.
    public static let suspiciousSilence = Duration.seconds(5)

    /// The present phase.
    public private(set) var phase = Phase.connecting
    /// Whether the connection may be dead: a deadline has passed, or the reader gave up waiting for the server.
    public private(set) var doubtsConnection = false
    private var deadlines: ChappieDeadlines
    private var lastProgress: Int
    private var head: ResponseHead?
    private var buffer: [UInt8] = []
    private var end: Result<Void, any Error>?

    /// Creates an exchange that begins to connect at `now`.
    public init(deadlines: ChappieDeadlines, startedAt now: Int) {
        self.deadlines = deadlines
        lastProgress = now
    }

    /// Whether nothing more can happen to it.
    public var hasEnded: Bool { end != nil }

    // MARK: The network's reports

    /// The connection stands and the request is about to go out.
    ///
    /// - Returns: Whether the request may go out.
    public mutating func connected(hasBody: Bool, at now: Int) -> Bool {
        // The first attempt may have reached the server, and an adapter does not repeat a request on its own.
        guard phase == .connecting else { return false }
        move(to: hasBody ? .sending : .awaitingHead, at: now)
        return true
    }

    /// A piece of the request body was handed to the connection.
    public mutating func sentBody(isWhole: Bool, at now: Int) {
        if phase == .sending { move(to: isWhole ? .awaitingHead : .sending, at: now) }
    }

    /// The final head has arrived.
    public mutating func received(_ head: ResponseHead, at now: Int) {
        guard !hasEnded else { return }
        self.head = head
        move(to: .awaitingBody, at: now)
    }

    /// - Returns: Whether the bytes were taken. Otherwise the network has to wait and offer them again.
    public mutating func receivedBody(_ bytes: UnsafeRawBufferPointer, at now: Int) -> Bool {
        let isTaken = buffer.count < Self.highWaterMark
        if isTaken { buffer.append(contentsOf: bytes) }
        move(to: isTaken ? .receiving : .paused, at: now)
        return isTaken
    }

    /// Buffers bytes that the network can't deliver twice.
    ///
    /// - Returns: Whether the network may continue. Otherwise it has to wait until ``resume(at:)`` reports that.
    public mutating func mustTakeBody(_ bytes: UnsafeRawBufferPointer, at now: Int) -> Bool {
        guard !hasEnded else { return true }
        buffer.append(contentsOf: bytes)
        let isFull = buffer.count >= Self.highWaterMark
        move(to: isFull ? .paused : .receiving, at: now)
        return !isFull
    }

    /// Answers whether a network that waits may continue, and moves to `receiving` if so.
    public mutating func resume(at now: Int) -> Bool {
        guard phase == .paused, buffer.isEmpty else { return false }
        move(to: .receiving, at: now)
        return true
    }

    /// The transfer is over, with this error or complete; the first report counts. Buffered bytes are still delivered.
    public mutating func ended(_ error: (any Error)? = nil) {
        phase = .ended
        if end == nil { end = error.map { .failure($0) } ?? .success(()) }
    }

    // MARK: The reader's requests

    /// Returns the head, or its failure, or `nil` if the reader has to wait.
    public func takeHead() -> Result<ResponseHead, any Error>? {
        if let head { return .success(head) }
        guard case .failure(let error) = end else { return nil }
        return .failure(error)
    }

    /// Returns all buffered bytes of the body, or its end, or `nil` if the reader has to wait.
    public mutating func takeChunk() -> Result<[UInt8]?, any Error>? {
        if buffer.isEmpty { return end?.map { nil } }
        defer { buffer = [] }
        return .success(buffer)
    }

    /// The server has announced a silence of this length within the body.
    public mutating func allow(silence: Duration) { deadlines.idle = max(deadlines.idle, silence) }

    /// A deadline of ours has passed.
    public mutating func timedOut(_ error: any Error) {
        doubtsConnection = true
        ended(error)
    }

    /// The reader has given up, so nothing more is delivered.
    public mutating func cancelled(at now: Int) {
        if deadline != nil { doubtsConnection = now - lastProgress >= Self.suspiciousSilence.nanoseconds }
        phase = .ended
        if case .failure? = end { return }
        buffer = []
        head = nil
        end = .failure(CancellationError())
    }

    // MARK: Time

    /// The time by which the next progress is due; `nil` if none is.
    public var deadline: Int? { allowance.map { lastProgress + $0.nanoseconds } }

    /// Returns the duration that the present phase was given, if it has passed by `now`.
    public func expired(at now: Int) -> Duration? { deadline.flatMap { now >= $0 ? allowance : nil } }

    /// Whether the deadline passed while nothing ran: timers are not late by seconds unless the machine slept. Then the
    /// server was not silent, as far as anyone knows, but its connection has had time to break.
    public func sleptThrough(at now: Int) -> Bool {
        deadline.map { now - $0 >= Self.suspiciousSilence.nanoseconds } ?? false
    }

    /// The phase's name in errors.
    public var stage: ChappieTransportError.Stage {
        switch phase {
        case .connecting: .connect
        case .sending: .request
        case .awaitingHead: .responseHead
        case .awaitingBody: .firstByte
        case .receiving, .paused, .ended: .responseBody
        }
    }

    private var allowance: Duration? {
        switch phase {
        case .connecting: deadlines.connect
        // A server that stops reading is as silent as a server that stops sending.
        case .sending, .receiving: deadlines.idle
        case .awaitingHead: deadlines.responseHead
        case .awaitingBody: deadlines.firstByte
        case .paused, .ended: nil
        }
    }

    private mutating func move(to phase: Phase, at now: Int) {
        guard self.phase != .ended else { return }
        self.phase = phase
        lastProgress = now
    }
}
