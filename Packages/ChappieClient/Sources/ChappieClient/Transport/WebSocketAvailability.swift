/// When WebSocket may be tried again after it has failed; sans-IO.
///
/// Pauses of half a minute, doubling up to a quarter of an hour: one bad moment does not mean server-sent events for ever,
/// and a network that lets no WebSocket through does not cost every turn its patience.
struct WebSocketAvailability: Sendable {
    static let firstPause = Duration.seconds(30)
    static let longestPause = Duration.seconds(15 * 60)

    private var failures = 0
    private var pauseEnd: Duration?

    func mayTry(at now: Duration) -> Bool { pauseEnd.map { now >= $0 } ?? true }

    mutating func succeeded() { self = WebSocketAvailability() }

    mutating func failed(at now: Duration) {
        let doublings = min(failures, 10)
        failures += 1
        pauseEnd = now + min(Self.firstPause * (1 << doublings), Self.longestPause)
    }
}
