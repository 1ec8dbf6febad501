@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieCurl
import HTTPTypes
import Synchronization

/// One exchange on the network loop: the shell between curl's callbacks on one side and a reader's task on the other.
///
/// All state is under one lock; a waiting reader is resumed after the lock is released. curl's callbacks never resume
/// the reader. The visit at the end of the loop's round does, so that a hundred small pieces wake a task once.
final class HTTPTransfer: NetworkTransfer {
    private enum Reader {
        case none
        case head(CheckedContinuation<ResponseHead, any Error>)
        case chunk(CheckedContinuation<[UInt8]?, any Error>)
    }

    private struct Shared {
        var state: TransferState
        var reader = Reader.none
        /// The number of bytes of the request body that curl has taken.
        var bodyOffset = 0

        /// The call that resumes a waiting reader, if there is a result for it.
        mutating func delivery() -> (@Sendable () -> Void)? {
            switch reader {
            case .none: return nil
            case .head(let continuation):
                guard let result = state.takeHead() else { return nil }
                reader = .none
                return { continuation.resume(with: result) }
            case .chunk(let continuation):
                guard let result = state.takeChunk() else { return nil }
                reader = .none
                return { continuation.resume(with: result) }
            }
        }
    }

    let isConnection = false
    private let plan: RequestPlan
    private let shared: Mutex<Shared>
    private let loop: NetworkLoop

    init(_ plan: RequestPlan, loop: NetworkLoop) {
        self.plan = plan
        self.loop = loop
        let state = TransferState(
            deadlines: plan.deadlines, isThroughProxy: !plan.route.isDirect, startedAt: LoopClock.now)
        shared = Mutex(Shared(state: state))
    }

    /// Changes the state, then resumes the reader if there is a result for it.
    private func act<Value: Sendable>(_ change: (inout Shared) -> Value) -> Value {
        let (value, delivery) = shared.withLock { shared in
            let value = change(&shared)
            return (value, shared.delivery())
        }
        delivery?()
        return value
    }

    // MARK: The reader's side

    /// Starts the exchange and waits for its final head.
    func start() async throws -> ResponseHead {
        try Task.checkCancellation()
        try loop.add(self)
        return try await wait { .head($0) }
    }

    /// All bytes that have arrived, as soon as there are some; `nil` at the end.
    func nextChunk() async throws -> [UInt8]? {
        let (ready, isPaused) = act { ($0.state.takeChunk(), $0.state.phase == .paused) }
        if isPaused { loop.wake(self) }
        if let ready { return try ready.get() }
        return try await wait { .chunk($0) }
    }

    private func wait<Value: Sendable>(
        as reader: (CheckedContinuation<Value, any Error>) -> Reader
    ) async throws -> Value {
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                act { shared in
                    guard case .none = shared.reader else {
                        preconditionFailure("A response body has one reader; two tasks read this one.")
                    }
                    shared.reader = reader(continuation)
                }
            }
        } onCancel: {
            cancel()
        }
    }

    /// Ends the exchange unless it has ended. The reader gets the error at once; the loop's thread closes the
    /// connection.
    func cancel() {
        let wasRunning = act { shared in
            defer { shared.state.cancelled(at: LoopClock.now) }
            return !shared.state.hasEnded
        }
        if wasRunning { loop.wake(self) }
    }

    // MARK: The loop's side

    func joined(_ handle: EasyHandle) -> Bool {
        // The caller may have cancelled the transfer before it reached the loop.
        guard !shared.withLock({ $0.state.hasEnded }) else { return false }
        handle.perform(
            plan.method.rawValue, plan.target, headerLines: plan.headerLines, bodyBytes: plan.body?.count,
            on: plan.route, connectDeadline: plan.deadlines.connect, for: self)
        return true
    }

    func visited(_ handle: EasyHandle, _ visit: LoopVisit) -> LoopVerdict {
        // Outside the lock: within this call, curl offers the bytes that it held back.
        if shared.withLock({ $0.state.resume(at: visit.now) }) { handle.resume() }
        return act { shared in
            if let allowance = shared.state.expired(at: visit.now) {
                let failure = CurlFailure(.timedOut, of: handle, at: shared.state.stage, on: plan.route)
                let isLost = shared.state.sleptThrough(at: visit.now)
                shared.state.timedOut(isLost ? failure.lost : failure.timeOut(allowance: allowance))
            }
            if shared.state.doubtsConnection { handle.distrustConnection() }
            if shared.state.hasEnded { return .leave }
            let rests = shared.state.isInBurst(at: visit.now)
            return .stay(until: shared.state.deadline, rests: rests)
        }
    }

    func ended(_ handle: EasyHandle, with result: CurlResult) {
        act { shared in
            let failure = CurlFailure(result, of: handle, at: shared.state.stage, on: plan.route)
            let error: ChappieTransportError? =
                switch shared.state.objection {
                case .violation(let rule): failure.violation(rule)
                case .refusedByProxy: failure.refusedByProxy
                case nil where !result.isSuccess: failure.error
                // curl accepts a head that is cut off.
                case nil: shared.state.isWhole ? nil : failure.lost
                }
            shared.state.ended(error)
        }
    }

    func loopStopped() {
        let host = plan.route.origin.label
        act { $0.state.ended(ChappieTransportError.unavailable("the connection pool has been shut down", host: host)) }
    }

    // MARK: curl's callbacks

    func connected() -> Bool {
        let hasBody = plan.body?.isEmpty == false
        return shared.withLock { $0.state.connected(hasBody: hasBody, at: LoopClock.now) }
    }

    func provideBody(_ space: UnsafeMutableRawBufferPointer) -> Int {
        let body = plan.body ?? []
        return shared.withLock { shared in
            let piece = body[shared.bodyOffset...].prefix(space.count)
            space.copyBytes(from: piece)
            shared.bodyOffset += piece.count
            shared.state.sentBody(isWhole: shared.bodyOffset == body.count, at: LoopClock.now)
            return piece.count
        }
    }

    func receivedHeaderLine(_ line: UnsafeRawBufferPointer) -> Bool {
        shared.withLock { $0.state.receivedLine(line, at: LoopClock.now) }
    }

    func receivedBody(_ bytes: UnsafeRawBufferPointer) -> Bool {
        shared.withLock { $0.state.receivedBody(bytes, at: LoopClock.now) }
    }
}
