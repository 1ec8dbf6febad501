/// One WebSocket message as a client sent it.
public struct ReceivedMessage: Sendable, Hashable {
    /// Which connection it came on: as ``ReceivedRequest/connection``.
    public let connection: Int
    /// Whether it is text; otherwise it is binary.
    public let isText: Bool
    /// The whole payload, unmasked, defragmented and decompressed.
    public let body: [UInt8]
    /// Whether it was compressed on the wire.
    public let isCompressed: Bool
    /// How many frames it came in.
    public let frameCount: Int
    /// Bytes it took on the wire, frame headers included.
    public let wireByteCount: Int
}
