/// One open WebSocket, for one sender and one receiver at a time.
///
/// Pings are answered, and sent where the peer is silent, whether anybody receives or not. Letting go of the connection
/// drops it without a closing handshake.
public protocol WebSocketConnection: Sendable {
    /// Whether nothing has been heard yet that makes it useless: no close, no error, no silence beyond the liveness
    /// deadline. `true` is no promise.
    var isOpen: Bool { get }

    /// Sends one message. Waits while the queue is full, and then until the network has taken the message, so that a
    /// deadline for the answer does not count a long upload. It waits no longer when the connection ends, the network takes
    /// nothing for as long as a peer may be silent, or so much has arrived that it has to be received first; what becomes
    /// of the connection ``receive(within:)`` tells.
    ///
    /// - Throws: ``ChappieTransportError`` when the connection has ended; `CancellationError` when the task is cancelled
    ///   while it waits (for room: the message is not sent; later: it may be).
    func send(_ message: WebSocketMessage) async throws

    /// All messages that have arrived since the last call, in order; waits for one when there is none. Once the
    /// connection has ended, what had arrived before is delivered first, and then its end, at every further call.
    ///
    /// - Parameter deadline: how long to wait for a message; `nil` waits for ever. Pings are no messages.
    /// - Throws: ``ChappieTransportError``: `.timedOut` at stage `.message` when the deadline has passed (the connection
    ///   stays usable) or `.liveness` (it does not), `.connectionLost` when the peer went without a close frame,
    ///   `.protocolViolation` when it broke the rules. `CancellationError`; the connection stays usable.
    func receive(within deadline: Duration?) async throws -> WebSocketInbound

    /// Closes with a handshake (RFC 6455, 7.1.2) that sends what is queued first, and returns when it is over, at the
    /// latest after some seconds. Does nothing when the connection has ended.
    func close(_ closure: WebSocketCloseReason) async

    /// Drops the connection at once. May be called at any time, from any thread, more than once.
    func cancel()
}
