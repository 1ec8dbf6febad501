/// The request of a connection or a transfer to the loop that drives it.
@_spi(ChappieInternals) public enum LoopVerdict: Sendable {
    /// It stays. A connection wants a visit when its socket is readable (`reads`) or writable (`writes`), and no later
    /// than `until` on ``LoopClock`` (`nil`: no deadline). A connection that wants neither doesn't learn of the
    /// socket's end either. A transfer can't keep curl from reading, but it can let the loop rest: see ``Burst``.
    case stay(reads: Bool = false, writes: Bool = false, until: Int?, rests: Bool = false)
    /// It leaves: an unfinished transfer is cut off, a connection is closed.
    case leave
}

/// Small pieces that follow each other closely. Servers send each event in a separate packet, and the cost depends on
/// the number of reads and of tasks that wake up. In a burst the socket is left alone for a short time, so that one
/// read takes many pieces. The times are in nanoseconds.
@_spi(ChappieInternals) public enum Burst {
    /// The time for which the socket is left alone.
    public static let rest = 2_000_000
    /// Pieces that come no further apart than this are a burst. The gap is twice the rest, since timers are late.
    public static let gap = 4_000_000
    /// After a read of this size the peer is sending at full speed; the loop doesn't rest.
    public static let bulkBytes = 64 << 10
}
