@_spi(ChappieInternals) import ChappieCore
import Synchronization

/// The side of a WebSocket that moves its bytes.
protocol WebSocketMover: AnyObject, Sendable {
    /// Notifies the mover that the session has something to move, or an earlier deadline.
    func wake()
}

/// A session that the callers' tasks share with its mover.
///
/// All state is under one lock. A waiting task leaves a waiter, which is asked again after each change. The tasks whose
/// waiters have an answer are resumed after the lock is released.
final class SharedWebSocketSession: Sendable {
    private struct Waiter {
        let id: Int
        /// The time at which the waiter is asked again even if nothing has happened.
        let deadline: Int?
        /// Returns the call that resumes the task, once there is an answer.
        let ask: @Sendable (inout WebSocketSession, _ now: Int) -> (@Sendable () -> Void)?
        let cancel: @Sendable () -> Void
    }

    private struct State {
        var session: WebSocketSession
        var waiters: [Waiter] = []
        /// The time of the mover's next visit if nothing wakes it. It visits a new session by itself.
        var promisedVisit = Int.min
        weak var mover: (any WebSocketMover)?

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

        /// Returns the mover's next step, and whether the mover must be woken because it would come too late.
        mutating func plan(at now: Int) -> (LoopVerdict, isNews: Bool) {
            let verdict = session.verdict(at: now, deadline: waiters.compactMap { $0.deadline }.min())
            var visit = Int.min
            if case .stay(_, _, let until, _) = verdict { visit = until ?? .max }
            defer { promisedVisit = visit }
            return (verdict, visit < promisedVisit)
        }
    }

    private let state: Mutex<State>
    private let lastID = Atomic(0)

    init(_ session: sending WebSocketSession) { state = Mutex(State(session: session)) }

    /// Makes later changes wake `mover`. The mover retains the session.
    func attach(_ mover: any WebSocketMover) { locked { $0.mover = mover } }

    var isOpen: Bool { locked { $0.session.isOpen } }
    var isOver: Bool { locked { $0.session.isOver } }

    /// Changes the session, then resumes the tasks and wakes the mover if the change concerns them.
    @discardableResult
    func change<Value: Sendable>(_ change: (inout WebSocketSession, _ now: Int) -> Value) -> Value {
        update { state, now in change(&state.session, now) }
    }

    /// Changes the session on behalf of its mover, which needs no waking. Returns the mover's next step.
    ///
    /// - Parameter deliver: Calls a closure that resumes a task. Default: calls it at once.
    func visit(
        at now: Int, deliver: (@escaping @Sendable () -> Void) -> Void = { $0() },
        _ change: (inout WebSocketSession) -> Void
    ) -> LoopVerdict {
        let (verdict, answers) = locked { state in
            change(&state.session)
            let answers = state.answers(at: now)
            return (state.plan(at: now).0, answers)
        }
        for answer in answers { deliver(answer) }
        return verdict
    }

    private func locked<Value: Sendable>(_ change: (inout State) -> Value) -> Value { state.withLock { change(&$0) } }

    private func update<Value: Sendable>(_ change: (inout State, _ now: Int) -> Value) -> Value {
        let now = LoopClock.now
        let (value, answers, mover) = locked { state in
            let value = change(&state, now)
            let answers = state.answers(at: now)
            return (value, answers, state.plan(at: now).isNews ? state.mover : nil)
        }
        for answer in answers { answer() }
        mover?.wake()
        return value
    }

    /// Waits for an answer. Calls `ask` at once, and again after each change, until it returns an answer.
    ///
    /// - Throws: The error in the answer, or `CancellationError` if the task is cancelled.
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
                let isCancelled = update { state, _ in
                    // In this case the handler found no waiter to remove.
                    if Task.isCancelled { return true }
                    state.waiters.append(waiter)
                    return false
                }
                if isCancelled { waiter.cancel() }
            }
        } onCancel: {
            let waiter = locked { state in
                state.waiters.firstIndex { $0.id == id }.map { state.waiters.remove(at: $0) }
            }
            waiter?.cancel()
        }
    }

    /// Waits for the answer to the handshake. A cancelled task ends the attempt.
    func opening() async throws -> WebSocketHandshake.Answer {
        do {
            return try await wait { session, _ in session.opening }
        } catch let error as CancellationError {
            drop()
            throw error
        }
    }

    /// Ends the connection at once. The mover closes it.
    func drop() { change { session, _ in session.drop() } }
}

/// The connection that the caller holds. The mover's own tasks or loop retain the mover, so releasing this object drops
/// the connection.
final class SessionWebSocketConnection: WebSocketConnection {
    private let shared: SharedWebSocketSession

    init(_ shared: SharedWebSocketSession) { self.shared = shared }

    deinit { shared.drop() }

    var isOpen: Bool { shared.isOpen }

    func send(_ message: WebSocketMessage) async throws {
        let end = try await shared.wait { session, _ in session.send(message) }
        try await shared.wait { session, now in session.isWritten(end, at: now) ? .success(()) : nil }
    }

    func receive(within allowance: Duration?) async throws -> WebSocketInbound {
        let deadline = allowance.map { LoopClock.now + $0.nanoseconds }
        return try await shared.wait(until: deadline) { session, now in
            if let result = session.takeInbound(at: now) { return result }
            guard let allowance, let deadline, now >= deadline else { return nil }
            return .failure(session.timeOut(.message, "no message", after: allowance))
        }
    }

    func ping(within allowance: Duration) { shared.change { session, now in session.ping(within: allowance, at: now) } }

    func pong() async throws { try await shared.wait { session, _ in session.pingAnswer } }

    func close(_ reason: WebSocketCloseReason) async {
        shared.change { session, now in session.close(reason, at: now) }
        // A cancelled task stops waiting, but the closing handshake continues.
        try? await shared.wait { session, _ in session.isOver ? .success(()) : nil }
    }

    func cancel() { shared.drop() }
}

extension WebSocketHandshake.Answer {
    /// Returns the transport's result for the answer.
    func opening(of shared: SharedWebSocketSession) -> WebSocketOpening {
        switch self {
        case .opened(let fields, _): .opened(SessionWebSocketConnection(shared), headerFields: fields)
        case .refused(let head, let body):
            .refused(
                HTTPExchangeResponse(
                    status: head.status, headerFields: head.headerFields, body: HTTPBody(bytes: body)))
        }
    }
}
