/// The state of one HTTP exchange: its phase, its deadline, and the bytes that have arrived but have not been read.
///
/// This is a synchronous state machine. The caller passes in times, which are readings of ``LoopClock``.
@_spi(ChappieInternals) public struct TransferState: Sendable {
    /// The stage of the exchange, with the stages that can follow.
    public enum Phase: Equatable, Sendable {
        /// The exchange is resolving, connecting, or in the handshake of the proxy or of TLS. Next: sending,
        /// awaitingHead, ended.
        case connecting
        /// Part of the request body is still unsent. Next: awaitingHead, awaitingBody (a server may answer early),
        /// ended.
        case sending
        /// The request has been sent. Next: awaitingBody, ended.
        case awaitingHead
        /// The head has arrived, but no byte of the body. Next: receiving, ended.
        case awaitingBody
        /// The body is arriving. Next: paused, ended.
        case receiving
        /// The reader is slower than the network, so no deadline runs for the server. Next: receiving, ended.
        case paused
        case ended
    }

    /// The number of buffered bytes at which the network has to wait. It is large enough to keep a fast connection busy
    /// while the reader works, and small enough for hundreds of streams.
    public static let highWaterMark = 256 << 10

    /// The length of a silence after which the connection of a transfer that is cut off may be dead.
    public static let suspiciousSilence = Duration.seconds(5)

    /// The current phase.
    public private(set) var phase = Phase.connecting
    /// Whether the connection may be dead, because a deadline has passed or the reader gave up waiting for the server.
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

    /// Whether the exchange has ended.
    public var hasEnded: Bool { end != nil }

    // MARK: The network's reports

    /// Records that the connection is established and that the request is about to be sent.
    ///
    /// - Returns: Whether the request may be sent.
    public mutating func connected(hasBody: Bool, at now: Int) -> Bool {
        // The first attempt may have reached the server, and an adapter does not repeat a request on its own.
        guard phase == .connecting else { return false }
        move(to: hasBody ? .sending : .awaitingHead, at: now)
        return true
    }

    /// Records that a piece of the request body was handed to the connection.
    public mutating func sentBody(isWhole: Bool, at now: Int) {
        if phase == .sending { move(to: isWhole ? .awaitingHead : .sending, at: now) }
    }

    /// Records that the final head has arrived.
    public mutating func received(_ head: ResponseHead, at now: Int) {
        guard !hasEnded else { return }
        self.head = head
        move(to: .awaitingBody, at: now)
    }

    /// Buffers bytes of the body, unless too many are already buffered.
    ///
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

    /// Returns whether a waiting network may continue, and moves to `receiving` if so.
    public mutating func resume(at now: Int) -> Bool {
        guard phase == .paused, buffer.isEmpty else { return false }
        move(to: .receiving, at: now)
        return true
    }

    /// Records that the transfer has ended, with this error or complete. Only the first report counts. Buffered bytes
    /// are still delivered.
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

    /// Allows a silence of this length within the body, which the server has announced.
    public mutating func allow(silence: Duration) { deadlines.idle = max(deadlines.idle, silence) }

    /// Ends the transfer because a deadline has passed.
    public mutating func timedOut(_ error: any Error) {
        doubtsConnection = true
        ended(error)
    }

    /// Ends the transfer because the reader has given up, so that nothing more is delivered.
    public mutating func cancelled(at now: Int) {
        if deadline != nil { doubtsConnection = now - lastProgress >= Self.suspiciousSilence.nanoseconds }
        phase = .ended
        if case .failure? = end { return }
        buffer = []
        head = nil
        end = .failure(CancellationError())
    }

    // MARK: Time

    /// The time by which the next progress is due, or `nil` if none is.
    public var deadline: Int? { allowance.map { lastProgress + $0.nanoseconds } }

    /// Returns the duration that the current phase was given, if it has passed by `now`.
    public func expired(at now: Int) -> Duration? { deadline.flatMap { now >= $0 ? allowance : nil } }

    /// Returns whether the deadline passed while nothing ran. Timers are not late by seconds unless the machine slept.
    /// In that case the server was not silent as far as is known, but its connection has had time to break.
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
