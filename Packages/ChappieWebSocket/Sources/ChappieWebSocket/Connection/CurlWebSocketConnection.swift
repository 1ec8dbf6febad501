import ChappieCore

/// What the user of a connection holds; letting go of it drops the connection, which the event loop holds otherwise.
final class CurlWebSocketConnection: WebSocketConnection {
    private let link: WebSocketLink

    init(_ link: WebSocketLink) { self.link = link }

    deinit { link.drop() }

    var isOpen: Bool { link.isOpen }

    func send(_ message: WebSocketMessage) async throws { try await link.send(message) }

    func receive(within deadline: Duration?) async throws -> WebSocketInbound {
        try await link.nextArrival(within: deadline)
    }

    func close(_ closure: WebSocketCloseReason) async { await link.close(closure) }

    func cancel() { link.drop() }
}
