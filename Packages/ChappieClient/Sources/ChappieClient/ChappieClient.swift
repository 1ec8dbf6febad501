@_spi(ChappieInternals) public import ChappieAuth
@_spi(ChappieInternals) public import ChappieCore
public import Logging
import Synchronization

/// Talks to the model: one conversation, one turn at a time.
///
/// ```swift
/// let client = Chappie.client()
/// for try await event in client.stream("Hello") {
///     if case .textDelta(let text) = event { print(text, terminator: "") }
/// }
/// ```
///
/// A second call while a turn runs waits for it, in the order of the calls. A turn that fails or is cancelled leaves the
/// conversation as it was before. The conversation belongs to the account that began it: when another one signs in to the
/// slot, the next turn begins a new conversation, with ids and a connection of its own. A turn that was running is not
/// continued in the new account's name.
public actor ChappieClient {
    /// The model used when the configuration names none.
    public static let defaultModel = "gpt-5.5"

    let configuration: ChappieConfiguration
    /// Without authorization, like ``webSocket``.
    let transport: any HTTPTransport
    private let webSocket: (any WebSocketTransport)?
    private let connection: ConversationConnection
    private let entropy: any Entropy
    let credentials: CredentialManager
    let modelCache: (any ChappieModelCache)?
    let clock: any ChappieClock
    let middleware: [any HTTPMiddleware]
    let log: TurnLog

    private let queue = AsyncLock()
    /// The turns that were asked for and are not over, in the order in which they were asked for.
    private let turns = Mutex<[(ticket: AsyncLock.Ticket, task: Task<ChappieResponse, any Error>)]>([])
    private var prewarming: Task<Void, Never>?
    /// Retires connections that were authorized by a sign-in that is gone.
    private let signOutWatcher: Task<Void, Never>

    private var model: String
    /// `nil` before the first turn.
    private var conversation: Conversation?
    /// The models as they were listed last, and the tag they came with.
    var modelList: (account: ChappieAccountInfo, tag: String, models: [ChappieModel])?

    /// Composes a client of its parts; `Chappie.client()` does it with the platform's own.
    ///
    /// Authorization is added here. Without a `webSocket` answers come as server-sent events. `credentials` is the manager
    /// of the configuration's credential slot, shared with its session; `clock` is for pauses and dates, `entropy` for ids.
    ///
    /// - Parameters:
    ///   - modelCache: keeps model lists between runs. Default none.
    ///   - middleware: sees every HTTP exchange with the backend, the first one outermost: turns over server-sent events,
    ///     models, usage. Not the messages of a WebSocket. It works on requests before the sign-in's header fields are
    ///     added, so that it never sees a token; a request that it sends to another host is refused. Default none.
    ///   - logger: told at level `debug` why a turn waited, was sent again or changed to server-sent events; never what was
    ///     said. Default none.
    public init(
        configuration: ChappieConfiguration = ChappieConfiguration(), transport: any HTTPTransport,
        webSocket: (any WebSocketTransport)? = nil, credentials: CredentialManager,
        clock: any ChappieClock = SystemClock(), entropy: any Entropy = SystemEntropy(),
        modelCache: (any ChappieModelCache)? = nil, middleware: [any HTTPMiddleware] = [], logger: Logger? = nil
    ) {
        self.configuration = configuration
        self.modelCache = modelCache
        self.middleware = middleware
        log = TurnLog(logger: logger)
        self.credentials = credentials
        self.clock = clock
        self.transport = transport
        self.webSocket = webSocket
        self.entropy = entropy
        model = configuration.model
        let connection = ConversationConnection(
            lifetime: configuration.endpoints.profile.webSocket?.lifetime ?? .zero)
        self.connection = connection
        signOutWatcher = Task { [weak connection, signOuts = credentials.signOuts] in
            for await _ in signOuts { await connection?.retire()?.close(.normal) }
        }
    }

    deinit { signOutWatcher.cancel() }

    // MARK: Asking

    /// Asks and gives the answer's text.
    ///
    /// - Throws: ``ChappieClientError``, ``ChappieClientError/responseFailed(_:)`` for an answer that ended early among
    ///   them: the text so far is in its response, and in the conversation; `CancellationError`.
    public func send(_ text: String) async throws -> String { try await send(.user(text)) }

    /// Asks and gives the answer's text. See ``send(_:)-(String)``.
    public func send(_ message: ChappieInputMessage) async throws -> String {
        let response = try await response(ChappieResponseRequest(messages: [message]))
        guard response.status != .incomplete else { throw ChappieClientError.responseFailed(response) }
        return response.outputText
    }

    /// Asks and gives the whole response. One that ended early (`status` is `.incomplete`, with an `incompleteReason`) is
    /// not an error: its text is there.
    ///
    /// - Throws: ``ChappieClientError``; `CancellationError`.
    public func response(_ request: ChappieResponseRequest) async throws -> ChappieResponse {
        let (_, task) = begin(request, endsWithItsStream: false)
        return try await withTaskCancellationHandler {
            try await task.value
        } onCancel: {
            task.cancel()
        }
    }

    /// Asks and streams the answer. The turn starts now; letting go of the stream ends it.
    ///
    /// The stream throws ``ChappieClientError``, or `CancellationError` when the reading task is cancelled, within 100 ms.
    public nonisolated func stream(_ text: String) -> AsyncThrowingStream<ChappieStreamEvent, any Error> {
        stream(.user(text))
    }

    /// Asks and streams the answer. See ``stream(_:)-(String)``.
    public nonisolated func stream(
        _ message: ChappieInputMessage
    ) -> AsyncThrowingStream<ChappieStreamEvent, any Error> {
        streamResponse(ChappieResponseRequest(messages: [message]))
    }

    /// Asks and streams the answer. See ``stream(_:)-(String)``.
    public nonisolated func streamResponse(
        _ request: ChappieResponseRequest
    ) -> AsyncThrowingStream<ChappieStreamEvent, any Error> {
        begin(request, endsWithItsStream: true).events
    }

    /// Asks and gives a handle on the running turn, which goes on when its events are not read.
    public nonisolated func startStream(_ message: ChappieInputMessage) -> ChappieStreamHandle {
        let (events, task) = begin(ChappieResponseRequest(messages: [message]), endsWithItsStream: false)
        return ChappieStreamHandle(events: events, task: task)
    }

    /// Ends the newest turn, whether it runs, waits, or was asked for a moment ago. Those before it go on; a further call
    /// ends the newest of them.
    public func cancel() { turns.withLock { $0.popLast() }?.task.cancel() }

    /// Uses another model from the next turn on. The slug is not checked against the list.
    public func selectModel(_ slug: String) { model = slug }

    // MARK: The connection

    /// Opens the conversation's WebSocket and sends what every turn begins with, so that the next turn is quick. For the
    /// moment in which the user begins to type.
    ///
    /// Does nothing while a turn runs or waits, and where the policy or the backend is for server-sent events. A prewarm
    /// that fails is no error: the next turn does without it. A turn that is asked for meanwhile ends it.
    public func prewarm() async {
        guard prewarming == nil, turns.withLock(\.isEmpty) else { return }
        let task = Task { @concurrent in
            // Without a sign-in there is nothing to warm.
            guard let (runner, body) = try? await prepare([], ChappieMessageOptions()),
                body["input"]?.array?.isEmpty == false
            else { return }
            await runner.prewarm(body)
        }
        prewarming = task
        await withTaskCancellationHandler {
            await task.value
        } onCancel: {
            task.cancel()
        }
        prewarming = nil
    }

    /// Closes the conversation's WebSocket with a handshake, some seconds at most; the next turn opens another. The
    /// connection of a turn that runs is closed when the turn is over. Without this, letting go of the client drops the
    /// connection.
    public func disconnect() async { await connection.retire()?.close(.normal) }

    /// A request in flight can't be overtaken on the same connection, so a turn does without an unfinished prewarm.
    private func endPrewarm() async {
        prewarming?.cancel()
        await prewarming?.value
    }

    // MARK: A turn

    /// Starts a turn. Its events wait in the stream, unbounded: at most one decoded answer, and a turn must be able to
    /// finish (and let the next one start) although its reader has stopped reading.
    private nonisolated func begin(
        _ request: ChappieResponseRequest, endsWithItsStream: Bool
    ) -> (events: AsyncThrowingStream<ChappieStreamEvent, any Error>, task: Task<ChappieResponse, any Error>) {
        let (events, continuation) = AsyncThrowingStream<ChappieStreamEvent, any Error>.makeStream()
        // A stream that ends with its last owner ends the turn. A handle's stream is owned by the turn as well, so that
        // its early end means a reader that was cancelled.
        let owned = endsWithItsStream ? nil : events
        let task = turns.withLock { turns in
            let ticket = queue.reserve()
            let task = Task<ChappieResponse, any Error> {
                defer {
                    queue.leave(ticket)
                    self.turns.withLock { $0.removeAll { $0.ticket == ticket } }
                    withExtendedLifetime(owned) {}
                }
                do {
                    try await queue.enter(ticket)
                    let response = try await run(request) { continuation.yield($0) }
                    continuation.finish()
                    return response
                } catch {
                    let error = Task.isCancelled ? CancellationError() : ChappieClientError.wrapping(error)
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

    /// Not on this actor: it stays free for others while the answer comes in.
    @concurrent
    private nonisolated func run(
        _ request: ChappieResponseRequest, emit: @escaping @Sendable (ChappieStreamEvent) -> Void
    ) async throws -> ChappieResponse {
        await endPrewarm()
        // The request's own options go before those of its last message.
        var options = request.messages.last?.options ?? request.options
        if request.options.reasoningEffort != .automatic { options.reasoningEffort = request.options.reasoningEffort }
        options.verbosity = request.options.verbosity ?? options.verbosity
        let (runner, body) = try await prepare(request.messages, options)
        let response = try await runner.run(body, emit: emit)
        try Task.checkCancellation()
        if let call = response.items.first(where: \.isToolCall) {
            throw ChappieClientError.missingToolHandler(call.name ?? "")
        }
        await keep(request.messages, response)
        emit(.completed(response))
        return response
    }

    private func keep(_ messages: [ChappieInputMessage], _ response: ChappieResponse) {
        conversation?.append(messages, answer: response)
    }

    /// The parts of a turn: the request's body, and a runner that sends it in the conversation's account alone.
    private func prepare(
        _ messages: [ChappieInputMessage], _ options: ChappieMessageOptions
    ) async throws -> (TurnRunner, ChappieJSONObject) {
        let conversation = try await currentConversation()
        let runner = TurnRunner(
            configuration: configuration, http: transport, middleware: middleware, webSocket: webSocket,
            authorization: credentials.authorization(onlyFor: conversation.account), conversation: conversation,
            connection: connection, clock: clock, entropy: entropy, log: log)
        return (runner, conversation.body(asking: messages, model: model, options: options))
    }

    /// The conversation to go on with: a new one at first, and when another account has signed in.
    private func currentConversation() async throws -> Conversation {
        let account: ChappieAccountInfo
        do { account = try await accountInfo() } catch {
            // No account is left that the connection could belong to.
            connection.retire()?.cancel()
            throw error
        }
        if let conversation {
            guard !conversation.account.isSameAccount(as: account) else { return conversation }
            // Whichever transport the new one takes, the earlier account's connection is of no more use.
            if let retired = connection.retire() { Task { await retired.close(.normal) } }
        }
        let id = UUIDv7.make(now: clock.now, entropy: entropy)
        let new = Conversation(account: account, id: id, configuration: configuration)
        conversation = new
        return new
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
    /// The turn's events, for one reader. Not reading them does not hold the turn up; cancelling the task that reads them
    /// ends it, like ``cancel()``.
    public let events: AsyncThrowingStream<ChappieStreamEvent, any Error>
    fileprivate let task: Task<ChappieResponse, any Error>

    /// Ends the turn: ``events`` and ``response()`` throw `CancellationError`, and the transcript stays without it.
    public func cancel() { task.cancel() }

    /// The whole response, once the turn is over.
    ///
    /// - Throws: ``ChappieClientError``; `CancellationError`. Cancelling the waiting task does not end the turn.
    public func response() async throws -> ChappieResponse { try await task.value }
}
