import ChappieCore
import Synchronization

/// Ends a turn before its answer is complete, in such a way that the conversation keeps what was said.
///
/// The turn's work runs in a separate task. An interruption cancels that task alone, so that its end can be kept; to
/// cancel the turn cancels both.
@_spi(ChappieInternals) public final class TurnInterruption: Sendable {
    private enum State {
        /// The work has not begun.
        case waiting
        case running(cancel: @Sendable () -> Void)
        /// The work ends.
        case requested
        /// The work has ended, and its end is being kept.
        case over
    }

    private let state = Mutex(State.waiting)

    /// Creates an interruption that has not been requested.
    public init() {}

    /// Whether the work is to end.
    var isRequested: Bool { state.withLock { if case .requested = $0 { true } else { false } } }

    /// Interrupts the work of the turn's task. A waiting turn is cancelled, since it has nothing to keep; a turn that
    /// is over stays as it is.
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
