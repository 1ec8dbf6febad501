import ChappieCore

/// What the user of a scripted WebSocket holds; letting go of it drops the connection.
final class ScriptedWebSocketConnection: WebSocketConnection {
    private let peer: ScriptedWebSocketPeer

    init(peer: ScriptedWebSocketPeer) { self.peer = peer }

    deinit { peer.wasDropped() }

    var isOpen: Bool { peer.isOpen }

    func send(_ message: WebSocketMessage) async throws { try peer.received(message) }

    func receive(within deadline: Duration?) async throws -> WebSocketInbound {
        try await peer.nextArrival(within: deadline)
    }

    func close(_ closure: WebSocketCloseReason) async { peer.received(closure) }

    func cancel() { peer.wasDropped() }
}
