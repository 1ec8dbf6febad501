/// How much one peer may make us hold, in bytes. What goes beyond ends the connection with close code 1009.
public struct WebSocketLimits: Sendable, Hashable {
    /// The payload of one frame as it travels, and of one message that we send. Default 16 MiB, the backend's own.
    public let maximumFrameBytes: Int
    /// One message that we receive, over all its frames and after decompression. Default 64 MiB.
    public let maximumMessageBytes: Int

    /// - Parameters:
    ///   - maximumFrameBytes: 125 (what every control frame may have) to 1 GiB; values outside are moved to the bound.
    ///   - maximumMessageBytes: 125 to 1 GiB, likewise.
    public init(maximumFrameBytes: Int = 16 << 20, maximumMessageBytes: Int = 64 << 20) {
        self.maximumFrameBytes = min(max(maximumFrameBytes, Self.bounds.lowerBound), Self.bounds.upperBound)
        self.maximumMessageBytes = min(max(maximumMessageBytes, Self.bounds.lowerBound), Self.bounds.upperBound)
    }

    /// 16 MiB a frame, 64 MiB a message.
    public static let `default` = WebSocketLimits()

    // The upper end keeps every size fit for zlib's 32-bit counters.
    private static let bounds = 125...(1 << 30)
}
