/// The request of a connection or a transfer to the loop that drives it.
@_spi(ChappieInternals) public enum LoopVerdict: Sendable {
    /// The connection or transfer stays. A connection asks for a visit when its socket is readable (`reads`) or
    /// writable (`writes`), and no later than `until` on ``LoopClock`` (`nil` means no deadline). A connection that
    /// asks for neither also doesn't learn of the socket's end. A transfer can't keep curl from reading, but it can let
    /// the loop rest. See ``Burst``.
    case stay(reads: Bool = false, writes: Bool = false, until: Int?, rests: Bool = false)
    /// The connection or transfer leaves. An unfinished transfer is cut off, and a connection is closed.
    case leave
}

/// Small pieces that follow each other closely. Servers send each event in a separate packet, and the cost depends on
/// the number of reads and of tasks that wake up. In a burst the loop does not read the socket for a short time, so
/// that one read takes many pieces. The times are in nanoseconds.
@_spi(ChappieInternals) public enum Burst {
    /// The time for which the loop does not read the socket.
    public static let rest = 2_000_000
    /// The longest time between two pieces of a burst. It is twice the rest, because timers are late.
    public static let gap = 4_000_000
    /// The size of a read after which the loop does not rest, because the peer is sending at full speed.
    public static let bulkBytes = 64 << 10
}
