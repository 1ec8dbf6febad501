@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieCurl
import HTTPTypes

/// One HTTP exchange: its phase, its deadline, and the bytes that have arrived and have not been read.
///
/// A synchronous machine. The caller passes in times, which are readings of the loop's clock.
struct TransferState {
    enum Phase: Equatable {
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

    /// The reason why a response head was refused. curl itself reports only that a callback has stopped it.
    enum Objection: Equatable {
        case violation(String)
        /// Only a proxy asks for proxy credentials (RFC 9110, 15.5.8). If there is a tunnel, the proxy does so while
        /// connecting; this is a plain http request through a proxy on this machine.
        case refusedByProxy
    }

    /// curl has to wait while this many bytes are buffered: enough to keep a fast connection busy while the reader
    /// works, and small enough for hundreds of streams.
    static let highWaterMark = 256 << 10

    /// If a transfer is cut off after a silence of this length, its connection may be dead.
    static let suspiciousSilence = Duration.seconds(5)

    private(set) var phase = Phase.connecting
    /// Whether the connection may be dead: a deadline has passed, or the reader gave up waiting for the server.
    private(set) var doubtsConnection = false
    private(set) var objection: Objection?
    private let deadlines: ChappieDeadlines
    private let isThroughProxy: Bool
    private var lastProgress: Int
    private var parser = ResponseHeadParser(byteLimit: 256 << 10, isStrict: false)
    private var head: ResponseHead?
    private var buffer: [UInt8] = []
    private var end: Result<Void, any Error>?
    /// The number of bytes that were read in the present visit.
    private var readBytes = 0
    private var lastReadAt: Int?

    init(deadlines: ChappieDeadlines, isThroughProxy: Bool, startedAt now: Int) {
        self.deadlines = deadlines
        self.isThroughProxy = isThroughProxy
        lastProgress = now
    }

    var hasEnded: Bool { end != nil }

    // MARK: curl's reports

    /// The connection stands and the request is about to go out.
    ///
    /// - Returns: Whether the request may go out. This method and the next two stop the transfer by answering `false`.
    mutating func connected(hasBody: Bool, at now: Int) -> Bool {
        // The first attempt may have reached the server, and an adapter does not repeat a request on its own.
        guard phase == .connecting else { return false }
        move(to: hasBody ? .sending : .awaitingHead, at: now)
        return true
    }

    /// A piece of the request body was handed to the connection.
    mutating func sentBody(isWhole: Bool, at now: Int) {
        if phase == .sending { move(to: isWhole ? .awaitingHead : .sending, at: now) }
    }

    mutating func receivedLine(_ line: some BidirectionalCollection<UInt8>, at now: Int) -> Bool {
        switch parser.receivedLine(line) {
        case .more: return true
        case .failed(let rule): return object(.violation(rule))
        case .complete(let head):
            if head.status.code == 101 { return object(.violation("it switched protocols without being asked")) }
            if head.status.code == 407, isThroughProxy { return object(.refusedByProxy) }
            self.head = head
            move(to: .awaitingBody, at: now)
            return true
        }
    }

    /// - Returns: Whether the bytes were taken. Otherwise curl has to wait and offer them again.
    mutating func receivedBody(_ bytes: UnsafeRawBufferPointer, at now: Int) -> Bool {
        let isTaken = buffer.count < Self.highWaterMark
        if isTaken { buffer.append(contentsOf: bytes) }
        readBytes += bytes.count
        move(to: isTaken ? .receiving : .paused, at: now)
        return isTaken
    }

    /// Whether the body comes in a burst of small pieces, so that the loop may rest. Asked once in a visit.
    mutating func isInBurst(at now: Int) -> Bool {
        guard readBytes > 0 else { return false }
        defer {
            readBytes = 0
            lastReadAt = now
        }
        return phase == .receiving && readBytes < Burst.bulkBytes && lastReadAt.map { now - $0 <= Burst.gap } ?? false
    }

    /// Answers whether curl may go on, and moves to `receiving` if so.
    mutating func resume(at now: Int) -> Bool {
        guard phase == .paused, buffer.isEmpty else { return false }
        move(to: .receiving, at: now)
        return true
    }

    /// The transfer is over, with this error or complete; the first report counts. Buffered bytes are still delivered.
    mutating func ended(_ error: (any Error)? = nil) {
        phase = .ended
        if end == nil { end = error.map { .failure($0) } ?? .success(()) }
    }

    /// curl has ended the transfer: was the response complete?
    var isWhole: Bool { parser.isComplete }

    private mutating func object(_ objection: Objection) -> Bool {
        self.objection = objection
        return false
    }

    // MARK: The reader's requests

    /// The head, or its failure; `nil` if the reader has to wait.
    func takeHead() -> Result<ResponseHead, any Error>? {
        if let head { return .success(head) }
        guard case .failure(let error) = end else { return nil }
        return .failure(error)
    }

    /// All buffered bytes of the body, or its end; `nil` if the reader has to wait.
    mutating func takeChunk() -> Result<[UInt8]?, any Error>? {
        if buffer.isEmpty { return end?.map { nil } }
        defer { buffer = [] }
        return .success(buffer)
    }

    /// A deadline of ours has passed.
    mutating func timedOut(_ error: any Error) {
        doubtsConnection = true
        ended(error)
    }

    /// The reader has given up, so nothing more is delivered.
    mutating func cancelled(at now: Int) {
        if deadline != nil { doubtsConnection = now - lastProgress >= Self.suspiciousSilence.nanoseconds }
        phase = .ended
        if case .failure? = end { return }
        buffer = []
        head = nil
        end = .failure(CancellationError())
    }

    // MARK: Time

    /// The time by which the next progress is due; `nil` if none is.
    var deadline: Int? { allowance.map { lastProgress + $0.nanoseconds } }

    /// The duration that the present phase was given, if it has passed by `now`.
    func expired(at now: Int) -> Duration? { deadline.flatMap { now >= $0 ? allowance : nil } }

    /// Whether the deadline passed while nothing ran: the loop is not late by seconds unless the machine slept. Then the
    /// server was not silent, as far as anyone knows, but its connection has had time to break.
    func sleptThrough(at now: Int) -> Bool { deadline.map { now - $0 >= Self.suspiciousSilence.nanoseconds } ?? false }

    /// The phase's name in errors.
    var stage: ChappieTransportError.Stage {
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
