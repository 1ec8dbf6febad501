@_spi(ChappieInternals) import ChappieCore
import Synchronization

/// An open WebSocket, with the input that its last response covers. It belongs to one turn at a time.
struct OpenConnection: Sendable {
    let socket: any WebSocketConnection
    /// A digest of the handshake's header fields, which name the caller and the account. It keeps tokens from being
    /// stored twice.
    let identity: Int
    let openedAt: Duration
    /// The time at which the last answer on it was complete.
    var lastUsed: Duration
    /// Reports the end of the connection when it is released, if there is an observer.
    let presence: ConnectionPresence?
    /// The value of ``ConversationConnection/retirements`` before the connection was authorized.
    let retirements: Int
    /// The id of the handshake at the server.
    let requestID: String?
    /// The last response's chain, or `nil` if nothing can be continued.
    var chain: ResponseChain?
}

/// The WebSocket that a conversation keeps from turn to turn, and the time from which another may be tried.
///
/// A turn takes the connection out and puts it back when its response is complete. A turn that fails drops it. After a
/// failure to open one, WebSocket is not used for half a minute, doubling up to a quarter of an hour. Thus a short
/// disturbance does not mean server-sent events forever, and a network that blocks WebSockets does not delay every
/// turn.
final class ConversationConnection: Sendable {
    private struct State {
        var kept: OpenConnection?
        var retirements = 0
        var failures = 0
        var pauseEnd: Duration?
        /// The window of a conversation whose messages are too large for a WebSocket.
        var large: String?
        var sendsPlain = false

        mutating func takeKept() -> OpenConnection? {
            defer { kept = nil }
            return kept
        }
    }

    private static let firstPause = Duration.seconds(30)
    private static let longestPause = Duration.seconds(15 * 60)
    /// The idle time after which a connection is checked before it is used.
    private static let trustedIdle = Duration.seconds(10)

    /// The age after which a connection is not used again. The ChatGPT/Codex backend ends a connection after 60 minutes,
    /// even during an answer.
    private static let lifetime = Duration.seconds(55 * 60)

    private let state = Mutex(State())

    deinit { state.withLock { $0.kept?.socket.cancel() } }

    // MARK: Availability

    func mayTry(at now: Duration) -> Bool { state.withLock { $0.pauseEnd.map { now >= $0 } ?? true } }

    func gaveUp(at now: Duration) {
        state.withLock { state in
            state.pauseEnd = now + min(Self.firstPause * (1 << min(state.failures, 10)), Self.longestPause)
            state.failures += 1
        }
    }

    func worked() { state.withLock { ($0.failures, $0.pauseEnd) = (0, nil) } }

    /// Returns whether this window of a conversation has become too large for a WebSocket. A window only grows.
    func isTooLarge(_ window: String) -> Bool { state.withLock { $0.large == window } }

    func becameTooLarge(_ window: String) { state.withLock { $0.large = window } }

    /// Whether the backend, or a gateway before it, does not take compressed requests.
    var sendsPlain: Bool {
        get { state.withLock(\.sendsPlain) }
        set { state.withLock { $0.sendsPlain = newValue } }
    }

    // MARK: The turn's side

    /// The number of retirements so far. An attempt reads it before it authorizes a new connection, so that a
    /// retirement during the handshake counts.
    var retirements: Int { state.withLock(\.retirements) }

    /// Whether there is a kept connection, which proves that this network passes WebSockets.
    var isKept: Bool { state.withLock { $0.kept != nil } }

    /// Returns whether the kept connection can serve a request of this identity now.
    func serves(_ identity: Int, at now: Duration) -> Bool {
        state.withLock { $0.kept.map { serves($0, identity, at: now) } ?? false }
    }

    private func serves(_ kept: OpenConnection, _ identity: Int, at now: Duration) -> Bool {
        kept.socket.isOpen && kept.identity == identity && now - kept.openedAt < Self.lifetime
    }

    /// Takes out the kept connection, if it can serve a request of this identity now and no message of earlier turns is
    /// left in it. Otherwise the connection is closed. A connection that was idle must answer a ping within `patience`,
    /// because it may have died silently.
    func take(for identity: Int, at now: Duration, patience: Duration) async -> OpenConnection? {
        guard let kept = state.withLock({ $0.takeKept() }) else { return nil }
        guard serves(kept, identity, at: now) else {
            Task { await kept.socket.close(.normal) }
            return nil
        }
        do {
            if now - kept.lastUsed >= Self.trustedIdle {
                kept.socket.ping(within: patience)
                try await kept.socket.pong()
            }
            // The loop is bounded because a server may send messages without end between two turns.
            for _ in 0..<100 { guard case .messages = try await kept.socket.receive(within: .zero) else { break } }
        } catch let error as ChappieTransportError where error.code == .timedOut && error.stage == .message {
            return kept
        } catch {}
        kept.socket.cancel()
        return nil
    }

    /// Keeps a connection for the next turn, unless it was retired in the meantime.
    func putBack(_ open: OpenConnection) {
        let surplus = state.withLock { state -> OpenConnection? in
            guard open.retirements == state.retirements else { return open }
            defer { state.kept = open }
            return state.kept
        }
        if let surplus { Task { await surplus.socket.close(.normal) } }
    }

    /// Retires all connections that were opened before. None of them serves another turn. One in use is closed when its
    /// turn has ended.
    ///
    /// - Returns: the kept connection, for the caller to close.
    func retire() -> (any WebSocketConnection)? {
        state.withLock { state in
            state.retirements += 1
            return state.takeKept()?.socket
        }
    }
}

/// The input that a connection's last response covers, so that the next request may send only the new part. It is
/// sans-IO.
///
/// A request continues the last one if everything except the input is the same and the input begins with the last input
/// and the items of the answer. (These are the backend's own rules, as the Codex CLI follows them. Members that it does
/// not compare are not compared here.)
struct ResponseChain: Sendable {
    private let responseID: String
    private let frame: ChappieJSONObject
    private let history: [ChappieJSON]

    private static let notCompared: Set<String> = [
        "input", "client_metadata", "stream_options", "access_programs", "generate", "previous_response_id",
    ]

    /// Creates the chain for the answer to the complete request `body`.
    ///
    /// - Parameter history: the request's input and the answer's items, in the form of the next request.
    /// - Returns: `nil` if the answer can't be continued: it has no id, it ended early, or it came without its items,
    ///   so that it can't be compared with the transcript that is to continue it.
    init?(_ body: ChappieJSONObject, _ response: ChappieResponse, history: [ChappieJSON]) {
        let hasItems = history.count > body["input"]?.array?.count ?? 0
        guard !response.id.isEmpty, response.status == .completed, hasItems || body["generate"] == false else {
            return nil
        }
        responseID = response.id
        frame = Self.frame(of: body)
        self.history = history
    }

    /// Returns `body` as a request of this connection: with `previous_response_id` and only the new items if it
    /// continues the last response, otherwise the complete body.
    func request(_ body: ChappieJSONObject) -> ChappieJSONObject {
        let input = body["input"]?.array ?? []
        guard input.count > history.count, input.starts(with: history), Self.frame(of: body) == frame else {
            return body
        }
        return ChappieJSONObject(
            members: body.members.flatMap { member -> [ChappieJSONObject.Member] in
                guard member.name == "input" else { return [member] }
                return [
                    .init(name: "previous_response_id", value: .string(responseID)),
                    .init(name: "input", value: .array(Array(input.dropFirst(history.count)))),
                ]
            })
    }

    private static func frame(of body: ChappieJSONObject) -> ChappieJSONObject {
        ChappieJSONObject(members: body.members.filter { !notCompared.contains($0.name) })
    }
}
