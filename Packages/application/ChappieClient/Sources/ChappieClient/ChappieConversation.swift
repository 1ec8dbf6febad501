public import ChappieCore
public import ChappieJSONSchema

/// A conversation with the model: it runs turns one at a time, in the order in which they were requested.
///
/// ``ChappieClient`` is a conversation in memory; `ChappieRuntime` keeps its conversation in a store. Code that takes
/// any `ChappieConversation` works with both, and with a double in its tests:
///
/// ```swift
/// struct Parrot: ChappieConversation {
///     func begin(_ work: ChappieTurnWork, endsWithItsStream: Bool) -> ChappieStreamHandle {
///         ChappieStreamHandle(endsWithItsStream: endsWithItsStream) { emit in
///             guard case .new(let request) = work else { return ChappieResponse() }
///             let response = ChappieResponse(outputText: request.messages.map(\.text).joined())
///             emit(.textDelta(response.outputText))
///             emit(.completed(response))
///             return response
///         }
///     }
///
///     func cancel() {}
/// }
/// ```
public protocol ChappieConversation: Sendable {
    /// Starts a turn, which waits for earlier turns. The other calls are built on this one.
    ///
    /// - Parameters:
    ///   - work: The turn's work.
    ///   - endsWithItsStream: Whether releasing the handle's events ends the turn. Cancelling the task that reads them
    ///     always does.
    func begin(_ work: ChappieTurnWork, endsWithItsStream: Bool) -> ChappieStreamHandle

    /// Ends the newest turn, whether it is running or waiting. Earlier turns continue; a further call ends the newest
    /// of the remaining ones.
    func cancel() async

    /// Ends the newest turn like ``cancel()``, but keeps what the model has said and done: the answer so far stays in
    /// the conversation, marked as interrupted, and the next message continues from there.
    ///
    /// The turn then ends with `.completed`: its response has the text that was shown, `isInterrupted` is `true`, and
    /// calls of tools that were not over have the outcome `.interrupted`. If there is nothing of the answer yet, the
    /// turn ends as if it were cancelled. The default calls ``cancel()``.
    func interrupt() async

    /// Prepares the next turn, so that it is quick. Call it when the user begins to type. The default does nothing.
    func prewarm() async
}

/// The work of a turn. New cases may come: switch with a `default`.
public enum ChappieTurnWork: Sendable {
    /// A turn from its beginning.
    case new(ChappieResponseRequest)
    /// The rest of a turn that waited for approval, with the user's answers by call id.
    case resumption(ChappiePendingTurn, decisions: [String: ChappieApprovalDecision])
    /// Makes the conversation shorter. The response is empty.
    case compaction
    /// Leaves the conversation; the next turn begins a new one. The response is empty.
    case clearing
}

extension ChappieConversation {
    /// Does nothing.
    public func prewarm() async {}

    /// Keeps nothing of the turn.
    public func interrupt() async { await cancel() }

    // MARK: Asking

    /// Asks and gives the answer's text. A turn that a store keeps is kept when this returns.
    ///
    /// - Throws: ``ChappieClientError``, ``ChappieClientError/responseFailed(_:)`` for an answer that ended early among
    ///   them: the text so far is in its response, and in the conversation; the error of a store that can't keep the
    ///   turn; `CancellationError`.
    @discardableResult
    public func send(_ text: String) async throws -> String { try await send(.user(text)) }

    /// Asks and gives the answer's text. See ``send(_:)-(String)``.
    @discardableResult
    public func send(_ message: ChappieInputMessage) async throws -> String {
        let response = try await response(ChappieResponseRequest(messages: [message]))
        guard response.status != .incomplete else { throw ChappieClientError.responseFailed(response) }
        return response.outputText
    }

    /// Asks for an answer of a type's form: the backend makes the model keep to `schema`, and the answer is checked
    /// against it.
    ///
    /// ```swift
    /// struct Town: Decodable { var name: String; var inhabitants: Int }
    /// let town = try await client.send("The capital of France?", as: Town.self, schema: .derived(from: Town.self))
    /// ```
    /// - Throws: as ``send(_:)-(String)``: `invalidStructuredOutput` names the place that does not fit;
    ///   `responseFailed` for an answer that ended early, or that the model refused. `ChappieJSONSchemaError` for a
    ///   schema that can't be used: nothing is sent or kept then. An answer that does not fit is kept.
    public func send<Output: Decodable & Sendable>(
        _ text: String, as type: Output.Type, schema: ChappieJSONSchema
    ) async throws -> Output {
        try schema.check()
        return try await response(ChappieResponseRequest(messages: [.user(text)], outputSchema: schema))
            .value(type, schema: schema)
    }

    /// Returns the same for a type that knows its schema.
    ///
    /// ```swift
    /// struct Town: Decodable, ChappieJSONSchemaProviding { var name: String; var inhabitants: Int }
    /// let town = try await client.send("The capital of France?", as: Town.self)
    /// ```
    public func send<Output: Decodable & ChappieJSONSchemaProviding & Sendable>(
        _ text: String, as type: Output.Type
    ) async throws -> Output { try await send(text, as: type, schema: Output.jsonSchema) }

    /// Asks and gives the whole response. An answer that ended early (`status` is `.incomplete`, with an
    /// `incompleteReason`) is not an error: its text is there.
    ///
    /// - Throws: as ``send(_:)-(String)``.
    public func response(_ request: ChappieResponseRequest) async throws -> ChappieResponse {
        var request = request
        request.isUnseen = true
        return try await begin(.new(request), endsWithItsStream: false).responseOrCancel()
    }

    /// Asks and streams the answer. The turn starts now; releasing the stream ends it.
    ///
    /// The stream throws what ``send(_:)-(String)`` throws; `CancellationError` within 100 ms when the task that reads
    /// it is cancelled.
    public func stream(_ text: String) -> AsyncThrowingStream<ChappieStreamEvent, any Error> { stream(.user(text)) }

    /// Asks and streams the answer. See ``stream(_:)-(String)``.
    public func stream(_ message: ChappieInputMessage) -> AsyncThrowingStream<ChappieStreamEvent, any Error> {
        streamResponse(ChappieResponseRequest(messages: [message]))
    }

    /// Asks and streams the answer. See ``stream(_:)-(String)``.
    public func streamResponse(
        _ request: ChappieResponseRequest
    ) -> AsyncThrowingStream<ChappieStreamEvent, any Error> {
        begin(.new(request), endsWithItsStream: true).events
    }

    /// Asks and gives a handle on the running turn, which continues even if its events are not read.
    public func startStream(_ message: ChappieInputMessage) -> ChappieStreamHandle {
        begin(.new(ChappieResponseRequest(messages: [message])), endsWithItsStream: false)
    }

    // MARK: Going on

    /// Continues a turn that waited for approval, in this process or in another.
    ///
    /// - Parameters:
    ///   - pending: the value of `approvalPending`.
    ///   - decisions: the user's answers by call id. The approval handler is asked about calls without one.
    /// - Throws: as ``response(_:)``; `approvalPending` again if an answer is deferred once more. A turn that fails may
    ///   be resumed again by this conversation: calls that ran are not repeated.
    @discardableResult
    public func resume(
        _ pending: ChappiePendingTurn, decisions: [String: ChappieApprovalDecision] = [:]
    ) async throws -> ChappieResponse {
        try await begin(.resumption(pending, decisions: decisions), endsWithItsStream: false).responseOrCancel()
    }

    /// Returns the same as a stream.
    public func streamResuming(
        _ pending: ChappiePendingTurn, decisions: [String: ChappieApprovalDecision] = [:]
    ) -> AsyncThrowingStream<ChappieStreamEvent, any Error> {
        begin(.resumption(pending, decisions: decisions), endsWithItsStream: true).events
    }

    // MARK: The whole

    /// Has the model make the conversation shorter, in a separate turn, as ``ChappieClient/compactContext()`` does. A
    /// store keeps all earlier messages.
    ///
    /// - Throws: as ``send(_:)-(String)``. The conversation is then as it was.
    public func compact() async throws {
        _ = try await begin(.compaction, endsWithItsStream: false).responseOrCancel()
    }

    /// Leaves the conversation once the earlier turns have ended. The next turn begins a new one; a store keeps the old
    /// one.
    ///
    /// - Throws: `CancellationError`.
    public func clear() async throws {
        _ = try await begin(.clearing, endsWithItsStream: false).responseOrCancel()
    }
}

/// A turn in progress: read it, wait for it, or end it.
///
/// ```swift
/// let handle = client.startStream(.user("Hello"))
/// for try await event in handle.events { … }
/// let response = try await handle.response()
/// ```
public struct ChappieStreamHandle: Sendable {
    /// The turn's events, for one reader. Not reading them does not hold the turn up; cancelling the task that reads
    /// them ends it, like ``cancel()``.
    public let events: AsyncThrowingStream<ChappieStreamEvent, any Error>
    let task: Task<ChappieResponse, any Error>
    /// `nil` if the turn can only be cancelled.
    var interruption: TurnInterruption?

    /// Starts a turn that `work` carries out. The stream buffers its events without a bound: they are one decoded
    /// answer at most, and a turn must be able to end (and let the next one start) even if its reader has stopped
    /// reading.
    ///
    /// - Parameters:
    ///   - endsWithItsStream: Whether releasing the events ends the turn. Cancelling their reader always does. Default
    ///     `false`.
    ///   - work: Emits the events, and returns the whole response.
    public init(
        endsWithItsStream: Bool = false,
        _ work:
            @escaping @Sendable (_ emit: @escaping @Sendable (ChappieStreamEvent) -> Void) async throws ->
            ChappieResponse
    ) {
        let (events, continuation) = AsyncThrowingStream<ChappieStreamEvent, any Error>.makeStream()
        // A stream whose last owner releases it ends the turn. If the turn owns the stream as well, the stream only
        // ends early if its reader was cancelled.
        let owned = endsWithItsStream ? nil : events
        let task = Task<ChappieResponse, any Error> {
            defer { withExtendedLifetime(owned) {} }
            do {
                let response = try await work { continuation.yield($0) }
                continuation.finish()
                return response
            } catch {
                let error = Task.isCancelled ? CancellationError() : error
                continuation.finish(throwing: error)
                throw error
            }
        }
        continuation.onTermination = { reason in
            guard case .cancelled = reason else { return }
            // Otherwise a reader whose task is cancelled would see the stream end as if the answer were complete.
            continuation.finish(throwing: CancellationError())
            task.cancel()
        }
        self.events = events
        self.task = task
    }

    /// Ends the turn: ``events`` and ``response()`` throw `CancellationError`, and the transcript stays without it.
    public func cancel() { task.cancel() }

    /// Ends the turn, and keeps what was said; see ``ChappieConversation/interrupt()``. A turn of a handle that was
    /// made by hand is cancelled.
    public func interrupt() {
        guard let interruption else { return task.cancel() }
        interruption.interrupt(task)
    }

    /// Returns the whole response, once the turn has ended.
    ///
    /// - Throws: as the conversation's `response(_:)`. Cancelling the waiting task does not end the turn.
    public func response() async throws -> ChappieResponse { try await task.value }

    /// Returns the same for the turn's one owner: cancelling the waiting task ends the turn.
    @_spi(ChappieInternals) public func responseOrCancel() async throws -> ChappieResponse {
        try await withTaskCancellationHandler {
            try await task.value
        } onCancel: {
            task.cancel()
        }
    }
}
