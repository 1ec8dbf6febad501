public import ChappieCore
public import ChappieJSONSchema

/// A conversation with the model. It runs turns one at a time, in the order in which they were requested.
///
/// ``ChappieClient`` is a conversation in memory. `ChappieRuntime` keeps its conversation in a store. Code that takes
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
    /// Starts a turn, which waits for earlier turns. The other methods are built on this one.
    ///
    /// - Parameters:
    ///   - work: The turn's work.
    ///   - endsWithItsStream: Whether releasing the handle's events ends the turn. Cancelling the task that reads them
    ///     always does.
    func begin(_ work: ChappieTurnWork, endsWithItsStream: Bool) -> ChappieStreamHandle

    /// Ends the newest turn, whether it is running or waiting. Earlier turns continue. Another call ends the newest of
    /// the remaining ones.
    func cancel() async

    /// Ends the newest turn like ``cancel()``, but keeps the model's output. The partial answer stays in the
    /// conversation, marked as interrupted, and the next message continues from there.
    ///
    /// The turn then ends with `.completed`. Its response has the text that was shown, `isInterrupted` is `true`, and
    /// tool calls that had not ended have the outcome `.interrupted`. If nothing of the answer exists yet, the turn
    /// ends as if it were cancelled. The default implementation calls ``cancel()``.
    func interrupt() async

    /// Gives the running turn a message of the user, which its next request contains.
    ///
    /// After tool calls the message follows their results. If the model has finished its answer, the turn continues with
    /// one more request, and its result is the last answer. The earlier answers are among its items. Several messages
    /// keep their order. The turn's stream reports each accepted message with ``ChappieStreamEvent/steered(_:)``.
    ///
    /// If the turn is interrupted before it can send the message, the message follows the partial answer in the
    /// conversation. If the turn fails or is cancelled, a conversation in memory loses it together with the question.
    ///
    /// - Returns: Whether the turn has the message. It is `false` if no turn runs, or if the last event of the turn's
    ///   last request has arrived. The message is not sent then. The default implementation returns `false`.
    /// - Throws: The error of a store that can't keep the message. The turn may have it.
    func steer(_ message: ChappieInputMessage) async throws -> Bool

    /// Prepares the next turn, so that it starts quickly. Call it when the user begins to type. The default
    /// implementation does nothing.
    func prewarm() async
}

/// The work of a turn. Cases may be added, so switch with a `default`.
public enum ChappieTurnWork: Sendable {
    /// A new turn.
    case new(ChappieResponseRequest)
    /// The rest of a turn that waited for approval, with the user's answers by call id.
    case resumption(ChappiePendingTurn, decisions: [String: ChappieApprovalDecision])
    /// Makes the conversation shorter. The response is empty.
    case compaction
    /// Leaves the conversation. The next turn begins a new one. The response is empty.
    case clearing
}

extension ChappieConversation {
    /// Does nothing.
    public func prewarm() async {}

    /// Returns `false`, because the conversation can't give messages to a running turn.
    public func steer(_ message: ChappieInputMessage) async throws -> Bool { false }

    /// Gives the running turn a message. See ``steer(_:)-(ChappieInputMessage)``.
    public func steer(_ text: String) async throws -> Bool { try await steer(.user(text)) }

    /// Cancels the turn, and keeps nothing of it.
    public func interrupt() async { await cancel() }

    // MARK: Asking

    /// Sends a message and returns the answer's text. If a store keeps the turn, it is stored when this method returns.
    ///
    /// - Throws: ``ChappieClientError``, including ``ChappieClientError/responseFailed(_:)`` for an answer that ended
    ///   early (the text so far is in its response, and in the conversation); the error of a store that can't store the
    ///   turn; `CancellationError`.
    @discardableResult
    public func send(_ text: String) async throws -> String { try await send(.user(text)) }

    /// Sends a message and returns the answer's text. See ``send(_:)-(String)``.
    @discardableResult
    public func send(_ message: ChappieInputMessage) async throws -> String {
        let response = try await response(ChappieResponseRequest(messages: [message]))
        guard response.status != .incomplete else { throw ChappieClientError.responseFailed(response) }
        return response.outputText
    }

    /// Sends a message and returns the answer as a value of a type. The backend makes the model follow `schema`, and
    /// the answer is checked against it.
    ///
    /// ```swift
    /// struct Town: Decodable { var name: String; var inhabitants: Int }
    /// let town = try await client.send("The capital of France?", as: Town.self, schema: .derived(from: Town.self))
    /// ```
    /// - Throws: the errors of ``send(_:)-(String)``. `invalidStructuredOutput` names the place that does not fit.
    ///   `responseFailed` is thrown for an answer that ended early, or that the model refused. `ChappieJSONSchemaError`
    ///   is thrown for a schema that can't be used, and nothing is sent or kept then. An answer that does not fit is
    ///   kept.
    public func send<Output: Decodable & Sendable>(
        _ text: String, as type: Output.Type, schema: ChappieJSONSchema
    ) async throws -> Output {
        _ = try ChappieStrictSchema(schema)
        return try await response(ChappieResponseRequest(messages: [.user(text)], outputSchema: schema))
            .value(type, schema: schema)
    }

    /// Sends a message and returns the answer as a value of a type that provides its schema.
    ///
    /// ```swift
    /// struct Town: Decodable, ChappieJSONSchemaProviding { var name: String; var inhabitants: Int }
    /// let town = try await client.send("The capital of France?", as: Town.self)
    /// ```
    public func send<Output: Decodable & ChappieJSONSchemaProviding & Sendable>(
        _ text: String, as type: Output.Type
    ) async throws -> Output { try await send(text, as: type, schema: Output.jsonSchema) }

    /// Sends a request and returns the complete response. An answer that ended early (`status` is `.incomplete`, with
    /// an `incompleteReason`) is not an error, and has its text.
    ///
    /// - Throws: the errors of ``send(_:)-(String)``.
    public func response(_ request: ChappieResponseRequest) async throws -> ChappieResponse {
        var request = request
        request.isUnseen = true
        return try await begin(.new(request), endsWithItsStream: false).responseOrCancel()
    }

    /// Sends a message and streams the answer. The turn starts immediately. Releasing the stream ends it.
    ///
    /// The stream throws the errors of ``send(_:)-(String)``. It throws `CancellationError` within 100 ms when the task
    /// that reads it is cancelled.
    public func stream(_ text: String) -> AsyncThrowingStream<ChappieStreamEvent, any Error> { stream(.user(text)) }

    /// Sends a message and streams the answer. See ``ChappieConversation/stream(_:)-(String)``.
    public func stream(_ message: ChappieInputMessage) -> AsyncThrowingStream<ChappieStreamEvent, any Error> {
        streamResponse(ChappieResponseRequest(messages: [message]))
    }

    /// Sends a request and streams the answer. See ``ChappieConversation/stream(_:)-(String)``.
    public func streamResponse(
        _ request: ChappieResponseRequest
    ) -> AsyncThrowingStream<ChappieStreamEvent, any Error> {
        begin(.new(request), endsWithItsStream: true).events
    }

    /// Sends a message and returns a handle on the running turn, which continues even if its events are not read.
    public func startStream(_ message: ChappieInputMessage) -> ChappieStreamHandle {
        begin(.new(ChappieResponseRequest(messages: [message])), endsWithItsStream: false)
    }

    // MARK: Going on

    /// Continues a turn that waited for approval, in this process or in another.
    ///
    /// - Parameters:
    ///   - pending: the value of `approvalPending`.
    ///   - decisions: the user's answers by call id. The approval handler is asked about calls without one.
    /// - Throws: the errors of ``response(_:)``, and `approvalPending` again if an answer is deferred again. A turn
    ///   that fails may be resumed again by this conversation. Calls that ran are not repeated.
    @discardableResult
    public func resume(
        _ pending: ChappiePendingTurn, decisions: [String: ChappieApprovalDecision] = [:]
    ) async throws -> ChappieResponse {
        try await begin(.resumption(pending, decisions: decisions), endsWithItsStream: false).responseOrCancel()
    }

    /// Continues a turn that waited for approval, and streams the answer.
    public func streamResuming(
        _ pending: ChappiePendingTurn, decisions: [String: ChappieApprovalDecision] = [:]
    ) -> AsyncThrowingStream<ChappieStreamEvent, any Error> {
        begin(.resumption(pending, decisions: decisions), endsWithItsStream: true).events
    }

    // MARK: The whole

    /// Asks the model to shorten the conversation, in a separate turn, as ``ChappieClient/compactContext()`` does. A
    /// store keeps all earlier messages.
    ///
    /// - Throws: the errors of ``send(_:)-(String)``. The conversation is unchanged then.
    public func compact() async throws {
        _ = try await begin(.compaction, endsWithItsStream: false).responseOrCancel()
    }

    /// Leaves the conversation after the earlier turns have ended. The next turn begins a new one. A store keeps the
    /// old one.
    ///
    /// - Throws: `CancellationError`.
    public func clear() async throws {
        _ = try await begin(.clearing, endsWithItsStream: false).responseOrCancel()
    }
}

/// A turn in progress, which can be read, awaited or ended.
///
/// ```swift
/// let handle = client.startStream(.user("Hello"))
/// for try await event in handle.events { … }
/// let response = try await handle.response()
/// ```
public struct ChappieStreamHandle: Sendable {
    /// The turn's events, for one reader. The turn continues if they are not read. Cancelling the task that reads them
    /// ends it, like ``cancel()``.
    public let events: AsyncThrowingStream<ChappieStreamEvent, any Error>
    let task: Task<ChappieResponse, any Error>
    /// The turn's control, or `nil` if the turn can only be cancelled.
    var control: TurnControl?

    /// Starts a turn that `work` runs. The stream buffers its events without a bound. They are at most one decoded
    /// answer, and a turn must be able to end (and let the next one start) even if its reader has stopped reading.
    ///
    /// - Parameters:
    ///   - endsWithItsStream: Whether releasing the events ends the turn. Cancelling their reader always does. Default
    ///     `false`.
    ///   - work: Emits the events, and returns the complete response.
    public init(
        endsWithItsStream: Bool = false,
        _ work:
            @escaping @Sendable (_ emit: @escaping @Sendable (ChappieStreamEvent) -> Void) async throws ->
            ChappieResponse
    ) {
        let (events, continuation) = AsyncThrowingStream<ChappieStreamEvent, any Error>.makeStream()
        // A stream that is released by its last owner ends the turn. If the turn also owns the stream, the stream ends
        // early only if its reader was cancelled.
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
            // Without this, a reader whose task is cancelled would see the stream end as if the answer were complete.
            continuation.finish(throwing: CancellationError())
            task.cancel()
        }
        self.events = events
        self.task = task
    }

    /// Ends the turn. ``events`` and ``response()`` throw `CancellationError`, and the turn is not added to the
    /// transcript.
    public func cancel() { task.cancel() }

    /// Ends the turn, and keeps the partial answer. See ``ChappieConversation/interrupt()``. A turn whose handle was
    /// created directly is cancelled.
    public func interrupt() {
        guard let control else { return task.cancel() }
        control.interrupt(task)
    }

    /// Returns the complete response after the turn has ended.
    ///
    /// - Throws: the errors of the conversation's `response(_:)`. Cancelling the waiting task does not end the turn.
    public func response() async throws -> ChappieResponse { try await task.value }

    /// Calls `body` after the turn has ended. The events are not kept for it, so their owner can still end the turn.
    @_spi(ChappieInternals) public func onEnd(_ body: @escaping @Sendable () async -> Void) {
        Task { [task] in
            _ = await task.result
            await body()
        }
    }

    /// Returns the complete response to the turn's only owner. Cancelling the waiting task ends the turn.
    @_spi(ChappieInternals) public func responseOrCancel() async throws -> ChappieResponse {
        try await withTaskCancellationHandler {
            try await task.value
        } onCancel: {
            task.cancel()
        }
    }
}
