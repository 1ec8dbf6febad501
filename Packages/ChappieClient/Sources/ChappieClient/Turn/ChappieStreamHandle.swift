public import ChappieCore

/// A turn in progress: read it, wait for it, or end it.
///
/// ```swift
/// let handle = client.startStream(.user("Hello"))
/// for try await event in handle.events { … }
/// let response = try await handle.response()
/// ```
public struct ChappieStreamHandle: Sendable {
    /// The turn's events, for one reader. Not reading them does not hold the turn up.
    public let events: AsyncThrowingStream<ChappieStreamEvent, any Error>
    private let task: Task<ChappieResponse, any Error>

    init(events: AsyncThrowingStream<ChappieStreamEvent, any Error>, task: Task<ChappieResponse, any Error>) {
        self.events = events
        self.task = task
    }

    /// Ends the turn: ``events`` and ``response()`` throw `CancellationError`, and the transcript stays without it.
    public func cancel() { task.cancel() }

    /// The whole response, once the turn is over.
    ///
    /// - Throws: ``ChappieClientError``; `CancellationError`. Cancelling the waiting task does not end the turn.
    public func response() async throws -> ChappieResponse { try await task.value }
}
