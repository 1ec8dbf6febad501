@_spi(ChappieInternals) public import ChappieAuth
public import ChappieCore
import FoundationEssentials
import HTTPTypes

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
/// conversation as it was before.
///
/// The conversation belongs to the account that began it. When another one signs in to the slot, the next turn begins a
/// new conversation: with ids of its own, on a connection of its own, with nothing of what the other has said. A turn that
/// was running is not continued in the new account's name.
public actor ChappieClient {
    /// The model used when the configuration names none.
    public static let defaultModel = "gpt-5.5"

    let configuration: ChappieConfiguration
    /// Without authorization, like ``webSocket``.
    let transport: any HTTPTransport
    private let webSocket: (any WebSocketTransport)?
    private let socket: ConversationSocket
    private let entropy: any Entropy
    let credentials: CredentialManager
    let clock: any ChappieClock
    let mapping: ErrorMapping
    nonisolated let gate = SerialGate()

    private(set) var model: String
    /// `nil` before the first turn.
    private var conversation: Conversation?
    private var currentTurn: Task<ChappieResponse, any Error>?
    var modelList = ModelListCache()

    /// Composes a client of its parts; `Chappie.client()` does it with the platform's own.
    ///
    /// - Parameters:
    ///   - configuration: endpoints, model, harness, policies.
    ///   - transport: the plain transport; authorization is added here.
    ///   - webSocket: for ``ChappieStreamingTransportPolicy/prefersWebSocket``, on the same network policy; `nil` (the
    ///     default) leaves server-sent events.
    ///   - credentials: the manager of the configuration's credential slot, shared with its session.
    ///   - clock: for pauses and dates.
    ///   - entropy: for the ids of the session and the thread.
    public init(
        configuration: ChappieConfiguration = ChappieConfiguration(), transport: any HTTPTransport,
        webSocket: (any WebSocketTransport)? = nil, credentials: CredentialManager,
        clock: any ChappieClock = SystemClock(), entropy: any Entropy = SystemEntropy()
    ) {
        self.configuration = configuration
        self.credentials = credentials
        self.clock = clock
        self.transport = transport
        self.webSocket = webSocket
        self.entropy = entropy
        let profile = configuration.endpoints.profile
        socket = ConversationSocket(lifetime: profile.webSocket?.lifetime ?? .zero)
        mapping = ErrorMapping(table: profile.errorTable, host: profile.backend.host() ?? "")
        model = configuration.model
    }

    // MARK: Asking

    /// Asks and gives the answer's text.
    ///
    /// - Throws: ``ChappieClientError``; `CancellationError`.
    public func send(_ text: String) async throws -> String { try await send(.user(text)) }

    /// Asks and gives the answer's text. See ``send(_:)-(String)``.
    public func send(_ message: ChappieInputMessage) async throws -> String {
        try await response(ChappieResponseRequest(messages: [message])).outputText
    }

    /// Asks and gives the whole response. One that ended early (`status` is `.incomplete`, with an `incompleteReason`) is
    /// not an error: its text is there.
    ///
    /// - Throws: ``ChappieClientError``; `CancellationError`.
    public func response(_ request: ChappieResponseRequest) async throws -> ChappieResponse {
        let (_, task) = begin(request)
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
        begin(request, endsWithItsStream: true).0
    }

    /// Asks and gives a handle on the running turn, which goes on although nobody reads.
    public nonisolated func startStream(_ message: ChappieInputMessage) -> ChappieStreamHandle {
        let (events, task) = begin(ChappieResponseRequest(messages: [message]))
        return ChappieStreamHandle(events: events, task: task)
    }

    /// Ends the turn in progress, if there is one; those that wait go on.
    public func cancel() { currentTurn?.cancel() }

    /// Uses another model from the next turn on. The slug is not checked against the list.
    public func selectModel(_ slug: String) { model = slug }

    // MARK: The connection

    /// Opens the conversation's WebSocket and sends what every turn begins with, so that the next turn is quick. For the
    /// moment in which a person begins to type.
    ///
    /// Does nothing where the policy or the backend is for server-sent events. A prewarm that fails is no error: the next
    /// turn does without it. A turn that is asked for meanwhile waits for it, some seconds at most.
    public func prewarm() async {
        let ticket = gate.draw()
        defer { gate.leave(ticket) }
        do {
            try await gate.enter(ticket)
            let (runner, body) = try await prepare([], ChappieMessageOptions())
            guard body["input"]?.array?.isEmpty == false else { return }
            try await runner.prewarm(body)
        } catch {}  // Cancelled, or nobody is signed in: then nobody wants it.
    }

    /// Closes the conversation's WebSocket with a handshake, some seconds at most; the next turn opens another. Without
    /// this, letting go of the client drops the connection.
    public func disconnect() async { await socket.takeOut()?.close(.normal) }

    /// What a turn needs: the request's body, and who sends it in the conversation's account alone.
    private func prepare(
        _ messages: [ChappieInputMessage], _ options: ChappieMessageOptions
    ) async throws -> (TurnRunner, ChappieJSONObject) {
        let conversation = try await currentConversation()
        let authorization = credentials.authorization(onlyFor: conversation.account)
        let runner = TurnRunner(
            http: MiddlewareTransport(transport, middleware: [authorization]), webSocket: webSocket,
            authorization: authorization, socket: socket, builder: conversation.builder, mapping: mapping,
            clock: clock, entropy: entropy, backoff: configuration.rateLimitBackoff,
            policy: configuration.streamingTransportPolicy, deadlines: configuration.network.deadlines)
        let input = conversation.transcript.input(asking: messages)
        return (runner, conversation.builder.body(model: model, input: input, options: options))
    }

    /// The conversation to go on with: a new one when nobody has asked yet, and when another account has signed in.
    private func currentConversation() async throws -> Conversation {
        let account: ChappieAccountInfo
        do { account = try await accountInfo() } catch {
            // Nobody is there whose connection it could be.
            socket.drop()
            throw error
        }
        if let conversation {
            guard !conversation.account.isSameAccount(as: account) else { return conversation }
            // Whatever way the new one takes, the earlier account's connection is of no more use.
            if let connection = socket.takeOut() { Task { await connection.close(.normal) } }
        }
        let id = UUIDv7.make(now: clock.now, entropy: entropy)
        let new = Conversation(
            account: account,
            builder: ResponsesRequestBuilder(profile: configuration.endpoints.profile, sessionID: id, threadID: id),
            transcript: Transcript(harness: configuration.harness))
        conversation = new
        return new
    }

    // MARK: A turn

    /// Starts a turn. Its events wait in the stream, unbounded: at most one decoded answer, and a turn must be able to
    /// finish (and let the next one start) although its reader has stopped reading.
    private nonisolated func begin(
        _ request: ChappieResponseRequest, endsWithItsStream: Bool = false
    ) -> (AsyncThrowingStream<ChappieStreamEvent, any Error>, Task<ChappieResponse, any Error>) {
        let (events, continuation) = AsyncThrowingStream<ChappieStreamEvent, any Error>.makeStream()
        let ticket = gate.draw()
        let task = Task<ChappieResponse, any Error> {
            defer { gate.leave(ticket) }
            do {
                try await gate.enter(ticket)
                let response = try await run(request, continuation)
                continuation.finish()
                return response
            } catch {
                let error = Task.isCancelled ? CancellationError() : ErrorMapping.clientError(error)
                continuation.finish(throwing: error)
                throw error
            }
        }
        continuation.onTermination = { reason in
            guard case .cancelled = reason else { return }
            // A reader whose task is cancelled would otherwise see the stream end as if the answer were whole.
            continuation.finish(throwing: CancellationError())
            if endsWithItsStream { task.cancel() }
        }
        return (events, task)
    }

    private func run(
        _ request: ChappieResponseRequest,
        _ events: AsyncThrowingStream<ChappieStreamEvent, any Error>.Continuation
    ) async throws -> ChappieResponse {
        // Not on this actor: it stays free for others while the answer comes in.
        let inner = Task { @concurrent in
            let (runner, body) = try await prepare(request.messages, request.effectiveOptions)
            return try await runner.run(body) { events.yield($0) }
        }
        currentTurn = inner
        defer { currentTurn = nil }
        let response = try await withTaskCancellationHandler {
            try await inner.value
        } onCancel: {
            inner.cancel()
        }
        try Task.checkCancellation()
        if let call = response.items.first(where: \.isToolCall) {
            throw ChappieClientError.missingToolHandler(call.name ?? "")
        }
        conversation?.transcript.append(request.messages, answer: response)
        events.yield(.completed(response))
        return response
    }
}

extension ChappieResponseRequest {
    /// The request's own options over those of its last message.
    fileprivate var effectiveOptions: ChappieMessageOptions {
        let last = messages.last?.options ?? ChappieMessageOptions()
        return ChappieMessageOptions(
            reasoningEffort: options.reasoningEffort == .automatic ? last.reasoningEffort : options.reasoningEffort,
            verbosity: options.verbosity ?? last.verbosity)
    }
}
