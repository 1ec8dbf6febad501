public import CCurl

/// A connection that curl only opens (CURLOPT_CONNECT_ONLY: resolving, proxy, TLS) and that its owner then reads and
/// writes by itself, through ``EasyHandle/receive(into:)`` and ``EasyHandle/send(_:)``.
///
/// The loop calls all of these on its own thread, never two at once. It visits a connection only when there is a reason
/// to: curl is through connecting, its socket is ready, somebody woke it, or its moment has come. Thousands that are
/// idle cost nothing.
public protocol CurlConnectionMember: AnyObject, Sendable {
    /// Sets up the fresh handle. Answering `false` gives it back unused; the member has told its own side why.
    func joined(_ handle: EasyHandle) -> Bool

    /// curl could not connect. The handle goes after this.
    func failed(_ handle: EasyHandle, with result: CURLcode)

    /// There is something to do, perhaps.
    func visited(_ handle: EasyHandle, _ visit: CurlConnectionVisit) -> CurlConnectionVerdict

    /// The loop has stopped; the handle (if there ever was one) is gone.
    func loopStopped()
}

/// What the loop knows when it visits a connection.
public struct CurlConnectionVisit {
    /// Whether the connection stands, TLS and tunnel included. Before that there is nothing to read or write.
    public let isConnected: Bool
    /// Reading may give something. On the first visit after connecting both are `true`.
    public let isReadable: Bool
    public let isWritable: Bool
    /// The loop's clock.
    public let now: Duration
    /// Room to read into, 64 KiB that all connections of a loop share: what it holds is gone after the visit.
    public let buffer: UnsafeMutableRawBufferPointer
}

/// What becomes of a connection after a visit.
public enum CurlConnectionVerdict: Sendable {
    /// It stays, and wants a visit when its socket is ready for what is named, no later than `until` (`nil`: only then).
    ///
    /// While it wants neither, it doesn't hear of the socket's end either.
    case stay(reads: Bool, writes: Bool, until: Duration?)
    /// It goes, and its connection is closed.
    case leave
}
