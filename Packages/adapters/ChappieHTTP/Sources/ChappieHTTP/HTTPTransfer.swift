@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieCurl
import HTTPTypes
import Synchronization

/// An exchange on the network loop, which connects curl's callbacks to a reader's task.
///
/// curl's callbacks never resume the reader. The visit at the end of the loop's round does so, so that a hundred small
/// pieces wake a task once.
final class HTTPTransfer: NetworkTransfer {
    /// The state that only the loop's thread reads and changes.
    private struct Traffic {
        var head: CurlResponseHead
        var burst = ReadBurst()
        /// The number of bytes of the request body that curl has read.
        var bodyOffset = 0
        var mustUseHTTP1 = false
    }

    let isConnection = false
    private let plan: RequestPlan
    private let handoff: TransferHandoff
    private let traffic: Mutex<Traffic>
    private let loop: NetworkLoop

    init(_ plan: RequestPlan, loop: NetworkLoop) {
        self.plan = plan
        self.loop = loop
        handoff = TransferHandoff(TransferState(deadlines: plan.deadlines, startedAt: LoopClock.now))
        traffic = Mutex(Traffic(head: CurlResponseHead(isThroughProxy: !plan.route.isDirect)))
    }

    /// Whether the server has refused the request without acting on it, because it requires HTTP/1.1.
    var mustUseHTTP1: Bool { traffic.withLock(\.mustUseHTTP1) }

    // MARK: The reader's side

    /// Starts the exchange and waits for its final head.
    func start() async throws -> ResponseHead {
        try Task.checkCancellation()
        try loop.add(self)
        return try await handoff.head { self.cancel() }
    }

    /// Returns all bytes that have arrived, as soon as there are some. Returns `nil` at the end.
    func nextChunk() async throws -> [UInt8]? {
        let (ready, isPaused) = handoff.act { ($0.takeChunk(), $0.phase == .paused) }
        if isPaused { loop.wake(self) }
        if let ready { return try ready.get() }
        return try await handoff.chunk { self.cancel() }
    }

    /// Ends the exchange unless it has already ended. The reader gets the error at once. The loop's thread closes the
    /// connection.
    func cancel() {
        let wasRunning = handoff.act { state in
            defer { state.cancelled(at: LoopClock.now) }
            return !state.hasEnded
        }
        if wasRunning { loop.wake(self) }
    }

    /// Extends the deadline for silence within the body.
    func allow(silence: Duration) {
        handoff.act { $0.allow(silence: silence) }
        loop.wake(self)
    }

    // MARK: The loop's side

    func joined(_ handle: EasyHandle) -> Bool {
        // The caller may have cancelled the transfer before it reached the loop.
        guard !handoff.withState({ $0.hasEnded }) else { return false }
        handle.perform(
            plan.method.rawValue, plan.target, headerLines: plan.headerLines, bodyBytes: plan.body?.count,
            on: plan.route, isHTTP1: plan.isHTTP1, connectDeadline: plan.deadlines.connect, for: self)
        return true
    }

    func visited(_ handle: EasyHandle, _ visit: LoopVisit) -> LoopVerdict {
        // This happens outside the lock, because curl offers the bytes that it held back within this call.
        if handoff.withState({ $0.resume(at: visit.now) }) { handle.resume() }
        return handoff.act(deliver: visit.deliver) { state in
            if let allowance = state.expired(at: visit.now) {
                let failure = CurlFailure(.timedOut, of: handle, at: state.stage, on: plan.route)
                let isLost = state.sleptThrough(at: visit.now)
                state.timedOut(isLost ? failure.lost : failure.timeOut(allowance: allowance))
            }
            if state.doubtsConnection { handle.distrustConnection() }
            if state.hasEnded { return .leave }
            let isReceiving = state.phase == .receiving
            let rests = traffic.withLock { $0.burst.goesOn(isReceiving: isReceiving, at: visit.now) }
            return .stay(until: state.deadline, rests: rests)
        }
    }

    func ended(_ handle: EasyHandle, with result: CurlResult) {
        let (refusal, isWhole) = traffic.withLock { traffic in
            traffic.mustUseHTTP1 = handle.mustUseHTTP1
            return (traffic.head.refusal, traffic.head.isComplete)
        }
        handoff.act { state in
            let failure = CurlFailure(result, of: handle, at: state.stage, on: plan.route)
            let error: ChappieTransportError? =
                switch refusal {
                case .violation(let rule): failure.violation(rule)
                case .refusedByProxy: failure.refusedByProxy
                case nil where !result.isSuccess: failure.error
                // curl accepts an incomplete head.
                case nil: isWhole ? nil : failure.lost
                }
            state.ended(error)
        }
    }

    func loopStopped() {
        let host = plan.route.origin.label
        handoff.act {
            $0.ended(ChappieTransportError.shutDown(host: host))
        }
    }

    // MARK: curl's callbacks

    func connected() -> Bool {
        let hasBody = plan.body?.isEmpty == false
        return handoff.withState { $0.connected(hasBody: hasBody, at: LoopClock.now) }
    }

    func provideBody(_ space: UnsafeMutableRawBufferPointer) -> Int {
        let body = plan.body ?? []
        let (count, isWhole) = traffic.withLock { traffic in
            let piece = body[traffic.bodyOffset...].prefix(space.count)
            space.copyBytes(from: piece)
            traffic.bodyOffset += piece.count
            return (piece.count, traffic.bodyOffset == body.count)
        }
        handoff.withState { $0.sentBody(isWhole: isWhole, at: LoopClock.now) }
        return count
    }

    func receivedHeaderLine(_ line: UnsafeRawBufferPointer) -> Bool {
        let (goesOn, head) = traffic.withLock { $0.head.receivedLine(line) }
        if let head { handoff.withState { $0.received(head, at: LoopClock.now) } }
        return goesOn
    }

    func receivedBody(_ bytes: UnsafeRawBufferPointer) -> Bool {
        traffic.withLock { $0.burst.read(bytes.count) }
        return handoff.withState { $0.receivedBody(bytes, at: LoopClock.now) }
    }
}

/// The response head, which curl delivers line by line, and the reason why it was refused. curl itself reports only
/// that a callback has stopped it.
struct CurlResponseHead {
    enum Refusal: Equatable {
        case violation(String)
        /// The proxy refused the request. Only a proxy asks for proxy credentials (RFC 9110, 15.5.8). With a tunnel,
        /// the proxy does so while connecting. This case is a plain http request through a proxy on this machine.
        case refusedByProxy
    }

    private let isThroughProxy: Bool
    private var parser = ResponseHeadParser(byteLimit: 256 << 10, isStrict: false)
    private(set) var refusal: Refusal?

    init(isThroughProxy: Bool) { self.isThroughProxy = isThroughProxy }

    /// Whether the final head is complete.
    var isComplete: Bool { parser.isComplete }

    /// Takes a line.
    ///
    /// - Returns: Whether curl may continue, and the final head with its last line.
    mutating func receivedLine(_ line: UnsafeRawBufferPointer) -> (goesOn: Bool, head: ResponseHead?) {
        switch parser.receivedLine(line) {
        case .more: return (true, nil)
        case .failed(let rule): refusal = .violation(rule)
        case .complete(let head) where head.status.code == 407 && isThroughProxy: refusal = .refusedByProxy
        case .complete(let head):
            guard let rule = head.violation else { return (true, head) }
            refusal = .violation(rule)
        }
        return (false, nil)
    }
}

/// A detector of bodies that arrive in a burst of small pieces, during which the loop may rest.
struct ReadBurst {
    /// The number of bytes that were read in the current visit.
    private var bytes = 0
    private var lastReadAt: Int?

    mutating func read(_ count: Int) { bytes += count }

    /// Returns whether the burst continues. It is called once in each visit.
    mutating func goesOn(isReceiving: Bool, at now: Int) -> Bool {
        guard bytes > 0 else { return false }
        defer {
            bytes = 0
            lastReadAt = now
        }
        return isReceiving && bytes < Burst.bulkBytes && lastReadAt.map { now - $0 <= Burst.gap } ?? false
    }
}
