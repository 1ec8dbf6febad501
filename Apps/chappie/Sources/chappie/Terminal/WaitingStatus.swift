@_spi(ChappieInternals) import ChappieCore
import Synchronization

/// A status line that shows the elapsed time while nothing arrives.
final class WaitingStatus: Sendable {
    private static let patience = Duration.seconds(5)

    private let console: Console
    private let start = ContinuousClock.now
    /// The status and the time at which it was shown. `nil` while the line is not a status.
    private let shown = Mutex<(text: String, since: ContinuousClock.Instant)?>(nil)

    init(_ console: Console) { self.console = console }

    /// Shows `text`. If nothing else is shown soon, the elapsed time is added.
    func show(_ text: String) {
        shown.withLock { shown in
            console.status(text)
            shown = (text, .now)
        }
    }

    /// Stops showing the status, so that others can use the line.
    func stop() { shown.withLock { $0 = nil } }

    /// Redraws the line each second until the task is cancelled.
    func run() async {
        while (try? await Task.sleep(for: .seconds(1))) != nil {
            // The lock ensures that text that is written after `stop()` is never erased.
            shown.withLock { shown in
                guard let (text, since) = shown, ContinuousClock.now - since >= Self.patience else { return }
                let seconds = Int((ContinuousClock.now - start).inSeconds)
                console.status("\(text) \(seconds) s", hint: " (Ctrl-C stops it)")
            }
        }
        stop()
    }

    /// Shows `text` while `work` runs.
    static func showing<Result>(
        _ text: String, on console: Console, during work: () async throws -> Result
    ) async rethrows -> Result {
        let waiting = WaitingStatus(console)
        waiting.show(text)
        let ticking = Task { await waiting.run() }
        defer {
            ticking.cancel()
            waiting.stop()
            console.clearStatus()
        }
        return try await work()
    }
}
