@_spi(ChappieInternals) import ChappieCore
import HTTPTypes
import Synchronization

/// An open WebSocket, with what its last response stands for. One turn at a time owns it.
struct OpenConnection: Sendable {
    let connection: any WebSocketConnection
    /// Of the header fields that the handshake was made with: they say who asks, and in which account.
    fileprivate let identity: Int
    fileprivate let openedAt: Duration
    /// The retirements that it has survived.
    fileprivate let retirements: Int
    var chain = ResponseChain()
}

/// The WebSocket that a conversation keeps from turn to turn, and when another may be tried.
///
/// A turn takes the connection out and puts it back when its response is whole. A turn that fails drops it.
final class ConversationConnection: Sendable {
    private struct State {
        var kept: OpenConnection?
        var retirements = 0
        var availability = WebSocketAvailability()
    }

    private let lifetime: Duration
    private let state = Mutex(State())

    /// - Parameter lifetime: an older connection is not used again.
    init(lifetime: Duration) { self.lifetime = lifetime }

    deinit { state.withLock { $0.kept?.connection.cancel() } }

    // MARK: Availability

    func mayTry(at now: Duration) -> Bool { state.withLock { $0.availability.mayTry(at: now) } }
    func gaveUp(at now: Duration) { state.withLock { $0.availability.failed(at: now) } }
    func worked() { state.withLock { $0.availability = WebSocketAvailability() } }

    // MARK: The turn's side

    /// How many retirements there have been. An attempt asks before it authorizes a new connection, so that a retirement
    /// during the handshake counts.
    var retirements: Int { state.withLock(\.retirements) }

    /// A connection that has just been opened with these header fields.
    ///
    /// - Parameter retirements: as they were before the connection was authorized.
    func opened(
        _ connection: any WebSocketConnection, with fields: HTTPFields, at now: Duration, retirements: Int
    ) -> OpenConnection {
        OpenConnection(
            connection: connection, identity: Self.identity(fields), openedAt: now, retirements: retirements)
    }

    /// Takes out the kept connection, if it can serve a request with these header fields now. One that can't is closed.
    func take(for fields: HTTPFields, at now: Duration) -> OpenConnection? {
        guard let kept = takeKept() else { return nil }
        if kept.connection.isOpen, kept.identity == Self.identity(fields), now - kept.openedAt < lifetime {
            return kept
        }
        Task { await kept.connection.close(.normal) }
        return nil
    }

    /// Keeps a connection for the next turn, unless it was retired in the meantime.
    func putBack(_ open: OpenConnection) {
        let surplus: OpenConnection? = state.withLock { state in
            guard open.retirements == state.retirements else { return open }
            defer { state.kept = open }
            return state.kept
        }
        if let surplus { Task { await surplus.connection.close(.normal) } }
    }

    // MARK: Retirement

    /// No connection that was opened before serves another turn. One in use is closed when its turn is over.
    ///
    /// - Returns: the kept connection, for the caller to close.
    func retire() -> (any WebSocketConnection)? {
        state.withLock { $0.retirements += 1 }
        return takeKept()?.connection
    }

    private func takeKept() -> OpenConnection? {
        state.withLock { state in
            defer { state.kept = nil }
            return state.kept
        }
    }

    /// A digest, so that no token is stored a second time.
    private static func identity(_ fields: HTTPFields) -> Int {
        var hasher = Hasher()
        for field in fields {
            hasher.combine(field.name.canonicalName)
            hasher.combine(field.value)
        }
        return hasher.finalize()
    }
}

/// When WebSocket may be tried again after it has failed; sans-IO.
///
/// Pauses of half a minute, doubling up to a quarter of an hour: one bad moment does not mean server-sent events forever,
/// and a network that lets no WebSocket through does not delay every turn.
struct WebSocketAvailability: Sendable {
    private static let firstPause = Duration.seconds(30)
    private static let longestPause = Duration.seconds(15 * 60)

    private var failures = 0
    private var pauseEnd: Duration?

    func mayTry(at now: Duration) -> Bool { pauseEnd.map { now >= $0 } ?? true }

    mutating func failed(at now: Duration) {
        pauseEnd = now + min(Self.firstPause * (1 << min(failures, 10)), Self.longestPause)
        failures += 1
    }
}

/// The input that one connection's last response stands for, so that the next request may say only what is new; sans-IO.
///
/// A request continues the last one when everything but the input is the same and the input begins with the last input and
/// the items that were answered. (The backend's own rules, as the Codex CLI keeps them; what is not compared there is not
/// compared here.)
struct ResponseChain: Sendable {
    private struct Link {
        var responseID: String
        var frame: ChappieJSONObject
        var history: [ChappieJSON]
    }

    private var link: Link?

    private static let notCompared: Set<String> = [
        "input", "client_metadata", "stream_options", "access_programs", "generate", "previous_response_id",
    ]

    /// Nothing can be continued.
    mutating func broke() { link = nil }

    /// A response to the whole request `body` is complete.
    ///
    /// - Parameters:
    ///   - id: the response's; an empty one can't be continued.
    ///   - items: what it answered, as it came.
    mutating func completed(_ body: ChappieJSONObject, id: String, items: [ChappieOutputItem]) {
        guard !id.isEmpty else { return link = nil }
        link = Link(
            responseID: id, frame: Self.frame(of: body), history: (body["input"]?.array ?? []) + items.map(\.json))
    }

    /// `body` as a request of this connection: with `previous_response_id` and the new items only, where it continues the
    /// last response, else whole.
    func request(_ body: ChappieJSONObject) -> ChappieJSONObject {
        let input = body["input"]?.array ?? []
        guard let link, input.count > link.history.count, input.starts(with: link.history),
            Self.frame(of: body) == link.frame
        else { return body }
        var members: [ChappieJSONObject.Member] = []
        for member in body.members {
            guard member.name == "input" else {
                members.append(member)
                continue
            }
            members.append(.init(name: "previous_response_id", value: .string(link.responseID)))
            members.append(.init(name: "input", value: .array(Array(input.dropFirst(link.history.count)))))
        }
        return ChappieJSONObject(members: members)
    }

    private static func frame(of body: ChappieJSONObject) -> ChappieJSONObject {
        ChappieJSONObject(members: body.members.filter { !notCompared.contains($0.name) })
    }
}
