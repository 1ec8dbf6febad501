@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieCurl
import Synchronization

/// The connection that the caller holds. The network loop retains the driver, so releasing this object drops the
/// connection.
final class CurlWebSocketConnection: WebSocketConnection {
    private let driver: WebSocketDriver

    init(_ driver: WebSocketDriver) { self.driver = driver }

    deinit { driver.drop() }

    var isOpen: Bool { driver.isOpen }

    func send(_ message: WebSocketMessage) async throws {
        let end = try await driver.wait { session, _ in session.send(message) }
        try await driver.wait { session, now in session.isWritten(end, at: now) ? .success(()) : nil }
    }

    func receive(within allowance: Duration?) async throws -> WebSocketInbound {
        let deadline = allowance.map { LoopClock.now + $0.nanoseconds }
        return try await driver.wait(until: deadline) { session, now in
            if let result = session.takeInbound(at: now) { return result }
            guard let allowance, let deadline, now >= deadline else { return nil }
            return .failure(session.timeOut(.message, "no message", after: allowance))
        }
    }

    func close(_ reason: WebSocketCloseReason) async {
        driver.change { session, now in session.close(reason, at: now) }
        // A cancelled task stops waiting; the closing handshake goes on.
        try? await driver.wait { session, _ in session.isOver ? .success(()) : nil }
    }

    func cancel() { driver.drop() }
}

/// One WebSocket on the network loop: the shell between curl's socket on one side and the callers' tasks on the other.
///
/// All state is under one lock. A waiting task leaves a waiter, which is asked again after each change. The tasks whose
/// waiters have an answer are resumed after the lock is released.
final class WebSocketDriver: NetworkMember {
    private struct Waiter {
        let id: Int
        /// The time at which the waiter is asked again even if nothing has happened.
        let deadline: Int?
        /// Returns the call that resumes the task, once there is an answer.
        let ask: @Sendable (inout WebSocketSession, _ now: Int) -> (@Sendable () -> Void)?
        let cancel: @Sendable () -> Void
    }

    private struct Shared {
        var session: WebSocketSession
        var waiters: [Waiter] = []
        /// The time of the loop's next visit if nothing wakes it. The loop visits a new member by itself.
        var promisedVisit = Int.min

        /// Asks every waiter, and returns the calls that resume the tasks with an answer.
        mutating func answers(at now: Int) -> [@Sendable () -> Void] {
            var answers: [@Sendable () -> Void] = []
            var open: [Waiter] = []
            for waiter in waiters {
                if let answer = waiter.ask(&session, now) { answers.append(answer) } else { open.append(waiter) }
            }
            if !answers.isEmpty { waiters = open }
            return answers
        }

        /// The loop's next step, and whether the loop must be woken because it would come too late.
        mutating func plan(at now: Int) -> (LoopVerdict, isNews: Bool) {
            let verdict = session.verdict(at: now, deadline: waiters.compactMap(\.deadline).min())
            var visit = Int.min
            if case .stay(_, _, let until, _) = verdict { visit = until ?? .max }
            defer { promisedVisit = visit }
            return (verdict, visit < promisedVisit)
        }
    }

    let isConnection = true
    private let route: CurlRoute
    private let network: CurlNetwork
    private let shared: Mutex<Shared>
    private let lastID = Atomic(0)

    init(_ session: sending WebSocketSession, on route: CurlRoute, network: CurlNetwork) {
        self.route = route
        self.network = network
        shared = Mutex(Shared(session: session))
    }

    // MARK: The callers' side

    var isOpen: Bool { locked { $0.session.isOpen } }

    /// Changes the state, then resumes the tasks and wakes the loop if the change concerns them.
    @discardableResult
    func change<Value: Sendable>(_ change: (inout WebSocketSession, _ now: Int) -> Value) -> Value {
        update { shared, now in change(&shared.session, now) }
    }

    private func locked<Value: Sendable>(_ change: (inout Shared) -> Value) -> Value {
        shared.withLock { change(&$0) }
    }

    private func update<Value: Sendable>(_ change: (inout Shared, _ now: Int) -> Value) -> Value {
        let now = LoopClock.now
        let (value, answers, isNews) = locked { shared in
            let value = change(&shared, now)
            let answers = shared.answers(at: now)
            return (value, answers, shared.plan(at: now).isNews)
        }
        for answer in answers { answer() }
        if isNews { network.loop.wake(self) }
        return value
    }

    /// Asks at once, and again after each change, until there is an answer.
    ///
    /// - Throws: The error in the answer; `CancellationError` if the task is cancelled.
    func wait<Value: Sendable>(
        until deadline: Int? = nil,
        for ask: @escaping @Sendable (inout WebSocketSession, _ now: Int) -> Result<Value, any Error>?
    ) async throws -> Value {
        let id = lastID.wrappingAdd(1, ordering: .relaxed).newValue
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Value, any Error>) in
                let waiter = Waiter(
                    id: id, deadline: deadline,
                    ask: { session, now in
                        guard let result = ask(&session, now) else { return nil }
                        return { continuation.resume(with: result) }
                    },
                    cancel: { continuation.resume(throwing: CancellationError()) })
                let isCancelled = update { shared, _ in
                    // In this case the handler found no waiter to remove.
                    if Task.isCancelled { return true }
                    shared.waiters.append(waiter)
                    return false
                }
                if isCancelled { waiter.cancel() }
            }
        } onCancel: {
            let waiter = locked { shared in
                shared.waiters.firstIndex { $0.id == id }.map { shared.waiters.remove(at: $0) }
            }
            waiter?.cancel()
        }
    }

    /// Starts the attempt and waits for the answer to the handshake.
    func open() async throws -> WebSocketHandshake.Answer {
        try Task.checkCancellation()
        try network.loop.add(self)
        do {
            return try await wait { session, _ in session.opening }
        } catch let error as CancellationError {
            drop()
            throw error
        }
    }

    /// Ends the connection at once; the loop closes the socket.
    func drop() { change { session, _ in session.drop() } }

    // MARK: The loop's side

    func joined(_ handle: EasyHandle) -> Bool {
        // The caller may have dropped the connection before it reached the loop.
        guard !locked({ $0.session.isOver }) else { return false }
        handle.connect(route, deadline: network.policy.deadlines.connect)
        return true
    }

    func ended(_ handle: EasyHandle, with result: CurlResult) {
        let error = CurlFailure(result, of: handle, at: .connect, on: route).error
        change { session, _ in session.failed(error) }
    }

    func loopStopped() {
        change { session, _ in
            session.failed(.unavailable("the connection pool has been shut down", host: route.origin.label))
        }
    }

    func visited(_ handle: EasyHandle, _ visit: LoopVisit) -> LoopVerdict {
        let (verdict, answers) = locked { shared in
            if visit.isConnected { exchange(&shared.session, with: handle, visit) }
            shared.session.timeHasPassed(until: visit.now) { allowance in
                CurlFailure(.timedOut, of: handle, at: .connect, on: route).timeOut(allowance: allowance)
            }
            let answers = shared.answers(at: visit.now)
            return (shared.plan(at: visit.now).0, answers)
        }
        for answer in answers { answer() }
        return verdict
    }

    /// The number of pieces that are read or written before other connections have their turn.
    private static let piecesPerVisit = 16

    /// Writes as much as the socket takes, and reads as much as is available and wanted.
    private func exchange(_ session: inout WebSocketSession, with handle: EasyHandle, _ visit: LoopVisit) {
        session.connected(at: visit.now)
        let reads = session.beginsReading(isReadable: visit.isReadable, at: visit.now)
        flush(&session, to: handle, at: visit.now)
        guard reads else { return }
        read(&session, from: handle, visit)
        // Pongs, and the answer to a close frame.
        flush(&session, to: handle, at: visit.now)
    }

    private func flush(_ session: inout WebSocketSession, to handle: EasyHandle, at now: Int) {
        for _ in 0..<Self.piecesPerVisit {
            guard let (bytes, range) = session.outbox.nextPiece else { return }
            switch bytes.withUnsafeBytes({ handle.send(UnsafeRawBufferPointer(rebasing: $0[range])) }) {
            case .bytes(let count): session.wrote(count, at: now)
            case .nothing: return session.outbox.blocked(at: now)
            case .failed: return session.writingBroke()
            }
        }
    }

    private func read(_ session: inout WebSocketSession, from handle: EasyHandle, _ visit: LoopVisit) {
        // Plain bytes are not buffered above the socket, so a short read has emptied it. TLS returns one record at a
        // time, and may hold others that the socket doesn't know of.
        let isPlain = route.origin.scheme == .http && route.isDirect
        var hasMore = true
        for _ in 0..<Self.piecesPerVisit where hasMore && session.wantsRead {
            switch handle.receive(into: visit.buffer) {
            case .bytes(let count):
                session.received(UnsafeRawBufferPointer(rebasing: visit.buffer[..<count]), at: visit.now)
                hasMore = !isPlain || count == visit.buffer.count
            case .nothing:
                session.nothingToRead()
                hasMore = false
            case .end, .failed:
                session.connectionEnded()
                hasMore = false
            }
        }
        session.endedReading(hasMore: hasMore, at: visit.now)
    }
}
