@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieCurl
import Synchronization

/// The connection in its user's hands; letting go of it drops the connection, which the network loop holds otherwise.
final class CurlWebSocketConnection: WebSocketConnection {
    private let driver: WebSocketDriver
    /// Lets messages into the outbox in the order of the calls, so that small ones don't overtake a large one forever.
    private let senders = AsyncLock()

    init(_ driver: WebSocketDriver) { self.driver = driver }

    deinit { driver.drop() }

    var isOpen: Bool { driver.act { session, _ in session.isOpen } }

    func send(_ message: WebSocketMessage) async throws {
        try Task.checkCancellation()
        let ticket = senders.reserve()
        try await senders.enter(ticket)
        let end: Int
        do {
            defer { senders.leave(ticket) }
            end = try await driver.wait { session, _ in session.send(message) }
        }
        driver.wake()
        try await driver.wait(until: .writingStops) { session, now in
            session.isWritten(end, at: now) ? .success(()) : nil
        }
    }

    func receive(within allowance: Duration?) async throws -> WebSocketInbound {
        try Task.checkCancellation()
        let deadline = allowance.map { LoopClock.now + $0.nanoseconds }
        let (inbound, resumesReading) = try await driver.wait(until: deadline.map { .moment($0) }) { session, now in
            if let result = session.takeInbound() { return result }
            guard let deadline, let allowance, now >= deadline else { return nil }
            return .failure(session.receiveTimeOut(after: allowance))
        }
        if resumesReading { driver.wake() }
        return inbound
    }

    func close(_ reason: WebSocketCloseReason) async {
        driver.act { session, now in session.close(reason, at: now) }
        driver.wake()
        // A cancelled task waits no longer; the closing handshake goes on.
        try? await driver.wait { session, _ in session.isOver ? .success(()) : nil }
    }

    func cancel() { driver.drop() }
}

/// One WebSocket on the network loop: the shell between curl's socket on one side and its users' tasks on the other.
///
/// All state is under one lock. A task that waits has left a question; after each change it is asked again, and the tasks
/// that got their answers are resumed once the lock is let go.
final class WebSocketDriver: NetworkMember {
    /// When a question has to be asked again although nothing has happened.
    enum Deadline: Sendable {
        case moment(Int)
        /// ``WebSocketSession/writingDeadline``.
        case writingStops
    }

    private struct Question {
        let id: Int
        let deadline: Deadline?
        /// The call that resumes the task, once there is an answer.
        let ask: @Sendable (inout WebSocketSession, _ now: Int) -> (@Sendable () -> Void)?
        let cancel: @Sendable () -> Void
    }

    private struct Shared: ~Copyable {
        var session: WebSocketSession
        var questions: [Question] = []
        var lastID = 0
        /// The moment of the next visit that the loop has been told.
        var promisedVisit: Int?

        mutating func answers(at now: Int) -> [@Sendable () -> Void] {
            var answers: [@Sendable () -> Void] = []
            var open: [Question] = []
            for question in questions {
                if let answer = question.ask(&session, now) { answers.append(answer) } else { open.append(question) }
            }
            if !answers.isEmpty { questions = open }
            return answers
        }

        func moment(of question: Question) -> Int? {
            switch question.deadline {
            case nil: nil
            case .moment(let moment): moment
            case .writingStops: session.writingDeadline
            }
        }
    }

    let isConnection = true
    private let route: CurlRoute
    private let connectDeadline: Duration
    private let loop: NetworkLoop
    private let shared: Mutex<Shared>

    init(
        _ handshake: consuming sending WebSocketHandshake, on route: CurlRoute, deadlines: ChappieDeadlines,
        limits: WebSocketLimits, loop: NetworkLoop
    ) {
        self.route = route
        connectDeadline = deadlines.connect
        self.loop = loop
        shared = Mutex(
            Shared(
                session: WebSocketSession(
                    handshake, host: route.origin.label, deadlines: deadlines, limits: limits,
                    startedAt: LoopClock.now)))
    }

    // MARK: The users' side

    private func locked<Value: Sendable>(_ change: (inout Shared) -> Value) -> Value {
        shared.withLock { change(&$0) }
    }

    /// Changes the state, then resumes the tasks that this concerns.
    @discardableResult
    func act<Value: Sendable>(_ change: (inout WebSocketSession, _ now: Int) -> Value) -> Value {
        let now = LoopClock.now
        let (value, answers) = shared.withLock { shared in (change(&shared.session, now), shared.answers(at: now)) }
        for answer in answers { answer() }
        return value
    }

    /// Asks at once, and again after each change, until there is an answer.
    ///
    /// - Throws: what the answer says; `CancellationError` when the task is cancelled.
    func wait<Value: Sendable>(
        until deadline: Deadline? = nil,
        for ask: @escaping @Sendable (inout WebSocketSession, _ now: Int) -> Result<Value, any Error>?
    ) async throws -> Value {
        let now = LoopClock.now
        let (ready, id) = shared.withLock { shared -> (Result<Value, any Error>?, Int) in
            shared.lastID += 1
            return (ask(&shared.session, now), shared.lastID)
        }
        if let ready { return try ready.get() }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Value, any Error>) in
                let question = Question(
                    id: id, deadline: deadline,
                    ask: { session, now in
                        guard let result = ask(&session, now) else { return nil }
                        return { continuation.resume(with: result) }
                    },
                    cancel: { continuation.resume(throwing: CancellationError()) })
                add(question)
            }
        } onCancel: {
            let question = shared.withLock { shared in
                shared.questions.firstIndex { $0.id == id }.map { shared.questions.remove(at: $0) }
            }
            question?.cancel()
        }
    }

    private func add(_ question: Question) {
        let now = LoopClock.now
        let (answer, needsVisit) = shared.withLock { shared -> ((@Sendable () -> Void)?, Bool) in
            // Cancelled between the two: the handler has found nothing to remove.
            if Task.isCancelled { return (question.cancel, false) }
            if let answer = question.ask(&shared.session, now) { return (answer, false) }
            shared.questions.append(question)
            let moment = shared.moment(of: question)
            return (nil, moment.map { $0 < shared.promisedVisit ?? .max } ?? false)
        }
        answer?()
        if needsVisit { wake() }
    }

    /// Starts the attempt and waits for the answer to the handshake.
    func open() async throws -> WebSocketSession.Opening {
        try Task.checkCancellation()
        try loop.add(self)
        return try await dropped(onCancel: { session, _ in session.opening })
    }

    /// The next piece of a refusal's body.
    func nextChunk() async throws -> [UInt8]? { try await dropped(onCancel: { session, _ in session.takeBody() }) }

    private func dropped<Value: Sendable>(
        onCancel ask: @escaping @Sendable (inout WebSocketSession, _ now: Int) -> Result<Value, any Error>?
    ) async throws -> Value {
        do {
            return try await wait(for: ask)
        } catch let error as CancellationError {
            drop()
            throw error
        }
    }

    /// Asks the loop for a visit.
    func wake() { loop.wake(self) }

    /// Ends everything at once; the loop closes the socket.
    func drop() {
        let wasOver = act { session, _ in
            defer { session.drop() }
            return session.isOver
        }
        if !wasOver { wake() }
    }

    // MARK: The loop's side

    func joined(_ handle: EasyHandle) -> Bool {
        // It may have been dropped on the way here.
        guard !locked({ $0.session.isOver }) else { return false }
        handle.connect(route, deadline: connectDeadline)
        return true
    }

    func ended(_ handle: EasyHandle, with result: CurlResult) {
        let error = CurlFailure(result, of: handle, at: .connect, on: route).error
        act { session, _ in session.failed(error) }
    }

    func loopStopped() {
        act { session, _ in
            session.failed(.unavailable("the connection pool has been shut down", host: route.origin.label))
        }
    }

    func visited(_ handle: EasyHandle, _ visit: LoopVisit) -> LoopVerdict {
        if visit.isConnected {
            let reads = locked { shared in
                shared.session.connected(at: visit.now)
                return shared.session.beginsReading(isReadable: visit.isReadable, at: visit.now)
            }
            flush(handle, at: visit.now)
            if reads {
                read(handle, visit)
                // Pongs, and the answer to a close frame.
                flush(handle, at: visit.now)
            }
        }
        let now = visit.now
        let (verdict, answers) = locked { shared -> (LoopVerdict, [@Sendable () -> Void]) in
            settle(&shared.session, handle, at: now)
            let answers = shared.answers(at: now)
            // A receiver may have emptied the inbox.
            if !answers.isEmpty { settle(&shared.session, handle, at: now) }
            let deadline = shared.questions.compactMap { shared.moment(of: $0) }.min()
            let verdict = shared.session.verdict(at: now, deadline: deadline)
            if case .stay(_, _, let until) = verdict { shared.promisedVisit = until }
            return (verdict, answers)
        }
        for answer in answers { answer() }
        return verdict
    }

    private func settle(_ session: inout WebSocketSession, _ handle: EasyHandle, at now: Int) {
        session.settle(at: now) { allowance in
            CurlFailure(.timedOut, of: handle, at: .connect, on: route).timeOut(allowance: allowance)
        }
    }

    /// How many pieces are read or written before other connections have their turn.
    private static let piecesPerVisit = 16

    /// Writes what the socket takes.
    private func flush(_ handle: EasyHandle, at now: Int) {
        for _ in 0..<Self.piecesPerVisit {
            guard let (bytes, range) = locked({ $0.session.outbox.nextPiece() }) else { return }
            switch bytes.withUnsafeBytes({ handle.send(UnsafeRawBufferPointer(rebasing: $0[range])) }) {
            case .bytes(let count): locked { $0.session.wrote(count, at: now) }
            case .nothing: return locked { $0.session.outbox.blocked(at: now) }
            case .failed: return locked { $0.session.writingBroke() }
            }
        }
    }

    /// Reads what is there and wanted.
    private func read(_ handle: EasyHandle, _ visit: LoopVisit) {
        var hasMore = true
        for _ in 0..<Self.piecesPerVisit where hasMore {
            let received = handle.receive(into: visit.buffer)
            hasMore = locked { shared in
                switch received {
                case .bytes(let count):
                    shared.session.received(UnsafeRawBufferPointer(rebasing: visit.buffer[..<count]), at: visit.now)
                    return !(isPlain && count < visit.buffer.count)
                case .nothing: shared.session.nothingToRead()
                case .end: shared.session.connectionEnded(at: visit.now)
                case .failed: shared.session.connectionBroke()
                }
                return false
            }
            if hasMore, !locked({ $0.session.wantsRead }) { break }
        }
        locked { $0.session.endedReading(hasMore: hasMore, at: visit.now) }
    }

    /// Whether nothing between us and the socket keeps bytes back, so that a short read has emptied it. TLS gives a record
    /// at a time, and holds others that the socket knows nothing of.
    private var isPlain: Bool { route.origin.scheme == .http && route.isDirect }
}
