import Synchronization

/// Carries out turns one at a time, in the order in which they were asked for.
@_spi(ChappieInternals) public final class TurnQueue: Sendable {
    /// A turn that was asked for: what its reader sees, and its end.
    public typealias Turn = (
        events: AsyncThrowingStream<ChappieStreamEvent, any Error>, task: Task<ChappieResponse, any Error>
    )
    /// Carries a turn out, and tells its events.
    public typealias Work =
        @Sendable (
            _ emit: @escaping @Sendable (ChappieStreamEvent) -> Void
        ) async throws -> ChappieResponse

    private let lock = AsyncLock()
    /// The turns that are not over, in the order in which they were asked for.
    private let turns = Mutex<[(ticket: AsyncLock.Ticket, task: Task<ChappieResponse, any Error>)]>([])

    /// A queue without turns.
    public init() {}

    /// Whether no turn runs or waits.
    public var isEmpty: Bool { turns.withLock(\.isEmpty) }

    /// Starts a turn, which waits for those before it. Its events wait in the stream, unbounded: at most one decoded
    /// answer, and a turn must be able to finish (and let the next one start) although its reader has stopped reading.
    ///
    /// - Parameter endsWithItsStream: whether letting go of the stream ends the turn; cancelling its reader always does.
    public func begin(_ work: @escaping Work, endsWithItsStream: Bool) -> Turn {
        let (events, continuation) = AsyncThrowingStream<ChappieStreamEvent, any Error>.makeStream()
        // A stream that ends with its last owner ends the turn. One that is owned by the turn as well ends early only
        // where its reader was cancelled.
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
            // A reader whose task is cancelled would otherwise see the stream end as if the answer were whole.
            continuation.finish(throwing: CancellationError())
            task.cancel()
        }
        return (events, task)
    }

    /// Carries a turn out; cancelling the waiting task ends it.
    public func response(of work: @escaping Work) async throws -> ChappieResponse {
        let task = begin(work, endsWithItsStream: false).task
        return try await withTaskCancellationHandler {
            try await task.value
        } onCancel: {
            task.cancel()
        }
    }

    /// Does `work` between two turns.
    public func alone<Value>(_ work: () async throws -> Value) async throws -> Value { try await lock.alone(work) }

    /// Ends the newest turn; a further call ends the newest of those before it.
    public func cancelNewest() {
        turns.withLock { $0.last { !$0.task.isCancelled } }?.task.cancel()
    }
}
