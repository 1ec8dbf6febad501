import ChappieCore
import Synchronization

/// An interruption that ends a turn before its answer is complete, so that the conversation keeps the partial answer.
///
/// The turn's work runs in a separate task. An interruption cancels only that task, so that the turn's end can be kept.
/// Cancelling the turn cancels both.
@_spi(ChappieInternals) public final class TurnInterruption: Sendable {
    private enum State {
        /// The work has not begun.
        case waiting
        case running(cancel: @Sendable () -> Void)
        /// The work has been asked to end.
        case requested
        /// The work has ended, and its result is being kept.
        case over
    }

    private let state = Mutex(State.waiting)

    /// Creates an interruption that has not been requested.
    public init() {}

    /// Whether the work has been asked to end.
    var isRequested: Bool { state.withLock { if case .requested = $0 { true } else { false } } }

    /// Interrupts the work of the turn's task. A waiting turn is cancelled, because it has nothing to keep. A turn that
    /// has ended is unchanged.
    func interrupt(_ turn: Task<ChappieResponse, any Error>) {
        let end: (@Sendable () -> Void)? = state.withLock { state in
            switch state {
            case .waiting: return { turn.cancel() }
            case .running(let cancel):
                state = .requested
                return cancel
            case .requested, .over: return nil
            }
        }
        end?()
    }

    /// Runs the work that can be interrupted.
    func run<Value: Sendable>(_ work: @escaping @Sendable () async throws -> Value) async throws -> Value {
        let task = Task { try await work() }
        state.withLock { $0 = .running { task.cancel() } }
        defer { state.withLock { $0 = .over } }
        return try await withTaskCancellationHandler {
            try await task.value
        } onCancel: {
            task.cancel()
        }
    }
}
