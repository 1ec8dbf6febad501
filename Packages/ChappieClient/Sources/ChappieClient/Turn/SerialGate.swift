import Synchronization

/// Lets one turn in at a time, in the order in which tickets were drawn.
final class SerialGate: Sendable {
    private struct State {
        var nextNumber = 0
        /// Tickets that have not left, oldest first; the first one is inside or about to be.
        var line: [Int] = []
        var waiting: [Int: CheckedContinuation<Void, any Error>] = [:]
    }

    private let state = Mutex(State())

    /// Draws a ticket now; its turn comes after all tickets drawn before. Every ticket must be handed back by `leave`.
    func draw() -> Int {
        state.withLock { state in
            state.nextNumber += 1
            state.line.append(state.nextNumber)
            return state.nextNumber
        }
    }

    /// Waits for the ticket's turn. - Throws: `CancellationError` when the task is cancelled before.
    func enter(_ ticket: Int) async throws {
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
                let result: Result<Void, any Error>? = state.withLock { state in
                    if Task.isCancelled { return .failure(CancellationError()) }
                    if state.line.first == ticket { return .success(()) }
                    state.waiting[ticket] = continuation
                    return nil
                }
                if let result { continuation.resume(with: result) }
            }
        } onCancel: {
            state.withLock { $0.waiting.removeValue(forKey: ticket) }?.resume(throwing: CancellationError())
        }
    }

    /// Hands the ticket back, whether its turn had come or not, and lets the next one in.
    func leave(_ ticket: Int) {
        let next = state.withLock { state -> CheckedContinuation<Void, any Error>? in
            state.line.removeAll { $0 == ticket }
            return state.line.first.flatMap { state.waiting.removeValue(forKey: $0) }
        }
        next?.resume()
    }
}
