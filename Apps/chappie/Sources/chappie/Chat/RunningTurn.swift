import ChappieLineEditor
import Synchronization

/// The turn that Ctrl-C ends instead of the program.
final class RunningTurn: Sendable {
    private struct State {
        var cancel: (@Sendable () -> Void)?
        var isStopped = false
        var hasEnded = false
    }

    private let state = Mutex(State())

    func begins(_ cancel: @escaping @Sendable () -> Void) { state.withLock { $0 = State(cancel: cancel) } }

    func ends() { state.withLock { $0 = State(hasEnded: true) } }

    /// - Returns: whether the program continues. A second Ctrl-C ends it, if the first did not help. A Ctrl-C that
    ///   comes too late, between the end of the answer and the prompt, was meant for the answer.
    func stop() -> Bool {
        state.withLock { state in
            defer {
                state.isStopped = true
                state.hasEnded = false
            }
            guard let cancel = state.cancel else { return state.hasEnded && TerminalState.isBetweenLines }
            if state.isStopped { return false }
            cancel()
            return true
        }
    }
}
