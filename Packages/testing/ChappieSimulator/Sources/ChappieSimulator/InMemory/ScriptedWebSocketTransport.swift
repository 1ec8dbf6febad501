@_spi(ChappieInternals) public import ChappieCore
public import HTTPTypes
import Synchronization

/// A ``WebSocketTransport`` in memory that plays scripted servers and records all openings and messages.
///
/// ```swift
/// let transport = ScriptedWebSocketTransport(openings: [
///     .refused(.response(status: .serviceUnavailable, body: "later")),
///     .opened(replies: [
///         [.deliver(["one", "two"]), .cut],       // in answer to the first message
///     ]),
///     .opened { message, number in [.deliver(["echo \(number)"]), .close(.normal)] },
/// ])
/// …
/// #expect(transport.receivedOpenings.count == 3)
/// #expect(transport.peers[0].sentMessages == [.text("hello")])
/// ```
///
/// It fulfils ``WebSocketTransportContract``, as the real adapter does. Plain `ws` and `http` go only to loopback. The
/// end of a connection is reported after everything that arrived before it, and again at every further call.
public final class ScriptedWebSocketTransport: WebSocketTransport {
    /// Returns the script for an opening.
    public typealias Script = @Sendable (Opening) async throws -> ScriptedWebSocketOpening

    /// One request to the transport.
    public struct Opening: Sendable, Hashable {
        /// The address.
        public let url: URL
        /// The header fields as they were given, without the fields of the handshake itself.
        public let headerFields: HTTPFields
    }

    private struct Record {
        var openings: [Opening] = []
        var peers: [ScriptedWebSocketPeer] = []
    }

    private let script: Script
    private let clock: any ChappieClock
    private let deadlines: ChappieDeadlines?
    private let record = Mutex(Record())

    /// Creates a transport that calls `script` for each opening.
    ///
    /// - Parameters:
    ///   - clock: the clock for pauses and deadlines.
    ///   - deadlines: the deadlines of openings that hang. Default: none.
    ///   - script: Returns the answer to an opening.
    public init(
        clock: any ChappieClock = SystemClock(), deadlines: ChappieDeadlines? = nil, _ script: @escaping Script
    ) {
        self.script = script
        self.clock = clock
        // The player uses the stages of HTTP, in which the answer to a handshake is a response head.
        var ofHTTP = deadlines
        if let deadlines { ofHTTP?.responseHead = deadlines.upgrade }
        self.deadlines = ofHTTP
    }

    /// Creates a transport that plays `openings` in order. An opening after the last one fails with code `.unavailable`
    /// and a matching reason.
    public convenience init(
        clock: any ChappieClock = SystemClock(), deadlines: ChappieDeadlines? = nil,
        openings: [ScriptedWebSocketOpening]
    ) {
        let next = inOrder(openings)
        self.init(clock: clock, deadlines: deadlines) { try next($0.url) }
    }

    /// Every opening so far, including those that were refused or failed.
    public var receivedOpenings: [Opening] { record.withLock(\.openings) }

    /// The far ends of the opened connections, in order. Each one records the messages that were sent to it, and can
    /// play further steps.
    public var peers: [ScriptedWebSocketPeer] { record.withLock(\.peers) }

    /// Plays the script's next opening.
    public func open(_ url: URL, headerFields: HTTPFields) async throws -> WebSocketOpening {
        try Task.checkCancellation()
        let host = try ScriptedURLRule.usableHost(of: url, schemes: ["wss", "https", "ws", "http"])
        let opening = Opening(url: url, headerFields: headerFields)
        record.withLock { $0.openings.append(opening) }
        switch try await script(opening).answer {
        case .failed(let error): throw error
        case .refused(let answer):
            let player = ScriptedAnswerPlayer(answer, host: host, deadlines: deadlines, clock: clock)
            return .refused(try await player.response())
        case .opened(let fields, let greeting, let reply):
            let peer = ScriptedWebSocketPeer(host: host, clock: clock, reply: reply)
            record.withLock { $0.peers.append(peer) }
            peer.play(greeting)
            return .opened(ScriptedWebSocketConnection(peer: peer), headerFields: fields)
        }
    }
}

/// A script for one opening of a ``ScriptedWebSocketTransport``.
public struct ScriptedWebSocketOpening: Sendable {
    /// Returns the far end's answer to a message.
    ///
    /// - Parameter number: the index of the message, 0 for the first message of the connection.
    public typealias Reply = @Sendable (_ message: WebSocketMessage, _ number: Int) -> [ScriptedWebSocketStep]

    /// The forms of an opening, for our own packages.
    @_spi(ChappieInternals) public enum Answer: Sendable {
        /// The handshake succeeds.
        case opened(headerFields: HTTPFields, greeting: [ScriptedWebSocketStep], reply: Reply)
        /// The server answers with another status.
        case refused(ScriptedHTTPAnswer)
        /// The connection fails before an answer.
        case failed(ChappieTransportError)
    }

    /// The form of this opening.
    @_spi(ChappieInternals) public let answer: Answer

    /// Returns an opening whose handshake succeeds and whose messages are answered by `reply`.
    ///
    /// - Parameters:
    ///   - headerFields: the fields of the 101 answer.
    ///   - greeting: the steps before any message.
    ///   - reply: called for each message, one after the other. Its steps are played after all earlier ones.
    public static func opened(
        headerFields: HTTPFields = [:], greeting: [ScriptedWebSocketStep] = [], reply: @escaping Reply
    ) -> ScriptedWebSocketOpening {
        ScriptedWebSocketOpening(answer: .opened(headerFields: headerFields, greeting: greeting, reply: reply))
    }

    /// Returns an opening whose handshake succeeds and whose messages are answered by `replies` in order. Messages
    /// after the last reply are not answered.
    public static func opened(
        headerFields: HTTPFields = [:], greeting: [ScriptedWebSocketStep] = [],
        replies: [[ScriptedWebSocketStep]] = []
    ) -> ScriptedWebSocketOpening {
        opened(headerFields: headerFields, greeting: greeting) { _, number in
            replies.indices.contains(number) ? replies[number] : []
        }
    }

    /// Returns an opening that the server answers with a status other than 101.
    public static func refused(_ answer: ScriptedHTTPAnswer) -> ScriptedWebSocketOpening {
        ScriptedWebSocketOpening(answer: .refused(answer))
    }

    /// Returns an opening that fails with `error`, without an answer from the server.
    public static func failed(_ error: ChappieTransportError) -> ScriptedWebSocketOpening {
        ScriptedWebSocketOpening(answer: .failed(error))
    }

    /// An opening whose handshake is never answered. It ends when the transport's deadline passes or the task is
    /// cancelled.
    public static let hangs = ScriptedWebSocketOpening(answer: .refused(ScriptedHTTPAnswer(beforeHead: [.stall])))
}

/// One step of the far end of a scripted WebSocket.
public enum ScriptedWebSocketStep: Sendable {
    /// Sends these messages.
    case deliver([WebSocketMessage])
    /// Lets this much time pass.
    case pause(Duration)
    /// Continues when the test opens the gate.
    case wait(until: ScriptedGate)
    /// Closes with a close frame. Later steps don't happen.
    case close(WebSocketCloseReason)
    /// Breaks the connection with `.connectionLost`. Later steps don't happen.
    case cut
    /// Fails the connection with this error. Later steps don't happen.
    case fail(ChappieTransportError)
    /// Sends no more bytes, so that pings remain unanswered. A receiver with a deadline reaches it at once, regardless
    /// of the clock, and a receiver without a deadline waits. Later steps don't happen.
    case silence

    /// Returns a step that sends each of these texts as a message.
    public static func deliver(_ texts: [String]) -> ScriptedWebSocketStep { .deliver(texts.map { .text($0) }) }
}

/// The far end of one scripted WebSocket.
public final class ScriptedWebSocketPeer: Sendable {
    private struct State {
        var sent: [WebSocketMessage] = []
        var sentClosure: WebSocketCloseReason?
        var isDropped = false
        var end: Result<WebSocketCloseReason, ChappieTransportError>?
        var arrived: [WebSocketMessage] = []
        var steps: ArraySlice<ScriptedWebSocketStep> = []
        /// Whether a step is waiting for time to pass or for a gate.
        var isWaiting = false
        var isSilent = false
        /// Whether the client waits for the answer to a ping. A peer that is not silent answers at once.
        var isPinged = false
        var hasSpoken = false
        var pings = 0
        /// A promise that is fulfilled at the next change that a receiver may wait for.
        var change = Promise<Void>()
    }

    private let state = Mutex(State())
    private let host: String
    private let clock: any ChappieClock
    private let reply: ScriptedWebSocketOpening.Reply

    init(host: String, clock: any ChappieClock, reply: @escaping ScriptedWebSocketOpening.Reply) {
        self.host = host
        self.clock = clock
        self.reply = reply
    }

    /// Every message that was sent to this peer, in order.
    public var sentMessages: [WebSocketMessage] { state.withLock(\.sent) }
    /// The client's close frame, or `nil` if it has not sent one.
    public var sentClosure: WebSocketCloseReason? { state.withLock(\.sentClosure) }
    /// The number of pings that the client has requested.
    public var pingCount: Int { state.withLock(\.pings) }
    /// Whether the client released or cancelled the connection before it ended.
    public var isDropped: Bool { state.withLock(\.isDropped) }
    /// Whether the connection is open.
    public var isOpen: Bool { state.withLock { $0.end == nil } }

    /// Plays `steps` after all earlier ones.
    public func play(_ steps: [ScriptedWebSocketStep]) { change { $0.steps += steps } }

    // MARK: The client's side

    /// Records a message and adds the steps of its reply. Calls `reply` under the lock, so that replies are made one
    /// after the other, in the order of the messages.
    fileprivate func received(_ message: WebSocketMessage) throws {
        try change { state throws(ChappieTransportError) in
            switch state.end {
            case .failure(let error): throw error
            case .success: throw lost("the WebSocket is closed")
            case nil: break
            }
            state.sent.append(message)
            state.steps += reply(message, state.sent.count - 1)
        }
    }

    fileprivate func receivedPing() {
        change { state in
            state.pings += 1
            state.isPinged = true
        }
    }

    fileprivate func pong() throws {
        try change { state throws(ChappieTransportError) in
            endIfDead(&state)
            switch state.end {
            case .failure(let error): throw error
            case .success: throw lost("the WebSocket is closed")
            case nil: break
            }
        }
    }

    /// Ends the connection if the peer is silent and the client waits for the answer to a ping. The liveness deadline
    /// passes at once, regardless of the clock.
    private func endIfDead(_ state: inout State) {
        guard state.isSilent, state.isPinged, state.end == nil else { return }
        let stage: ChappieTransportError.Stage = state.hasSpoken ? .liveness : .firstByte
        state.end = .failure(
            ChappieTransportError(
                .timedOut, stage: stage, host: host, reason: "no answer to a ping, as the script has it"))
    }

    fileprivate func received(_ closure: WebSocketCloseReason) {
        change { state in
            guard state.end == nil else { return }
            state.sentClosure = closure
            state.end = .success(closure)
        }
    }

    fileprivate func wasDropped() {
        change { state in
            guard state.end == nil else { return }
            state.isDropped = true
            state.arrived = []
            state.end = .failure(lost("the connection was dropped on this side"))
        }
    }

    fileprivate func receive(within deadline: Duration?) async throws -> WebSocketInbound {
        try Task.checkCancellation()
        let isExpired = Promise<Void>()
        var timer: Task<Void, any Error>?
        defer { timer?.cancel() }
        while true {
            let (arrival, change) = state.withLock { state in
                (takeArrival(&state, mayWait: !isExpired.isFulfilled, within: deadline), state.change)
            }
            if let arrival { return try arrival.get() }
            if timer == nil, let deadline {
                timer = Task { [clock] in
                    try await clock.sleep(for: deadline)
                    isExpired.fulfil(.success(()))
                    self.change { _ in }
                }
            }
            try await change.value()
        }
    }

    /// Returns the next arrival for a receiver without waiting, or `nil` if the receiver has to wait.
    private func takeArrival(
        _ state: inout State, mayWait: Bool, within deadline: Duration?
    ) -> Result<WebSocketInbound, ChappieTransportError>? {
        defer { state.arrived = [] }
        if !state.arrived.isEmpty { return .success(.messages(state.arrived)) }
        endIfDead(&state)
        if let end = state.end { return end.map { .closed($0) } }
        guard let deadline, state.isSilent || deadline <= .zero || !mayWait else { return nil }
        return .failure(
            ChappieTransportError(.timedOut, stage: .message, host: host, reason: "no message, as the script has it"))
    }

    // MARK: Playing

    private typealias Pause = @Sendable () async throws -> Void

    /// Changes the state, continues with the steps, and wakes the receiver.
    private func change<Failure: Error>(_ change: (inout State) throws(Failure) -> Void) throws(Failure) {
        let result = state.withLock { state -> (Result<Pause?, Failure>, Promise<Void>) in
            let result = Result { () throws(Failure) in try change(&state) }
            let changed = state.change
            state.change = Promise()
            return (result.map { advance(&state) }, changed)
        }
        result.1.fulfil(.success(()))
        guard let pause = try result.0.get() else { return }
        Task {
            try await pause()
            self.change { $0.isWaiting = false }
        }
    }

    /// Plays steps until one of them has to wait, and returns its wait, or `nil` if none has to wait.
    private func advance(_ state: inout State) -> Pause? {
        while state.end == nil, !state.isWaiting, !state.isSilent, let step = state.steps.popFirst() {
            switch step {
            case .deliver(let messages):
                state.arrived += messages
                state.isPinged = false
                state.hasSpoken = true
            case .close(let closure): state.end = .success(closure)
            case .cut: state.end = .failure(lost("the connection broke as the script has it"))
            case .fail(let error): state.end = .failure(error)
            case .silence: state.isSilent = true
            case .pause(let pause) where pause <= .zero: break
            case .pause(let pause):
                state.isWaiting = true
                return { [clock] in try await clock.sleep(for: pause) }
            case .wait(until: let gate):
                state.isWaiting = true
                return { try await gate.pass() }
            }
        }
        return nil
    }

    private func lost(_ reason: String) -> ChappieTransportError {
        ChappieTransportError(.connectionLost, stage: .message, host: host, reason: reason)
    }
}

/// The caller's end of a scripted WebSocket. Releasing it drops the connection.
private final class ScriptedWebSocketConnection: WebSocketConnection {
    private let peer: ScriptedWebSocketPeer

    init(peer: ScriptedWebSocketPeer) { self.peer = peer }

    deinit { peer.wasDropped() }

    var isOpen: Bool { peer.isOpen }

    func send(_ message: WebSocketMessage) async throws { try peer.received(message) }
    func receive(within deadline: Duration?) async throws -> WebSocketInbound {
        try await peer.receive(within: deadline)
    }
    func ping(within allowance: Duration) { peer.receivedPing() }
    func pong() async throws { try peer.pong() }
    func close(_ closure: WebSocketCloseReason) async { peer.received(closure) }
    func cancel() { peer.wasDropped() }
}
