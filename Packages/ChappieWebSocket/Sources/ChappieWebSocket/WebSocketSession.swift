@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieCurl
import HTTPTypes

/// One WebSocket from the first attempt to its end: handshake, messages both ways, closing, or the body of a refusal; by
/// when something must happen next, and when to read.
///
/// It knows no socket, no clock and no task. What happens comes in with its time, in nanoseconds of the loop's clock; what
/// is to be sent is in the outbox; what the users wait for, they ask for again after each change.
struct WebSocketSession: ~Copyable {
    /// The outcome of the handshake.
    enum Opening: Sendable {
        case opened(HTTPFields)
        case refused(HTTPResponse.Status, HTTPFields)
    }

    enum Phase: Hashable {
        /// Resolving, connecting, the proxy's and the TLS handshake. Next: handshaking, ended.
        case connecting
        /// The request for the upgrade is going out, its answer has not come. Next: open, refusedHead, ended.
        case handshaking
        /// Next: closing, lingering, ended.
        case open
        /// Our close frame is out or queued, the peer's has not come. Next: lingering, ended.
        case closing
        /// Both sides are through; what is queued goes out, and the peer is left the time to close the connection first
        /// (RFC 6455, 7.1.1). Next: ended.
        case lingering
        /// The answer was no upgrade; no byte of its body has come. Next: refusedBody, ended.
        case refusedHead
        /// Next: ended.
        case refusedBody
        case ended
    }

    /// How the connection ended for the receiver.
    private enum End {
        case closed(WebSocketCloseReason)
        case failed(ChappieTransportError)
    }

    /// How long a closing handshake may take, queued messages included.
    static let closeAllowance = Duration.seconds(5)
    /// How long the peer is left to close the connection once the closing handshake is over.
    static let lingerAllowance = Duration.seconds(1)
    /// From this much on that waits for its receiver, nothing more is read from the socket. What is read already is kept,
    /// however much it is: a message larger than this would never come otherwise.
    static let inboxLimitBytes = 4 << 20
    /// The memory that a message takes beside its payload, so that many small ones count as well.
    private static let bytesPerMessage = 64
    /// How long the socket is left alone while messages come in a burst: many of them are then one read. Servers send
    /// each message in a packet of its own, and the number of reads decides what they cost.
    static let rest = 2_000_000
    /// Messages that come no further apart than this are a burst; twice as long as the rest, since timers are late.
    static let burstGap = 4_000_000
    /// A read of this much says that the peer fills the line; it is not made to wait.
    private static let bulkBytes = 64 << 10

    /// How long the phases may take, in nanoseconds, and in the words that errors need.
    private struct Allowances {
        let deadlines: ChappieDeadlines
        let liveness, halfLiveness, firstByte, idle: Int

        init(_ deadlines: ChappieDeadlines) {
            self.deadlines = deadlines
            liveness = deadlines.liveness.nanoseconds
            halfLiveness = liveness / 2
            firstByte = deadlines.firstByte.nanoseconds
            idle = deadlines.idle.nanoseconds
        }
    }

    private let limits: WebSocketLimits
    private let fault: WebSocketFault
    private let allowances: Allowances
    private let keys = MaskingKeys()

    private(set) var phase = Phase.connecting
    /// When the phase began, or the last sign of life came within it.
    private var since: Int
    private var hasPinged = false
    /// The receiver is behind: nothing is read, so nothing can be heard.
    private var isPaused = false

    var outbox = WebSocketOutbox()
    /// The socket takes nothing any more; what the peer said before that may still be there to read.
    private var isWriteBroken = false

    // The readers of the peer's bytes; one of the three at a time, none at the end.
    private var handshake: WebSocketHandshake?
    private var codec: WebSocketCodec?
    private var refusal: RefusalBody?

    /// The answer to the handshake, or why there is none.
    private(set) var opening: Result<Opening, any Error>?
    private var messages: [WebSocketMessage] = []
    private var inboxBytes = 0
    /// The first one counts.
    private var end: End?
    private var body: [UInt8] = []
    private var bodyEnd: Result<Void, any Error>?

    /// There may be bytes that the socket does not tell of: reading was left off, or they are inside TLS.
    private var mustReadOn = false
    private var restUntil: Int?
    private var lastMessagesAt: Int?
    private var readBytes = 0
    private var hasReadMessages = false

    /// - Parameters:
    ///   - handshake: not sent yet.
    ///   - host: how errors name the peer.
    ///   - now: when the attempt to connect begins.
    init(
        _ handshake: consuming WebSocketHandshake, host: String, deadlines: ChappieDeadlines,
        limits: WebSocketLimits, startedAt now: Int
    ) {
        self.limits = limits
        fault = WebSocketFault(host: host)
        allowances = Allowances(deadlines)
        since = now
        self.handshake = consume handshake
    }

    // MARK: What the loop asks

    /// Whether nothing is left to do on the socket.
    var isOver: Bool { phase == .ended }

    private var isFull: Bool { inboxBytes >= Self.inboxLimitBytes }

    var wantsRead: Bool {
        switch phase {
        case .connecting, .ended: false
        case .handshaking, .lingering, .refusedHead, .refusedBody: true
        // A peer that takes no answers is not heard either, so that its silence ends the connection in time.
        case .open, .closing: !isFull && !outbox.owesTooMuch
        }
    }

    var wantsWrite: Bool { !outbox.isEmpty }

    /// The events to wait for until the next visit.
    ///
    /// - Parameter deadline: when a user wants to be told of the time.
    func verdict(at now: Int, deadline usersDeadline: Int?) -> LoopVerdict {
        guard !isOver else { return .leave }
        var moment = min(self.deadline ?? .max, usersDeadline ?? .max)
        let isResting = isResting(at: now)
        if isResting, let restUntil { moment = min(moment, restUntil) }
        // Something that no socket will tell of: bytes inside TLS; a ping that has only just been queued.
        if phase != .connecting, shouldReadOn(at: now) || wantsWrite && outbox.blockedSince == nil { moment = now }
        return .stay(reads: wantsRead && !isResting, writes: wantsWrite, until: moment == .max ? nil : moment)
    }

    /// Whether to read although the socket has not called for it.
    func shouldReadOn(at now: Int) -> Bool { mustReadOn && wantsRead && !isResting(at: now) }

    private func isResting(at now: Int) -> Bool { restUntil.map { now < $0 } ?? false }

    /// Whether to read now.
    ///
    /// - Parameter isReadable: the socket says that there is something.
    mutating func beginsReading(isReadable: Bool, at now: Int) -> Bool {
        guard wantsRead, shouldReadOn(at: now) || isReadable && !isResting(at: now) else { return false }
        (mustReadOn, restUntil, readBytes, hasReadMessages) = (false, nil, 0, false)
        return true
    }

    /// Reading has come to its end for this visit.
    ///
    /// - Parameter hasMore: whether it stopped although there may be more.
    mutating func endedReading(hasMore: Bool, at now: Int) {
        mustReadOn = hasMore
        guard hasReadMessages else { return }
        // TLS gives one record at a time: a visit that stopped at its bound has not emptied the line.
        if !hasMore, let lastMessagesAt, now - lastMessagesAt <= Self.burstGap, readBytes < Self.bulkBytes,
            phase == .open
        {
            restUntil = now + Self.rest
            mustReadOn = true
        }
        lastMessagesAt = now
    }

    // MARK: What the network does

    /// The connection stands; the request may go out.
    mutating func connected(at now: Int) {
        guard phase == .connecting, let request = handshake?.requestBytes else { return }
        outbox.append(request)
        move(to: .handshaking, at: now)
    }

    mutating func received(_ bytes: UnsafeRawBufferPointer, at now: Int) {
        readBytes += bytes.count
        heard(at: now)
        if codec != nil {
            receivedFrames(bytes, at: now)
        } else if let handshake = handshake.take() {
            do throws(WebSocketHandshakeError) {
                try answered(handshake.receivedBytes(bytes), at: now)
            } catch {
                failed(fault.error(for: error))
            }
        } else if refusal != nil {
            receivedBody(bytes)
        }
    }

    /// The peer has ended its side of the connection.
    mutating func connectionEnded(at now: Int) {
        if let codec = codec.take() {
            var codec = codec
            act(on: codec.connectionClosed(), at: now)
        } else if let handshake = handshake.take() {
            failed(fault.error(for: handshake.connectionClosed()))
        } else {
            do throws(WebSocketHandshakeError) {
                try refusal?.connectionClosed()
                endBody(.success(()))
            } catch {
                endBody(.failure(fault.error(for: error, inBody: true)))
            }
        }
        over()
    }

    /// The connection broke.
    mutating func connectionBroke() {
        switch phase {
        case .connecting, .handshaking: failed(fault.lost(.responseHead))
        case .refusedHead, .refusedBody: failed(fault.lost(.responseBody))
        case .open, .closing, .lingering, .ended: failed(fault.lost(.message))
        }
    }

    /// There is nothing to read at present: the end, where the socket takes nothing either.
    mutating func nothingToRead() { if isWriteBroken { connectionBroke() } }

    /// The socket took that many bytes. Where it had taken no more before, that is a sign of life.
    mutating func wrote(_ count: Int, at now: Int) { if outbox.took(count) { heard(at: now) } }

    mutating func writingBroke() {
        isWriteBroken = true
        mustReadOn = true
        outbox.clear()
    }

    /// It can't go on. The first end counts; what has arrived before is still delivered.
    mutating func failed(_ error: ChappieTransportError) {
        opening = opening ?? .failure(error)
        end = end ?? .failed(error)
        endBody(.failure(error))
        over()
    }

    /// A round is over: looks at the clock, and whether reading has to wait for the receiver.
    ///
    /// - Parameter connectTimeOut: what to say of a connection that does not come about in the time given.
    mutating func settle(at now: Int, connectTimeOut: (Duration) -> ChappieTransportError) {
        if let deadline, now >= deadline { timeHasCome(connectTimeOut) }
        guard isFull != isPaused else { return }
        isPaused = isFull
        // A peer is expected to live from when it is heard again.
        if isPaused { mustReadOn = true } else { heard(at: now) }
    }

    // MARK: Time

    /// When the loop has to come by, whatever the socket and the users do.
    var deadline: Int? {
        switch phase {
        case .connecting: since + allowances.deadlines.connect.nanoseconds
        case .handshaking: since + allowances.deadlines.upgrade.nanoseconds
        case .open: isPaused ? nil : since + (hasPinged ? allowances.liveness : allowances.halfLiveness)
        case .refusedHead: since + allowances.firstByte
        case .refusedBody: since + allowances.idle
        case .closing: since + Self.closeAllowance.nanoseconds
        case .lingering: since + Self.lingerAllowance.nanoseconds
        case .ended: nil
        }
    }

    private mutating func timeHasCome(_ connectTimeOut: (Duration) -> ChappieTransportError) {
        let deadlines = allowances.deadlines
        switch phase {
        case .connecting: failed(connectTimeOut(deadlines.connect))
        case .handshaking: failed(fault.timeOut(.responseHead, after: deadlines.upgrade))
        // The peer has been silent for half of what it may: ask for a sign of life.
        case .open where !hasPinged:
            outbox.append(codec?.ping(nextMaskingKey: keys.next) ?? [])
            hasPinged = true
        case .open: failed(fault.timeOut(.liveness, after: deadlines.liveness))
        case .refusedHead: failed(fault.timeOut(.firstByte, after: deadlines.firstByte))
        case .refusedBody: failed(fault.timeOut(.responseBody, after: deadlines.idle))
        case .closing, .lingering: failed(fault.lost(.message))
        case .ended: break
        }
    }

    private mutating func heard(at now: Int) {
        switch phase {
        case .open: move(to: .open, at: now)
        case .refusedHead, .refusedBody: move(to: .refusedBody, at: now)
        case .connecting, .handshaking, .closing, .lingering, .ended: break
        }
    }

    private mutating func move(to phase: Phase, at now: Int) {
        guard self.phase != .ended else { return }
        self.phase = phase
        since = now
        hasPinged = false
    }

    // MARK: What the users ask and do

    /// Whether messages can go out and come in, as far as is known.
    var isOpen: Bool { phase == .open && end == nil }

    /// Queues `message`.
    ///
    /// - Returns: what ``isWritten(_:at:)`` takes; `nil` when there is no room for it yet. Fails with the connection's end,
    ///   and for a message over the limit, of which nothing goes out.
    mutating func send(_ message: WebSocketMessage) -> Result<Int, any Error>? {
        guard isOpen else {
            if case .failed(let error) = end { return .failure(error) }
            return .failure(fault.error(sending: .closed))
        }
        let tooLarge = WebSocketCodecError.messageTooLarge(limitBytes: limits.maximumFrameBytes)
        guard message.byteCount <= limits.maximumFrameBytes else { return .failure(fault.error(sending: tooLarge)) }
        guard outbox.hasRoom(for: message.byteCount) else { return nil }
        do throws(WebSocketCodecError) {
            guard let frame = try codec?.send(message, nextMaskingKey: keys.next) else { throw .closed }
            outbox.append(frame)
        } catch {
            return .failure(fault.error(sending: error))
        }
        // The answer to it is not made to wait.
        (lastMessagesAt, restUntil) = (nil, nil)
        return .success(outbox.queuedTotal)
    }

    /// Whether everything up to `end` is written, or nothing more is to be waited for: nothing goes out any more, the socket
    /// takes nothing for as long as a peer may be silent, or so much has come that the peer may read no more before it is
    /// received, perhaps by the sender's own task.
    func isWritten(_ end: Int, at now: Int) -> Bool {
        outbox.writtenTotal >= end || codec == nil || phase != .open || isFull
            || writingDeadline.map { now >= $0 } ?? false
    }

    /// When a sender stops waiting for a socket that takes nothing. The peer may live, and its receiver has a deadline.
    var writingDeadline: Int? { outbox.blockedSince.map { $0 + allowances.liveness } }

    /// The messages that a receiver gets without waiting, and whether reading goes on for that; `nil` when it has to wait.
    mutating func takeInbound() -> Result<(WebSocketInbound, Bool), any Error>? {
        if !messages.isEmpty {
            defer { discardInbox() }
            return .success((.messages(messages), isFull))
        }
        return switch end {
        case nil: nil
        case .closed(let reason): .success((.closed(reason), false))
        case .failed(let error): .failure(error)
        }
    }

    /// The receiver's deadline has passed.
    func receiveTimeOut(after allowance: Duration) -> ChappieTransportError {
        fault.timeOut(.message, after: allowance)
    }

    /// The part of a refusal's body that has come; `nil` when its reader has to wait.
    mutating func takeBody() -> Result<[UInt8]?, any Error>? {
        if !body.isEmpty {
            defer { body = [] }
            return .success(body)
        }
        return bodyEnd?.map { nil }
    }

    /// Begins the closing handshake, if there is something to close.
    mutating func close(_ reason: WebSocketCloseReason, at now: Int) {
        guard isOpen else { return }
        outbox.append(codec?.close(reason, nextMaskingKey: keys.next) ?? [])
        restUntil = nil
        move(to: .closing, at: now)
    }

    /// The user lets go of the connection: everything ends at once, and nothing more is delivered.
    mutating func drop() {
        guard !isOver || end == nil else { return }
        opening = opening ?? .failure(CancellationError())
        discardInbox()
        end = end ?? .failed(fault.dropped)
        if case .failure? = bodyEnd {} else { (body, bodyEnd) = ([], .failure(CancellationError())) }
        over()
    }

    private mutating func discardInbox() {
        messages = []
        inboxBytes = 0
    }

    // MARK: What the peer says

    private mutating func answered(
        _ progress: consuming WebSocketHandshake.Progress, at now: Int
    ) throws(WebSocketHandshakeError) {
        switch consume progress {
        case .needsMore(let waiting): handshake = consume waiting
        case .opened(let upgrade):
            codec = WebSocketCodec(limits: limits, compression: upgrade.compression)
            opening = .success(.opened(upgrade.headerFields))
            move(to: .open, at: now)
            upgrade.leftover.withUnsafeBytes { receivedFrames($0, at: now) }
        case .refused(let head, let rest):
            refusal = try RefusalBody(head)
            opening = .success(.refused(head.status, head.headerFields))
            move(to: .refusedHead, at: now)
            if !rest.isEmpty { heard(at: now) }
            rest.withUnsafeBytes { receivedBody($0) }
        }
    }

    private mutating func receivedFrames(_ bytes: UnsafeRawBufferPointer, at now: Int) {
        act(on: codec?.receivedBytes(bytes, nextMaskingKey: keys.next) ?? [], at: now)
    }

    private mutating func act(on actions: [WebSocketCodec.Action], at now: Int) {
        for action in actions {
            switch action {
            case .send(let bytes): outbox.append(answer: bytes)
            case .deliver(let arrived):
                guard end == nil else { break }
                hasReadMessages = true
                inboxBytes += arrived.reduce(0) { $0 + $1.byteCount + Self.bytesPerMessage }
                if messages.isEmpty { messages = arrived } else { messages += arrived }
            case .peerClosed(let reason):
                end = end ?? .closed(reason)
                move(to: .lingering, at: now)
            case .fail(let problem):
                end = end ?? .failed(fault.error(for: problem))
                move(to: .lingering, at: now)
            }
        }
    }

    private mutating func receivedBody(_ bytes: UnsafeRawBufferPointer) {
        do throws(WebSocketHandshakeError) {
            body += try refusal?.receivedBytes(bytes) ?? []
            guard refusal?.isComplete == true else { return }
            endBody(.success(()))
            over()
        } catch {
            failed(fault.error(for: error, inBody: true))
        }
    }

    private mutating func endBody(_ end: Result<Void, any Error>) { bodyEnd = bodyEnd ?? end }

    /// Nothing more is written or read.
    private mutating func over() {
        handshake = nil
        codec = nil
        refusal = nil
        outbox.clear()
        phase = .ended
    }
}

/// Masking keys that can't be predicted (RFC 6455, 10.3), from the system's generator; some at a time, since each call of
/// that is one of the kernel.
private final class MaskingKeys {
    private static let batch = 64

    private var keys: [UInt32] = []

    func next() -> UInt32 {
        if let key = keys.popLast() { return key }
        var generator = SystemRandomNumberGenerator()
        keys = (1..<Self.batch).map { _ in generator.next() }
        return generator.next()
    }
}
