import Synchronization

/// Runs turns one at a time, in the order in which they were requested.
@_spi(ChappieInternals) public final class TurnQueue: Sendable {
    /// A requested turn: the stream of its events, and its task.
    public typealias Turn = (
        events: AsyncThrowingStream<ChappieStreamEvent, any Error>, task: Task<ChappieResponse, any Error>
    )
    /// Runs a turn, and emits its events.
    public typealias Work =
        @Sendable (
            _ emit: @escaping @Sendable (ChappieStreamEvent) -> Void
        ) async throws -> ChappieResponse

    private let lock = AsyncLock()
    /// The turns that have not ended, in the order in which they were requested.
    private let turns = Mutex<[(ticket: AsyncLock.Ticket, task: Task<ChappieResponse, any Error>)]>([])

    /// Makes a queue without turns.
    public init() {}

    /// Whether no turn is running or waiting.
    public var isEmpty: Bool { turns.withLock(\.isEmpty) }

    /// Starts a turn, which waits for earlier turns. The stream buffers its events without a bound: they are one
    /// decoded answer at most, and a turn must be able to end (and let the next one start) even if its reader has
    /// stopped reading.
    ///
    /// - Parameter endsWithItsStream: Whether releasing the stream ends the turn. Cancelling its reader always does.
    public func begin(_ work: @escaping Work, endsWithItsStream: Bool) -> Turn {
        let (events, continuation) = AsyncThrowingStream<ChappieStreamEvent, any Error>.makeStream()
        // A stream whose last owner releases it ends the turn. If the turn owns the stream as well, the stream only
        // ends early if its reader was cancelled.
        let owned = endsWithItsStream ? nil : events
        let task = turns.withLock { turns in
            let ticket = lock.reserve()
            let task = Task<ChappieResponse, any Error> {
                defer {
                    lock.leave(ticket)
                    self.turns.withLock { $0.removeAll { $0.ticket == ticket } }
                    withExtendedLifetime(owned) {}
                }
                do {
                    try await lock.enter(ticket)
                    let response = try await work { continuation.yield($0) }
                    continuation.finish()
                    return response
                } catch {
                    let error = Task.isCancelled ? CancellationError() : error
                    continuation.finish(throwing: error)
                    throw error
                }
            }
            turns.append((ticket, task))
            return task
        }
        continuation.onTermination = { reason in
            guard case .cancelled = reason else { return }
            // Otherwise a reader whose task is cancelled would see the stream end as if the answer were complete.
            continuation.finish(throwing: CancellationError())
            task.cancel()
        }
        return (events, task)
    }

    /// Runs a turn; cancelling the waiting task ends it.
    public func response(of work: @escaping Work) async throws -> ChappieResponse {
        let task = begin(work, endsWithItsStream: false).task
        return try await withTaskCancellationHandler {
            try await task.value
        } onCancel: {
            task.cancel()
        }
    }

    /// Runs `work` between two turns.
    public func alone<Value>(_ work: () async throws -> Value) async throws -> Value { try await lock.alone(work) }

    /// Ends the newest turn; a further call ends the newest of the remaining ones.
    public func cancelNewest() {
        turns.withLock { $0.last { !$0.task.isCancelled } }?.task.cancel()
    }
}
