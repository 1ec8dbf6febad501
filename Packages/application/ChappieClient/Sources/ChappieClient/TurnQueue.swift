@_spi(ChappieInternals) public import ChappieCore
import Synchronization

/// Runs turns one at a time, in the order in which they were requested.
@_spi(ChappieInternals) public final class TurnQueue: Sendable {
    /// Runs a turn, and emits its events.
    public typealias Work =
        @Sendable (
            _ emit: @escaping @Sendable (ChappieStreamEvent) -> Void, _ interruption: TurnInterruption
        ) async throws -> ChappieResponse

    private let lock = AsyncLock()
    /// The turns that have not ended, in the order in which they were requested.
    private let turns = Mutex<
        [(ticket: AsyncLock.Ticket, task: Task<ChappieResponse, any Error>, interruption: TurnInterruption)]
    >([])

    /// Makes a queue without turns.
    init() {}

    /// Whether no turn is running or waiting.
    var isEmpty: Bool { turns.withLock(\.isEmpty) }

    /// Starts a turn, which waits for earlier turns.
    public func begin(endsWithItsStream: Bool, _ work: @escaping Work) -> ChappieStreamHandle {
        turns.withLock { turns in
            let ticket = lock.reserve()
            let interruption = TurnInterruption()
            var handle = ChappieStreamHandle(endsWithItsStream: endsWithItsStream) { emit in
                defer {
                    self.lock.leave(ticket)
                    self.turns.withLock { $0.removeAll { $0.ticket == ticket } }
                }
                try await self.lock.enter(ticket)
                return try await work(emit, interruption)
            }
            handle.interruption = interruption
            // The queue does not hold the handle: its stream may need to have one owner.
            turns.append((ticket, handle.task, interruption))
            return handle
        }
    }

    /// Runs `work` between two turns.
    public func alone<Value>(_ work: () async throws -> Value) async throws -> Value { try await lock.alone(work) }

    /// Ends the newest turn; a further call ends the newest of the remaining ones.
    public func cancelNewest() {
        turns.withLock { $0.last { !$0.task.isCancelled } }?.task.cancel()
    }

    /// Interrupts the newest turn, if it runs; a turn that waits is ended.
    public func interruptNewest() {
        guard let turn = turns.withLock({ $0.last { !$0.task.isCancelled } }) else { return }
        turn.interruption.interrupt(turn.task)
    }
}

/// Ends a turn before its answer is whole, in such a way that the conversation keeps what was said.
///
/// The turn's work runs in a task of its own. An interruption cancels that task alone, so that its end can be kept; to
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

    /// An interruption that has not been requested.
    public init() {}

    /// Whether the work is to end.
    var isRequested: Bool { state.withLock { if case .requested = $0 { true } else { false } } }

    /// Interrupts the work of the turn's task. A turn that waits has nothing to keep, and is cancelled; one that is over
    /// needs no interruption.
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
