import Synchronization

/// The beginning of an answer for a pipe. A short answer that ends soon is written in one piece, so that answers of
/// several programs that share a pipe don't mix. A longer one streams.
final class HeldText: Sendable {
    /// The maximum size of text that a pipe takes in one piece, in bytes (PIPE_BUF in pipe(7)).
    private static let limit = 4096
    /// The time after the first text after which an answer streams.
    private static let patience = Duration.milliseconds(100)

    private struct State {
        var text = ""
        var timer: Task<Void, Never>?
        var isStreaming = false
    }

    private let console: Console
    private let state = Mutex(State())

    init(_ console: Console) { self.console = console }

    /// Writes the text, now or with the text that follows.
    func write(_ text: String) {
        state.withLock { state in
            guard !state.isStreaming else { return console.write(text) }
            state.text += text
            if state.text.utf8.count > Self.limit { return release(&state) }
            guard state.timer == nil else { return }
            state.timer = Task {
                guard (try? await Task.sleep(for: Self.patience)) != nil else { return }
                self.release()
            }
        }
    }

    /// Writes the held text. All later text is written at once.
    func release() { state.withLock { release(&$0) } }

    private func release(_ state: inout State) {
        state.timer?.cancel()
        state.isStreaming = true
        if !state.text.isEmpty { console.write(state.text) }
        state.text = ""
    }
}
