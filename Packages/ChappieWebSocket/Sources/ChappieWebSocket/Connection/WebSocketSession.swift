import ChappieCore
import HTTPTypes

/// One connection from the first attempt to its end: handshake, messages both ways, closing, or the body of a refusal.
///
/// It knows no socket, no clock and no task. What happens comes in with its time, what is to be sent lies in the outbox,
/// and whoever waited for something is in ``takeWakeups()``, to be told once the lock around it is let go.
struct WebSocketSession: ~Copyable {
    /// What the handshake led to.
    enum Opening: Sendable {
        case opened(HTTPFields)
        case refused(HTTPResponse.Status, HTTPFields)
    }

    typealias OpeningResume = @Sendable (Result<Opening, any Error>) -> Void

    let limits: WebSocketLimits
    let fault: WebSocketFault
    var lifetime: WebSocketLifetime
    var outbox = WebSocketOutbox()
    var inbox: WebSocketInbox
    var refusal = RefusalInbox()
    let keys = MaskingKeys()

    // What understands the peer's bytes; one of the three at a time, none at the end.
    var handshake: WebSocketHandshake?
    var codec: WebSocketCodec?
    var body: ResponseBodyDecoder?

    /// Reading was left off, not ended: there may be bytes that no socket tells of.
    private var mustReadOn = false
    /// The socket takes nothing any more; what the peer said before that may still be there to read.
    private(set) var isWriteBroken = false
    /// The moment of the next visit that the loop has been told.
    var promisedVisit: Duration?

    var opening: Result<Opening, any Error>?
    var opener: OpeningResume?
    var closers: [(id: Int, resume: @Sendable () -> Void)] = []
    private var wakeups: [@Sendable () -> Void] = []
    private var isPaused = false
    private var lastID = 0

    /// - Parameters:
    ///   - handshake: not sent yet.
    ///   - host: how errors name the peer.
    ///   - now: when the attempt to connect begins.
    init(
        _ handshake: consuming WebSocketHandshake, host: String, deadlines: ChappieDeadlines,
        limits: WebSocketLimits, startedAt now: Duration
    ) {
        self.limits = limits
        fault = WebSocketFault(host: host)
        lifetime = WebSocketLifetime(deadlines: deadlines, startedAt: now)
        inbox = WebSocketInbox(host: host)
        self.handshake = consume handshake
    }

    // MARK: What the loop asks

    /// Whether nothing is left to do on the socket.
    var isOver: Bool { lifetime.phase == .ended }

    var wantsRead: Bool {
        switch lifetime.phase {
        case .connecting, .ended: false
        case .handshaking, .lingering: true
        // A peer that takes no answers is not heard either, so that its silence ends the connection in time.
        case .open, .closing: !inbox.isFull && !outbox.owesTooMuch
        case .refusedHead, .refusedBody: !refusal.isFull
        }
    }

    var wantsWrite: Bool { !outbox.isEmpty }

    /// When the loop has to come by, whatever the socket does.
    var deadline: Duration? { [lifetime.deadline, inbox.deadline].compactMap(\.self).min() }

    /// Whether to read although the socket has not called for it.
    var readsOn: Bool { mustReadOn && wantsRead }

    /// The same, for a caller that does so at once.
    mutating func takeReadAttempt() -> Bool {
        guard readsOn else { return false }
        mustReadOn = false
        return true
    }

    /// Reading stopped before there was nothing more.
    mutating func leftOffReading() { mustReadOn = true }

    // MARK: What the network does

    /// The connection stands; the request may go out.
    mutating func connected(at now: Duration) {
        guard lifetime.phase == .connecting, let request = handshake?.requestBytes else { return }
        outbox.append(request)
        lifetime.connected(at: now)
    }

    mutating func received(_ bytes: UnsafeRawBufferPointer, at now: Duration) {
        lifetime.heard(at: now)
        if codec != nil {
            receivedFrames(bytes, at: now)
        } else if let handshake = handshake.take() {
            do throws(WebSocketHandshakeError) {
                try answered(handshake.receivedBytes(bytes), at: now)
            } catch {
                failed(fault.error(for: error))
            }
        } else if body != nil {
            receivedBody(bytes)
        }
    }

    /// The peer has ended its side of the connection.
    mutating func connectionEnded(at now: Duration) {
        if let codec = codec.take() {
            var codec = codec
            act(on: codec.connectionClosed(), at: now)
        } else if let handshake = handshake.take() {
            failed(fault.error(for: handshake.connectionClosed()))
        } else {
            do throws(WebSocketHandshakeError) {
                try body?.connectionClosed()
                refusal.finished()
            } catch {
                refusal.failed(fault.error(for: error, inBody: true))
            }
        }
        over()
    }

    /// The connection broke.
    mutating func connectionBroke() {
        switch lifetime.phase {
        case .connecting, .handshaking: failed(fault.lost(.responseHead))
        case .refusedHead, .refusedBody: failed(fault.lost(.responseBody))
        case .open, .closing, .lingering, .ended: failed(fault.lost(.message))
        }
    }

    /// The socket took that many bytes.
    mutating func wrote(_ count: Int, at now: Duration) {
        if outbox.took(count) { lifetime.heard(at: now) }
    }

    mutating func writingBroke() {
        isWriteBroken = true
        outbox.clear()
    }

    /// It can't go on. The first end counts; what has arrived before is still delivered.
    mutating func failed(_ error: ChappieTransportError) {
        opening = opening ?? .failure(error)
        inbox.ended(.failed(error))
        refusal.failed(error)
        over()
    }

    /// Time has passed.
    ///
    /// - Parameter connectTimeOut: what to say of a connection that does not come about in the time given.
    mutating func tick(at now: Duration, connectTimeOut: (Duration) -> ChappieTransportError) {
        switch lifetime.due(at: now) {
        case nil: break
        case .ping:
            outbox.append(codec?.ping(nextMaskingKey: keys.next) ?? [])
            lifetime.pinged()
        case .timeOut(.connect, let allowance): failed(connectTimeOut(allowance))
        case .timeOut(let stage, let allowance): failed(fault.timeOut(stage, after: allowance))
        case .closeOverdue: failed(fault.lost(.message))
        }
    }

    /// The round is over: notes who can be told something, and whether reading has to wait.
    mutating func settle(at now: Duration) {
        let isFull = inbox.isFull || refusal.isFull
        if isFull != isPaused {
            isPaused = isFull
            if isFull {
                leftOffReading()
                lifetime.paused()
            } else {
                lifetime.resumed(at: now)
            }
        }
        tellWaiters(at: now)
    }

    // MARK: Who is told

    /// What to do once the lock is let go.
    mutating func takeWakeups() -> [@Sendable () -> Void] {
        defer { wakeups = [] }
        return wakeups
    }

    mutating func later(_ wakeup: @escaping @Sendable () -> Void) { wakeups.append(wakeup) }

    mutating func newID() -> Int {
        lastID += 1
        return lastID
    }

    /// - Parameter now: for the receiver's deadline; `nil` where it is not looked at.
    mutating func tellWaiters(at now: Duration?) {
        if let opening, let opener = opener.take() { later { opener(opening) } }
        if let (resume, result) = inbox.delivery(at: now) { later { resume(result) } }
        if let (resume, result) = refusal.delivery() { later { resume(result) } }
        let noMoreGoesOut = codec == nil || lifetime.phase != .open
        for resume in outbox.release(all: noMoreGoesOut) { later { resume(.success(())) } }
        if isOver {
            for closer in closers { later(closer.resume) }
            closers = []
        }
    }

    // MARK: What the peer says

    private mutating func answered(
        _ progress: consuming WebSocketHandshake.Progress, at now: Duration
    ) throws(WebSocketHandshakeError) {
        switch consume progress {
        case .needsMore(let waiting): handshake = consume waiting
        case .opened(let upgrade):
            codec = WebSocketCodec(limits: limits, compression: upgrade.compression)
            opening = .success(.opened(upgrade.headerFields))
            lifetime.opened(at: now)
            upgrade.leftover.withUnsafeBytes { receivedFrames($0, at: now) }
        case .refused(let answer):
            opening = .success(.refused(answer.status, answer.headerFields))
            lifetime.refused(at: now)
            body = answer.body
            if !answer.received.isEmpty { lifetime.heard(at: now) }
            refusal.received(answer.received)
            endBodyIfComplete()
        }
    }

    private mutating func receivedFrames(_ bytes: UnsafeRawBufferPointer, at now: Duration) {
        let actions = codec?.receivedBytes(bytes, nextMaskingKey: keys.next) ?? []
        act(on: actions, at: now)
    }

    private mutating func act(on actions: [WebSocketCodec.Action], at now: Duration) {
        for action in actions {
            switch action {
            case .send(let bytes):
                outbox.append(answer: bytes)
                if outbox.owesTooMuch { leftOffReading() }
            case .deliver(let messages): inbox.received(messages)
            case .peerClosed(let closure):
                inbox.ended(.closed(closure))
                lifetime.finished(at: now)
            case .fail(let problem):
                inbox.ended(.failed(fault.error(for: problem)))
                lifetime.finished(at: now)
            }
        }
    }

    private mutating func receivedBody(_ bytes: UnsafeRawBufferPointer) {
        do throws(WebSocketHandshakeError) {
            refusal.received(try body?.receivedBytes(bytes) ?? [])
            endBodyIfComplete()
        } catch {
            failed(fault.error(for: error, inBody: true))
        }
    }

    private mutating func endBodyIfComplete() {
        guard body?.isComplete == true else { return }
        refusal.finished()
        over()
    }

    /// Nothing more is written or read.
    mutating func over() {
        handshake = nil
        codec = nil
        body = nil
        outbox.clear()
        lifetime.ended()
    }
}
