/// What one WebSocket connection has seen, for tests that count.
public struct SimulatorWebSocketConnection: Sendable, Hashable {
    /// Which connection it is: as ``ReceivedRequest/connection``.
    public let connection: Int
    /// Whether permessage-deflate was agreed.
    public let isCompressed: Bool
    public internal(set) var isOpen = true
    /// Messages the client has sent.
    public internal(set) var messageCount = 0
    /// Bytes of those messages.
    public internal(set) var payloadByteCountReceived = 0
    /// Bytes they took on the wire, frame headers included.
    public internal(set) var wireByteCountReceived = 0
    /// Bytes sent to the client since the handshake, frame headers included, as the kernel has taken them.
    public internal(set) var byteCountSent = 0
    /// Pings the client has sent.
    public internal(set) var pingCount = 0
    /// Pongs the client has sent.
    public internal(set) var pongCount = 0
    /// Whether the client has sent a close frame.
    public internal(set) var hasSentClose = false
    /// The code of that frame; `nil` when it had none.
    public internal(set) var closeCode: UInt16?

    init(connection: Int, isCompressed: Bool) {
        self.connection = connection
        self.isCompressed = isCompressed
    }
}
