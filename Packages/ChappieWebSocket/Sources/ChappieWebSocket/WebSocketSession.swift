@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieCurl

/// One WebSocket from the first attempt to its end: handshake, messages both ways, closing; by when something must happen
/// next, and when to read.
///
/// It knows no socket, no clock and no task. What happens comes in with its time, in nanoseconds of the loop's clock; what
/// is to be sent is in the outbox; what the users wait for, they ask for again after each change.
struct WebSocketSession {
    enum Phase: Hashable {
        /// Resolving, connecting, the proxy's and the TLS handshake. Next: handshaking, ended.
        case connecting
        /// The request for the upgrade is going out, its answer is not whole. Next: open, ended.
        case handshaking
        /// Next: closing, lingering, ended.
        case open
        /// Our close frame is out or queued, the peer's has not come. Next: lingering, ended.
        case closing
        /// Both sides are through; what is queued goes out, and the peer is left the time to close the connection first
        /// (RFC 6455, 7.1.1). Next: ended.
        case lingering
        case ended
    }

    /// How long the body of a refusal may take once its head has come.
    static let refusalAllowance = Duration.seconds(5)
    /// How long a closing handshake may take, queued messages included.
    static let closeAllowance = Duration.seconds(5)
    /// How long the peer is left to close the connection once the closing handshake is over.
    static let lingerAllowance = Duration.seconds(1)
    /// From this much on that waits for its receiver, nothing more is read from the socket. What is read already is kept,
    /// however much it is: a message larger than this would never come otherwise.
    static let inboxLimitBytes = 4 << 20
    /// The memory that a message takes beside its payload, so that many small ones count as well.
    private static let bytesPerMessage = 64

    /// How errors name the peer.
    private let host: String
    private let deadlines: ChappieDeadlines
    private let limits: WebSocketLimits
    /// In nanoseconds: it is looked at several times for each packet.
    private let liveness: Int

    private(set) var phase = Phase.connecting
    /// When the phase began, or the last sign of life came within it.
    private var since: Int
    private var hasPinged = false

    var outbox = WebSocketOutbox()
    /// The socket takes nothing any more; what the peer said before that may still be there to read.
    private var isWriteBroken = false

    // The readers of the peer's bytes; one of the two at a time, none at the end.
    private var handshake: WebSocketHandshake?
    private var codec: WebSocketCodec?

    /// The answer to the handshake, or why there is none.
    private(set) var opening: Result<WebSocketHandshake.Answer, any Error>?
    private var messages: [WebSocketMessage] = []
    private var inboxBytes = 0
    /// How the connection ended for the receiver. The first one counts.
    private var end: Result<WebSocketCloseReason, ChappieTransportError>?

    /// There may be bytes that the socket does not tell of: reading was left off, or they are inside TLS.
    private var mustReadOn = false
    private var restUntil: Int?
    private var lastMessagesAt: Int?
    // Of one visit.
    private var readBytes = 0
    private var hasReadMessages = false

    /// - Parameters:
    ///   - handshake: not sent yet.
    ///   - now: when the attempt to connect begins.
    init(
        _ handshake: WebSocketHandshake, host: String, deadlines: ChappieDeadlines,
        limits: WebSocketLimits = WebSocketLimits(), startedAt now: Int
    ) {
        self.handshake = handshake
        self.host = host
        self.deadlines = deadlines
        self.limits = limits
        liveness = deadlines.liveness.nanoseconds
        since = now
    }

    // MARK: What the loop asks

    /// Whether nothing is left to do on the socket.
    var isOver: Bool { phase == .ended }

    /// The receiver is behind: nothing is read, so nothing can be heard.
    private var isFull: Bool { inboxBytes >= Self.inboxLimitBytes }

    var wantsRead: Bool {
        switch phase {
        case .connecting, .ended: false
        case .handshaking, .lingering: true
        // A peer that takes no answers is not heard either, so that its silence ends the connection in time.
        case .open, .closing: !isFull && !outbox.owesTooMuch
        }
    }

    /// The events to wait for until the next visit.
    ///
    /// - Parameter deadline: when a user wants to be told of the time.
    func verdict(at now: Int, deadline usersDeadline: Int?) -> LoopVerdict {
        guard !isOver else { return .leave }
        var until = min(deadline ?? .max, usersDeadline ?? .max)
        for case let moment? in [restUntil, writingDeadline] where moment > now { until = min(until, moment) }
        // Something that no socket will tell of: bytes inside TLS; a ping that has only just been queued.
        if phase != .connecting, shouldReadOn(at: now) || !outbox.isEmpty && outbox.blockedSince == nil { until = now }
        return .stay(
            reads: wantsRead && !isResting(at: now), writes: !outbox.isEmpty, until: until == .max ? nil : until)
    }

    /// Whether to read although the socket has not called for it.
    func shouldReadOn(at now: Int) -> Bool { mustReadOn && wantsRead && !isResting(at: now) }

    private func isResting(at now: Int) -> Bool { restUntil.map { now < $0 } ?? false }

    /// Whether to read now.
    ///
    /// - Parameter isReadable: the socket says that there is something.
    mutating func beginsReading(isReadable: Bool, at now: Int) -> Bool {
        guard isReadable || mustReadOn, wantsRead, !isResting(at: now) else { return false }
        (mustReadOn, restUntil, readBytes, hasReadMessages) = (false, nil, 0, false)
        return true
    }

    /// Reading has come to its end for this visit.
    ///
    /// - Parameter hasMore: whether it stopped although there may be more.
    mutating func endedReading(hasMore: Bool, at now: Int) {
        mustReadOn = mustReadOn || hasMore
        guard hasReadMessages else { return }
        // TLS gives one record at a time: a visit that stopped at its bound has not emptied the line.
        if !hasMore, let lastMessagesAt, now - lastMessagesAt <= Burst.gap, readBytes < Burst.bulkBytes,
            phase == .open
        {
            restUntil = now + Burst.rest
            mustReadOn = true
        }
        lastMessagesAt = now
    }

    // MARK: What the network does

    /// The connection stands; the request may go out.
    mutating func connected(at now: Int) {
        guard phase == .connecting, let handshake else { return }
        outbox.append(handshake.requestBytes)
        move(to: .handshaking, at: now)
    }

    mutating func received(_ bytes: UnsafeRawBufferPointer, at now: Int) {
        var rest = bytes
        readBytes += bytes.count
        heard(at: now)
        if phase == .handshaking {
            do throws(WebSocketError) {
                try receivedAnswer(&rest, at: now)
            } catch {
                failed(error.error(at: .responseHead, host: host))
            }
        }
        if let output = codec?.receivedBytes(rest) { take(output, at: now) }
    }

    private mutating func receivedAnswer(_ rest: inout UnsafeRawBufferPointer, at now: Int) throws(WebSocketError) {
        let hadHead = handshake?.refusedSoFar != nil
        let answer = try handshake?.receivedBytes(&rest)
        if case .opened(_, let compression)? = answer {
            codec = WebSocketCodec(
                limits: limits, compression: compression, nextMaskingKey: { .random(in: .min ... .max) })
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
            hasReadMessages = true
            inboxBytes += output.messages.reduce(0) { $0 + $1.byteCount + Self.bytesPerMessage }
            if messages.isEmpty { messages = output.messages } else { messages += output.messages }
        }
        if let ending = output.end {
            end = end ?? ending.mapError { $0.error(at: .message, host: host) }
            move(to: .lingering, at: now)
        }
    }

    /// The peer has ended its side of the connection, or it broke.
    mutating func connectionEnded() {
        if phase == .handshaking {
            answerEnded(error(.connectionLost, .responseHead, "it closed the connection before its answer was whole"))
        } else {
            failed(error(.connectionLost, .message, "the connection ended without a close frame"))
        }
    }

    /// There is nothing to read at present: the end, where the socket takes nothing either.
    mutating func nothingToRead() { if isWriteBroken { connectionEnded() } }

    /// The socket took that many bytes. Where it had taken no more before, that is a sign of life.
    mutating func wrote(_ count: Int, at now: Int) { if outbox.took(count) { heard(at: now) } }

    mutating func writingBroke() {
        isWriteBroken = true
        mustReadOn = true
        outbox.clear()
    }

    /// It can't go on. What has arrived before is still delivered.
    mutating func failed(_ error: ChappieTransportError) {
        opening = opening ?? .failure(error)
        end = end ?? .failure(error)
        over()
    }

    /// Nothing more of the answer will come.
    private mutating func answerEnded(_ error: ChappieTransportError) {
        opening = handshake?.refusedSoFar.map { .success($0) }
        failed(error)
    }

    // MARK: Time

    /// When the loop has to come by, whatever the socket and the users do.
    var deadline: Int? {
        switch phase {
        case .connecting: since + deadlines.connect.nanoseconds
        case .handshaking:
            since + (handshake?.refusedSoFar == nil ? deadlines.upgrade : Self.refusalAllowance).nanoseconds
        case .open: isFull ? nil : since + (hasPinged ? liveness : liveness / 2)
        case .closing: since + Self.closeAllowance.nanoseconds
        case .lingering: since + Self.lingerAllowance.nanoseconds
        case .ended: nil
        }
    }

    /// - Parameter connectTimeOut: what to say of a connection that does not come about in the time given.
    mutating func timeHasPassed(until now: Int, connectTimeOut: (Duration) -> ChappieTransportError) {
        guard let deadline, now >= deadline else { return }
        switch phase {
        case .connecting: failed(connectTimeOut(deadlines.connect))
        case .handshaking: answerEnded(timeOut(.responseHead, "no response head", after: deadlines.upgrade))
        // The peer has been silent for half of what it may: ask for a sign of life.
        case .open where !hasPinged:
            outbox.append(codec?.ping() ?? [])
            hasPinged = true
        case .open: failed(timeOut(.liveness, "not even an answer to a ping", after: deadlines.liveness))
        case .closing, .lingering, .ended: connectionEnded()
        }
    }

    private mutating func heard(at now: Int) { if phase == .open { move(to: .open, at: now) } }

    private mutating func move(to phase: Phase, at now: Int) {
        self.phase = phase
        since = now
        hasPinged = false
    }

    // MARK: What the users ask and do

    /// Whether messages can go out and come in, as far as is known.
    var isOpen: Bool { phase == .open }

    /// Queues `message`.
    ///
    /// - Returns: what ``isWritten(_:at:)`` takes; `nil` when there is no room for it yet. Fails with the connection's end,
    ///   and for a message over the limit, of which nothing goes out.
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
        // The answer to it is not made to wait.
        (lastMessagesAt, restUntil) = (nil, nil)
        return .success(outbox.queuedTotal)
    }

    /// Whether everything up to `end` is written, or nothing more is to be waited for: nothing goes out any more, the socket
    /// takes nothing for as long as a peer may be silent, or so much has come that the peer may read no more before it is
    /// received, perhaps by the sender's own task.
    func isWritten(_ end: Int, at now: Int) -> Bool {
        outbox.writtenTotal >= end || !isOpen || isFull || writingDeadline.map { now >= $0 } ?? false
    }

    /// When a sender stops waiting for a socket that takes nothing. The peer may live, and its receiver has a deadline.
    var writingDeadline: Int? { outbox.blockedSince.map { $0 + liveness } }

    /// The messages that a receiver gets without waiting, or the end; `nil` when it has to wait.
    mutating func takeInbound(at now: Int) -> Result<WebSocketInbound, any Error>? {
        guard !messages.isEmpty else { return end.map { $0.map { .closed($0) }.mapError { $0 } } }
        if isFull {
            // Reading goes on. A peer is expected to live from when it is heard again.
            mustReadOn = true
            heard(at: now)
        }
        defer { discardInbox() }
        return .success(.messages(messages))
    }

    /// Begins the closing handshake, if there is something to close.
    mutating func close(_ reason: WebSocketCloseReason, at now: Int) {
        guard isOpen else { return }
        outbox.append(codec?.close(reason) ?? [])
        restUntil = nil
        move(to: .closing, at: now)
    }

    /// The user lets go of the connection: everything ends at once, and nothing more is delivered.
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

    /// Nothing more is written or read.
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
