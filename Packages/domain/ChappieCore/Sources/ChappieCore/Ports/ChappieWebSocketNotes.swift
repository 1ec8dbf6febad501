/// A port that remembers, from one run of a program to the next, on which networks no data arrives over a WebSocket.
///
/// Inspecting proxies answer the handshake, but then pass no frame. The client asks before it opens a WebSocket, and
/// decides how long a note counts. A complete fake, for a machine that stays on one network:
///
/// ```swift
/// actor Memory: ChappieWebSocketNotes {
///     var times: [URL: Date] = [:]
///     func blockage(of backend: URL) -> Date? { times[backend] }
///     func noteBlockage(of backend: URL, at time: Date) { times[backend] = time }
/// }
/// ```
public protocol ChappieWebSocketNotes: Sendable {
    /// Returns the time when a WebSocket to `backend` was last blocked on the network that this machine uses now, or
    /// `nil` if that is not known.
    func blockage(of backend: URL) async -> Date?
    /// Notes that no data arrives over a WebSocket to `backend` on the network that this machine uses now. A failure is
    /// ignored.
    func noteBlockage(of backend: URL, at time: Date) async
}
