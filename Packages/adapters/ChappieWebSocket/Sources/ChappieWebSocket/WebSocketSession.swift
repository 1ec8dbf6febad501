@_spi(ChappieInternals) import ChappieCore
import HTTPTypes

/// A WebSocket from the first attempt to its end. It covers the handshake, messages in both directions, closing, the
/// next deadline, and when to read.
///
/// It has no socket, no clock and no task. Events are passed in with their time, in nanoseconds of the loop's clock.
/// Bytes to send are put into the outbox. Callers who wait ask again after each change.
struct WebSocketSession {
    enum Phase: String {
        /// Resolving, connecting, and the handshakes of the proxy and of TLS.
        case connecting
        /// The request for the upgrade is being sent, or its answer is not complete.
        case handshaking
        case open
        /// Our close frame is sent or queued, and the peer's has not arrived.
        case closing
        /// Both sides have closed. Queued bytes are sent, and the peer gets time to close the connection before this
        /// side does (RFC 6455, 7.1.1).
        case lingering
        case ended
    }

    /// The phases that may follow each phase, as drawn in docs/STATES.md.
    private static let next = [
        "connecting": ["handshaking", "ended"],
        "handshaking": ["open", "ended"],
        "open": ["closing", "lingering", "ended"],
        "closing": ["lingering", "ended"],
        "lingering": ["ended"],
    ]

    private static func isDrawn(_ old: String, _ new: String) -> Bool {
        old == new || next[old]?.contains(new) == true
    }

    /// The time for the body of a refusal, from the arrival of its head.
    static let refusalAllowance = Duration.seconds(5)
    /// The time for a closing handshake, including queued messages.
    static let closeAllowance = Duration.seconds(5)
    /// The time for the peer to close the connection after the closing handshake.
    static let lingerAllowance = Duration.seconds(1)
    /// The number of bytes waiting for the receiver at which nothing more is read from the socket. Bytes that were
    /// already read are kept, however many there are. Otherwise, a message larger than this would never arrive.
    static let inboxLimitBytes = 4 << 20
    /// The memory that a message takes in addition to its payload, so that many small messages also count.
    private static let bytesPerMessage = 64

    /// The name of the peer in errors.
    private let host: String
    private let deadlines: ChappieDeadlines
    private let limits: WebSocketLimits
    private let nextMaskingKey: () -> UInt32
    /// The liveness deadline in nanoseconds, since it is compared several times for each packet.
    private let liveness: Int

    private(set) var phase = Phase.connecting {
        didSet { assert(Self.isDrawn(oldValue.rawValue, phase.rawValue), "\(oldValue) to \(phase)") }
    }
    /// The time when the phase began, or of the last sign of life in it.
    private var since: Int
    /// The time of the ping that the peer has not answered. The peer gets its full time from then on, because the first
    /// visit after a suspend is late.
    private var pinged: Int?
    /// The ping whose answer a caller requires, until a byte arrives.
    private var demand: (until: Int, allowance: Duration)?
    /// Whether a byte has arrived since the handshake.
    private var hasHeard = false

    var outbox = WebSocketOutbox()
    /// Whether writing has failed. Bytes that the peer sent before may still be readable.
    private var isWriteBroken = false

    // The decoders of the peer's bytes. There is one at a time, and none at the end.
    private var handshake: WebSocketHandshake?
    private var codec: WebSocketCodec?

    /// The answer to the handshake, or the error instead of it.
    private(set) var opening: Result<WebSocketHandshake.Answer, any Error>?
    private var messages: [WebSocketMessage] = []
    private var inboxBytes = 0
    /// The connection's end for the receiver. Only the first end counts.
    private var end: Result<WebSocketCloseReason, ChappieTransportError>?

    private var pace = WebSocketReadPace()

    /// Creates a session.
    ///
    /// - Parameters:
    ///   - handshake: The handshake, which has not been sent yet.
    ///   - now: The time when the attempt to connect begins.
    init(
        _ handshake: WebSocketHandshake, host: String, deadlines: ChappieDeadlines,
        limits: WebSocketLimits = WebSocketLimits(), startedAt now: Int, nextMaskingKey: @escaping () -> UInt32
    ) {
        self.handshake = handshake
        self.host = host
        self.deadlines = deadlines
        self.limits = limits
        liveness = deadlines.liveness.nanoseconds
        since = now
        self.nextMaskingKey = nextMaskingKey
    }

    /// Creates the session of an attempt to open `url`. The attempt begins immediately.
    ///
    /// - Throws: ``ChappieTransportError`` with stage `.configuration`.
    init(
        opening url: URL, at origin: Origin, headerFields: HTTPFields, offersCompression: Bool,
        deadlines: ChappieDeadlines
    ) throws(ChappieTransportError) {
        do throws(WebSocketError) {
            let handshake = try WebSocketHandshake(
                target: Origin.originForm(of: url), authority: origin.label, headerFields: headerFields,
                offersCompression: offersCompression, nonce: .random(in: .min ... .max))
            self.init(
                handshake, host: origin.label, deadlines: deadlines, startedAt: LoopClock.now,
                nextMaskingKey: { .random(in: .min ... .max) })
        } catch {
            throw error.error(at: .configuration, host: origin.label)
        }
    }

    // MARK: The loop's questions

    /// Whether nothing is left to do on the socket.
    var isOver: Bool { phase == .ended }

    /// Whether the receiver is behind. Nothing is read then, so no sign of life can arrive.
    private var isFull: Bool { inboxBytes >= Self.inboxLimitBytes }

    var wantsRead: Bool {
        switch phase {
        case .connecting, .ended: false
        case .handshaking, .lingering: true
        // Nothing is read from a peer that leaves our answers unread, so that its silence ends the connection in time.
        case .open, .closing: !isFull && !outbox.owesTooMuch
        }
    }

    /// Returns the events to wait for until the next visit.
    ///
    /// - Parameter deadline: The time at which a caller must be asked again.
    func verdict(at now: Int, deadline usersDeadline: Int?) -> LoopVerdict {
        guard !isOver else { return .leave }
        var until = min(deadline ?? .max, usersDeadline ?? .max)
        for case let moment? in [pace.restUntil, writingDeadline] where moment > now { until = min(until, moment) }
        // The socket does not report bytes inside TLS or a newly queued ping.
        if phase != .connecting, shouldReadOn(at: now) || !outbox.isEmpty && outbox.blockedSince == nil { until = now }
        return .stay(
            reads: wantsRead && !pace.isResting(at: now), writes: !outbox.isEmpty, until: until == .max ? nil : until)
    }

    /// Returns whether to read although the socket has not reported bytes.
    func shouldReadOn(at now: Int) -> Bool { pace.mustReadOn && wantsRead && !pace.isResting(at: now) }

    /// Returns whether to read at this visit, and begins the reading if so.
    ///
    /// - Parameter isReadable: Whether the socket reports bytes.
    mutating func beginsReading(isReadable: Bool, at now: Int) -> Bool {
        guard isReadable || pace.mustReadOn, wantsRead, !pace.isResting(at: now) else { return false }
        pace.visitBegan()
        return true
    }

    /// Ends the reading of this visit.
    ///
    /// - Parameter hasMore: Whether reading stopped although there may be more bytes.
    mutating func endedReading(hasMore: Bool, at now: Int) {
        pace.visitEnded(hasMore: hasMore, mayRest: phase == .open, at: now)
    }

    // MARK: Events of the network

    /// Handles the opening of the connection. The request may then be sent.
    mutating func connected(at now: Int) {
        guard phase == .connecting, let handshake else { return }
        outbox.append(handshake.requestBytes)
        move(to: .handshaking, at: now)
    }

    mutating func received(_ bytes: UnsafeRawBufferPointer, at now: Int) {
        var rest = bytes
        pace.read(bytes.count)
        heard(at: now)
        if phase == .handshaking {
            do throws(WebSocketError) {
                try receivedAnswer(&rest, at: now)
            } catch {
                failed(error.error(at: .responseHead, host: host))
            }
        }
        if phase == .open, !rest.isEmpty {
            hasHeard = true
            demand = nil
        }
        if let output = codec?.receivedBytes(rest) { take(output, at: now) }
    }

    private mutating func receivedAnswer(_ rest: inout UnsafeRawBufferPointer, at now: Int) throws(WebSocketError) {
        let hadHead = handshake?.refusedSoFar != nil
        let answer = try handshake?.receivedBytes(&rest)
        if case .opened(_, let compression)? = answer {
            codec = WebSocketCodec(
                limits: limits, compression: compression, nextMaskingKey: nextMaskingKey)
            handshake = nil
            move(to: .open, at: now)
        }
        opening = answer.map { .success($0) }
        if case .refused? = answer { over() }
        // The time for the body begins with the head.
        if !hadHead, handshake?.refusedSoFar != nil { since = now }
    }

    private mutating func take(_ output: WebSocketCodec.Output, at now: Int) {
        outbox.append(output.bytes, isAnswer: true)
        if !output.messages.isEmpty, end == nil {
            pace.readMessages()
            inboxBytes += output.messages.reduce(0) { $0 + $1.byteCount + Self.bytesPerMessage }
            if messages.isEmpty { messages = output.messages } else { messages += output.messages }
        }
        if let ending = output.end {
            end = end ?? ending.mapError { $0.error(at: .message, host: host) }
            move(to: .lingering, at: now)
        }
    }

    /// Handles the end of the peer's side of the connection, or of a connection that broke.
    mutating func connectionEnded() {
        if phase == .handshaking {
            answerEnded(
                error(.connectionLost, .responseHead, "it closed the connection before its answer was complete"))
        } else {
            failed(error(.connectionLost, .message, "the connection ended without a close frame"))
        }
    }

    /// Handles the case that there is currently nothing to read. If writing has also failed, this is the end.
    mutating func nothingToRead() { if isWriteBroken { connectionEnded() } }

    /// Records that the socket accepted `count` bytes. If it was blocked before, this is a sign of life.
    ///
    /// - Parameter wasBlocked: Whether the socket was blocked, or `nil` if the outbox knows.
    mutating func wrote(_ count: Int, at now: Int, wasBlocked: Bool? = nil) {
        let hadBlocked = outbox.took(count)
        if wasBlocked ?? hadBlocked { heard(at: now) }
    }

    mutating func writingBroke() {
        isWriteBroken = true
        pace.mustReadOn = true
        outbox.clear()
    }

    /// Ends a connection that has failed. Messages that arrived before are still delivered.
    mutating func failed(_ error: ChappieTransportError) {
        opening = opening ?? .failure(error)
        end = end ?? .failure(error)
        over()
    }

    /// Ends the handshake, because no more bytes of the answer will arrive.
    private mutating func answerEnded(_ error: ChappieTransportError) {
        opening = handshake?.refusedSoFar.map { .success($0) }
        failed(error)
    }

    // MARK: Time

    /// The time of the loop's next visit, whatever the socket and the callers do.
    var deadline: Int? {
        switch phase {
        case .connecting: since + deadlines.connect.nanoseconds
        case .handshaking:
            since + (handshake?.refusedSoFar == nil ? deadlines.upgrade : Self.refusalAllowance).nanoseconds
        case .open: isFull ? nil : demand?.until ?? (pinged ?? since) + liveness / 2
        case .closing: since + Self.closeAllowance.nanoseconds
        case .lingering: since + Self.lingerAllowance.nanoseconds
        case .ended: nil
        }
    }

    /// Handles a deadline that has passed.
    ///
    /// - Parameter connectTimeOut: A closure that creates the error for a connection that was not opened in time.
    mutating func timeHasPassed(until now: Int, connectTimeOut: (Duration) -> ChappieTransportError) {
        guard let deadline, now >= deadline else { return }
        switch phase {
        case .connecting: failed(connectTimeOut(deadlines.connect))
        case .handshaking: answerEnded(timeOut(.responseHead, "no response head", after: deadlines.upgrade))
        case .open where demand != nil:
            let stage: ChappieTransportError.Stage = hasHeard ? .liveness : .firstByte
            failed(timeOut(stage, "not even an answer to a ping", after: demand?.allowance ?? .zero))
        // The peer has been silent for half of the allowed time, so it is asked for a sign of life.
        case .open where pinged == nil:
            outbox.append(codec?.ping() ?? [])
            pinged = now
        case .open: failed(timeOut(.liveness, "not even an answer to a ping", after: deadlines.liveness))
        case .closing, .lingering, .ended: connectionEnded()
        }
    }

    private mutating func heard(at now: Int) { if phase == .open { move(to: .open, at: now) } }

    private mutating func move(to phase: Phase, at now: Int) {
        self.phase = phase
        since = now
        pinged = nil
    }

    // MARK: The callers' questions and commands

    /// Whether messages can be sent and received, as far as is known.
    var isOpen: Bool { phase == .open }

    /// Queues `message`.
    ///
    /// - Returns: The argument for ``isWritten(_:at:)``, or `nil` if there is no room for the message yet. The result
    ///   is a failure after the connection's end, and for a message over the limit, of which no part is sent.
    mutating func send(_ message: WebSocketMessage) -> Result<Int, any Error>? {
        guard isOpen else {
            if case .failure(let error) = end { return .failure(error) }
            return .failure(error(.connectionLost, .request, "the WebSocket is closed"))
        }
        guard message.byteCount > limits.frameBytes || outbox.hasRoom(for: message.byteCount) else { return nil }
        do throws(WebSocketError) {
            outbox.append(try codec?.send(message) ?? [])
        } catch {
            return .failure(error.error(at: .request, host: host))
        }
        pace.messageSent()
        return .success(outbox.queuedTotal)
    }

    /// Returns whether a sender may stop waiting. That is the case if everything up to `end` is written, if nothing is
    /// sent any more, if the socket has accepted nothing for as long as a peer may be silent, or if the inbox is full.
    /// In the final case, the peer may not continue reading until its messages are received, perhaps by the sender's
    /// own task.
    func isWritten(_ end: Int, at now: Int) -> Bool {
        outbox.writtenTotal >= end || !isOpen || isFull || writingDeadline.map { now >= $0 } ?? false
    }

    /// The time at which a sender stops waiting for a blocked socket. The peer may still be alive, and its receiver has
    /// a deadline.
    var writingDeadline: Int? { outbox.blockedSince.map { $0 + liveness } }

    /// Returns the messages that a receiver gets without waiting, or the end. Returns `nil` if the receiver has to
    /// wait.
    mutating func takeInbound(at now: Int) -> Result<WebSocketInbound, any Error>? {
        guard !messages.isEmpty else {
            // A receiver that then releases the connection would drop the answer to the peer's close frame.
            guard phase != .lingering || outbox.isEmpty || isWriteBroken else { return nil }
            return end.map { $0.map { .closed($0) }.mapError { $0 } }
        }
        if isFull {
            // Reading continues. The liveness deadline starts again at this point.
            pace.mustReadOn = true
            heard(at: now)
        }
        defer { discardInbox() }
        return .success(.messages(messages))
    }

    /// Sends a ping that the peer must answer within `allowance`, with any byte.
    mutating func ping(within allowance: Duration, at now: Int) {
        guard isOpen else { return }
        outbox.append(codec?.ping() ?? [])
        pinged = pinged ?? now
        demand = (now + allowance.nanoseconds, allowance)
    }

    /// The peer's answer to the most recent ping, or the connection's end. It is `nil` if the caller has to wait.
    var pingAnswer: Result<Void, any Error>? {
        if isOpen { return demand == nil ? .success(()) : nil }
        if case .failure(let error) = end { return .failure(error) }
        return .failure(error(.connectionLost, .message, "the WebSocket is closed"))
    }

    /// Begins the closing handshake if the connection is open.
    mutating func close(_ reason: WebSocketCloseReason, at now: Int) {
        guard isOpen else { return }
        outbox.append(codec?.close(reason) ?? [])
        pace.endRest()
        move(to: .closing, at: now)
    }

    /// Ends the connection at once, because the caller releases it. Nothing more is delivered.
    mutating func drop() {
        guard !isOver else { return }
        opening = opening ?? .failure(CancellationError())
        discardInbox()
        failed(error(.connectionLost, .message, "the connection was dropped on this side"))
    }

    private mutating func discardInbox() {
        messages = []
        inboxBytes = 0
    }

    /// Ends all writing and reading.
    private mutating func over() {
        handshake = nil
        codec = nil
        outbox.clear()
        phase = .ended
    }

    // MARK: Errors

    func timeOut(
        _ stage: ChappieTransportError.Stage, _ missing: String, after allowance: Duration
    ) -> ChappieTransportError {
        error(.timedOut, stage, "\(missing) within \(allowance.words)")
    }

    private func error(
        _ code: ChappieTransportError.Code, _ stage: ChappieTransportError.Stage, _ reason: String
    ) -> ChappieTransportError {
        ChappieTransportError(code, stage: stage, host: host, reason: reason)
    }
}
