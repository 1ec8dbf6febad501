import ChappieCore
import HTTPTypes
import Synchronization

/// The WebSocket that a conversation keeps from turn to turn, with what its last response stands for.
final class ConversationSocket: Sendable {
    private struct Held {
        let connection: any WebSocketConnection
        /// Of the header fields that the handshake was made with: who asks, in which account.
        let identity: Int
        let openedAt: Duration
        var chain = ResponseChain()
    }

    private struct State {
        var held: Held?
        var availability = WebSocketAvailability()
    }

    private let lifetime: Duration
    private let state = Mutex(State())

    /// - Parameter lifetime: an older connection is not used again.
    init(lifetime: Duration) { self.lifetime = lifetime }

    deinit { state.withLock { $0.held?.connection.cancel() } }

    // MARK: Availability

    func mayTry(at now: Duration) -> Bool { state.withLock { $0.availability.mayTry(at: now) } }
    func gaveUp(at now: Duration) { state.withLock { $0.availability.failed(at: now) } }
    func worked() { state.withLock { $0.availability.succeeded() } }

    // MARK: The connection

    /// The kept connection, if it can serve a request with these header fields now. One that can't is let go of: politely
    /// when it has only grown old.
    func connection(for fields: HTTPFields, at now: Duration) -> (any WebSocketConnection)? {
        let (usable, old): ((any WebSocketConnection)?, (any WebSocketConnection)?) = state.withLock { state in
            guard let held = state.held else { return (nil, nil) }
            let isYoung = now - held.openedAt < lifetime
            if held.connection.isOpen, held.identity == Self.identity(fields), isYoung { return (held.connection, nil) }
            state.held = nil
            return (nil, held.connection)
        }
        if let old { Task { await old.close(.normal) } }
        return usable
    }

    func keep(_ connection: any WebSocketConnection, openedWith fields: HTTPFields, at now: Duration) {
        let previous = state.withLock { state in
            defer { state.held = Held(connection: connection, identity: Self.identity(fields), openedAt: now) }
            return state.held?.connection
        }
        previous?.cancel()
    }

    /// Lets go of the connection at once.
    func drop() {
        let connection = state.withLock { state in
            defer { state.held = nil }
            return state.held?.connection
        }
        connection?.cancel()
    }

    /// Takes the connection out, for a closing handshake.
    func takeOut() -> (any WebSocketConnection)? {
        state.withLock { state in
            defer { state.held = nil }
            return state.held?.connection
        }
    }

    // MARK: The chain

    func request(_ body: ChappieJSONObject) -> ChappieJSONObject {
        state.withLock { $0.held?.chain.request(body).body } ?? body
    }

    func completed(_ body: ChappieJSONObject, id: String, items: [ChappieOutputItem]) {
        state.withLock { $0.held?.chain.completed(body, id: id, items: items) }
    }

    func chainBroke() { state.withLock { $0.held?.chain.broke() } }

    /// A digest, so that no token lies here a second time.
    private static func identity(_ fields: HTTPFields) -> Int {
        var hasher = Hasher()
        for field in fields {
            hasher.combine(field.name.canonicalName)
            hasher.combine(field.value)
        }
        return hasher.finalize()
    }
}
