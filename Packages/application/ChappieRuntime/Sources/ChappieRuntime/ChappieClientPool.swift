@_spi(ChappieInternals) public import ChappieClient
@_spi(ChappieInternals) public import ChappieCore

/// The conversations of a server's users, with one client for each user and thread.
///
/// ```swift
/// let pool = ChappieClientPool { user in
///     let configuration = ChappieConfiguration(keychainService: "com.example.server", keychainAccount: user)
///     return Chappie.client(configuration: configuration, store: signIns).runtime(store: threads(of: user))
/// }
/// for try await event in try await pool.stream("Hello", thread: "main", for: user) { … }
/// ```
/// A client costs memory and a connection, so the pool releases clients that nobody uses. The conversation then
/// continues from its thread store when the user asks again. Turns of one thread run one at a time, and other turns run
/// at the same time. ``stop(within:)`` ends the pool before the program ends.
public actor ChappieClientPool {
    /// The limits of a pool.
    public struct Limits: Sendable, Hashable {
        /// The maximum number of clients in the pool. A new one replaces the one with the longest time since its use. While more
        /// clients than this are in use, the pool has more. Default 2,000, which take about 0.7 GB.
        public var clients: Int
        /// The time after which an unused client is released. Default 5 minutes.
        public var idle: Duration
        /// The number of unfinished turns that a user may have in addition to the first one, in all threads together.
        /// Default 2.
        public var turnsWaiting: Int
        /// The number of unfinished turns of all users. Default 500.
        public var turnsTotal: Int

        /// Creates limits with the given values.
        public init(
            clients: Int = 2_000, idle: Duration = .seconds(300), turnsWaiting: Int = 2, turnsTotal: Int = 500
        ) {
            self.clients = clients
            self.idle = idle
            self.turnsWaiting = turnsWaiting
            self.turnsTotal = turnsTotal
        }
    }

    private struct Key: Hashable, Sendable {
        let user: String
        let thread: String
    }

    /// A client of the pool, from the moment when it is needed.
    private struct Conversation {
        let id: Int
        let runtime: Promise<ChappieRuntime>
        /// The number of turns and other calls that use it.
        var uses = 0
        var lastUse: Duration
    }

    /// A use of a conversation, which keeps it in the pool.
    private struct Place: Sendable {
        let key: Key
        let conversation: Int
        let isTurn: Bool
    }

    private let limits: Limits
    private let clock: any ChappieClock
    private let makeRuntime: @Sendable (_ user: String) async throws -> ChappieRuntime
    private var conversations: [Key: Conversation] = [:]
    private var lastID = 0
    /// The number of unfinished turns of each user that has any.
    private var turns: [String: Int] = [:]
    /// The number of unfinished turns, for a gauge.
    public private(set) var turnCount = 0
    private var useCount = 0
    private var release: Task<Void, Never>?
    private var isStopping = false
    /// Is fulfilled when the last use ends while the pool stops.
    private var lastUseEnded: Promise<Void>?

    /// Creates a pool without clients.
    ///
    /// - Parameters:
    ///   - limits: The limits for clients and turns.
    ///   - clock: The clock that measures the idle time.
    ///   - runtime: Creates a runtime of the user, with a new client and with the store of the user's threads. It is
    ///     called once for each thread that is opened.
    public init(
        limits: Limits = Limits(), clock: any ChappieClock = SystemClock(),
        runtime: @escaping @Sendable (_ user: String) async throws -> ChappieRuntime
    ) {
        self.limits = limits
        self.clock = clock
        makeRuntime = runtime
    }

    deinit { release?.cancel() }

    // MARK: Turns

    /// Sends a message in a thread of the user, and returns the answer's text. The turn is stored when this method
    /// returns.
    ///
    /// - Parameters:
    ///   - text: The message.
    ///   - thread: The id of the thread. If the user's store has no such thread, it begins with this turn.
    ///   - user: The user, as your program names them.
    /// - Throws: ``ChappieClientError/tooManyTurns`` if a limit is reached, ``ChappieClientError/stopping`` after
    ///   ``stop(within:)``, the error of the function that creates the runtime, and the errors of
    ///   `ChappieConversation.send(_:)`.
    @discardableResult
    public nonisolated func send(_ text: String, thread: String, for user: String) async throws -> String {
        try await use(Key(user: user, thread: thread), isTurn: true) { try await $0.send(text) }
    }

    /// Sends a request in a thread of the user, and returns the complete response. See ``send(_:thread:for:)``.
    public nonisolated func response(
        _ request: ChappieResponseRequest, thread: String, for user: String
    ) async throws -> ChappieResponse {
        try await use(Key(user: user, thread: thread), isTurn: true) { try await $0.response(request) }
    }

    /// Sends a message in a thread of the user, and streams the answer. The turn has started when this method returns,
    /// and releasing the stream ends it. See ``send(_:thread:for:)``.
    public nonisolated func stream(
        _ text: String, thread: String, for user: String
    ) async throws -> AsyncThrowingStream<ChappieStreamEvent, any Error> {
        try await streamResponse(ChappieResponseRequest(messages: [.user(text)]), thread: thread, for: user)
    }

    /// Sends a request in a thread of the user, and streams the answer. See ``stream(_:thread:for:)``.
    public nonisolated func streamResponse(
        _ request: ChappieResponseRequest, thread: String, for user: String
    ) async throws -> AsyncThrowingStream<ChappieStreamEvent, any Error> {
        let (place, runtime) = try await enter(Key(user: user, thread: thread), isTurn: true)
        let handle = runtime.begin(.new(request), endsWithItsStream: true)
        handle.onEnd { await self.leave(place) }
        return handle.events
    }

    /// Runs `body` with the runtime of a thread, which stays in the pool in the meantime. Use it to resume, steer or
    /// interrupt a turn, and to manage the thread. Turns that `body` starts do not count for the limits.
    ///
    /// - Throws: The errors of ``send(_:thread:for:)`` except `tooManyTurns`, and the errors of `body`.
    public nonisolated func withRuntime<Value: Sendable>(
        thread: String, for user: String, _ body: (ChappieRuntime) async throws -> Value
    ) async throws -> Value {
        try await use(Key(user: user, thread: thread), isTurn: false, body)
    }

    private nonisolated func use<Value: Sendable>(
        _ key: Key, isTurn: Bool, _ body: (ChappieRuntime) async throws -> Value
    ) async throws -> Value {
        let (place, runtime) = try await enter(key, isTurn: isTurn)
        do {
            let value = try await body(runtime)
            await leave(place)
            return value
        } catch {
            await leave(place)
            throw error
        }
    }

    /// The number of clients that the pool keeps, for a gauge.
    public var clientCount: Int { conversations.count }

    // MARK: Stopping

    /// Ends the pool, and returns when all turns are stored and all connections are closed.
    ///
    /// From now on new turns throw ``ChappieClientError/stopping``. Turns that have not ended within `limit` are
    /// interrupted, and their text so far is kept in the thread. After that, storing the turns and the tokens takes at
    /// most 75 seconds, and almost always no time.
    ///
    /// - Parameter limit: The time for unfinished turns. Default 25 seconds.
    public func stop(within limit: Duration = .seconds(25)) async {
        isStopping = true
        release?.cancel()
        let opened = Array(conversations.values.map(\.runtime))
        if await !uses(endWithin: limit) {
            for runtime in opened where runtime.isFulfilled { try? await runtime.value().interruptAll() }
        }
        let (clock, late) = (clock, CancellationError())
        _ = try? await withDeadline(.seconds(75), clock: clock, late: late) {
            _ = await self.uses(endWithin: nil)
            var rest = opened.filter(\.isFulfilled)[...]
            await withTaskGroup(of: Void.self) { group in
                for running in 0... {
                    guard let runtime = rest.popFirst() else { break }
                    if running >= 4 { await group.next() }
                    group.addTask {
                        guard let runtime = try? await runtime.value() else { return }
                        await runtime.settleCredentials()
                        _ = try? await withDeadline(.seconds(2), clock: clock, late: late) {
                            await runtime.disconnect()
                        }
                    }
                }
            }
        }
        conversations = [:]
    }

    /// Waits until nothing uses a client, for at most `limit`, and returns whether that is so.
    private func uses(endWithin limit: Duration?) async -> Bool {
        guard useCount > 0 else { return true }
        let ended = lastUseEnded ?? Promise<Void>()
        lastUseEnded = ended
        let end: ()? = try? await withDeadline(limit, clock: clock, late: CancellationError()) {
            try await ended.value()
        }
        return end != nil
    }

    // MARK: Clients

    /// Returns the runtime of a conversation, which stays in the pool until ``leave(_:)``.
    private func enter(_ key: Key, isTurn: Bool) async throws -> (Place, ChappieRuntime) {
        guard !isStopping else { throw ChappieClientError.stopping }
        if isTurn {
            let ofUser = turns[key.user, default: 0]
            guard turnCount < limits.turnsTotal, ofUser <= limits.turnsWaiting else {
                throw ChappieClientError.tooManyTurns
            }
            turns[key.user] = ofUser + 1
            turnCount += 1
        }
        useCount += 1
        var conversation = conversations[key] ?? open(key)
        conversation.uses += 1
        conversations[key] = conversation
        releaseSurplus()
        let place = Place(key: key, conversation: conversation.id, isTurn: isTurn)
        do {
            let runtime = try await conversation.runtime.value()
            try await runtime.continueThread(key.thread)
            try Task.checkCancellation()
            guard !isStopping else { throw ChappieClientError.stopping }
            return (place, runtime)
        } catch {
            leave(place)
            throw error
        }
    }

    private func leave(_ place: Place) {
        if place.isTurn {
            let others = turns[place.key.user, default: 1] - 1
            turns[place.key.user] = others > 0 ? others : nil
            turnCount -= 1
        }
        useCount -= 1
        if conversations[place.key]?.id == place.conversation {
            conversations[place.key]?.uses -= 1
            conversations[place.key]?.lastUse = clock.elapsed
        }
        if useCount == 0 { lastUseEnded?.fulfil(.success(())) }
        releaseSurplus()
        planRelease()
    }

    private func open(_ key: Key) -> Conversation {
        lastID += 1
        let conversation = Conversation(id: lastID, runtime: Promise(), lastUse: clock.elapsed)
        // The callers wait for it, and one that is cancelled does not end it for the others.
        Task.detached { [makeRuntime, runtime = conversation.runtime] in
            do {
                runtime.fulfil(.success(try await makeRuntime(key.user)))
            } catch {
                await self.forget(key, conversation.id)
                runtime.fulfil(.failure(error))
            }
        }
        return conversation
    }

    private func forget(_ key: Key, _ id: Int) { if conversations[key]?.id == id { conversations[key] = nil } }

    /// Releases the least recently used clients while there are too many.
    private func releaseSurplus() {
        while conversations.count > limits.clients {
            let unused = conversations.filter { $0.value.uses == 0 }
            guard let oldest = unused.min(by: { $0.value.lastUse < $1.value.lastUse }) else { return }
            close(oldest.key)
        }
    }

    /// Waits until the next client has been idle for long enough, unless that is planned already.
    private func planRelease() {
        guard release == nil, !isStopping else { return }
        let unused = conversations.values.lazy.filter { $0.uses == 0 }
        guard let first = unused.map(\.lastUse).min() else { return }
        let pause = max(.zero, first + limits.idle - clock.elapsed)
        release = Task { [weak self, clock] in
            guard (try? await clock.sleep(for: pause)) != nil else { return }
            await self?.releaseIdle()
        }
    }

    private func releaseIdle() {
        release = nil
        let now = clock.elapsed
        for (key, conversation) in conversations where conversation.uses == 0 {
            if now - conversation.lastUse >= limits.idle { close(key) }
        }
        planRelease()
    }

    /// Takes a client out of the pool, and closes its connection.
    private func close(_ key: Key) {
        guard let runtime = conversations.removeValue(forKey: key)?.runtime, runtime.isFulfilled else { return }
        Task.detached { try? await runtime.value().disconnect() }
    }
}
