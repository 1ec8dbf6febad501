import ChappieLineEditor
import Synchronization

/// The turn that Ctrl-C ends in a chat at a terminal, instead of the program.
final class RunningTurn: Sendable {
    private struct State {
        var cancel: (@Sendable () -> Void)?
        var isStopped = false
        var hasEnded = false
    }

    private let state = Mutex(State())
    private let isInteractive: Bool

    /// - Parameter isInteractive: whether a user types at a terminal. Otherwise Ctrl-C ends the program.
    init(isInteractive: Bool) {
        self.isInteractive = isInteractive
        if isInteractive { Interruption.takesCtrlC.withLock { $0 = { [self] in stop() } } }
    }

    /// Lets Ctrl-C end the program again.
    func leave() { Interruption.takesCtrlC.withLock { $0 = nil } }

    /// Runs `work`. In an interactive chat, Ctrl-C ends only `work`.
    ///
    /// - Parameter stop: ends the work. By default, it is cancelled.
    func run<Result: Sendable>(
        stop: (@Sendable () -> Void)? = nil, _ work: @escaping @Sendable () async throws -> Result
    ) async throws -> Result {
        guard isInteractive else { return try await work() }
        let task = Task { try await work() }
        state.withLock { $0 = State(cancel: stop ?? { task.cancel() }) }
        TerminalState.echo(false)
        Interruption.takesStops(true)
        defer {
            Interruption.takesStops(false)
            TerminalState.echo(true)
            state.withLock { $0 = State(hasEnded: true) }
        }
        return try await withTaskCancellationHandler {
            try await task.value
        } onCancel: {
            task.cancel()
        }
    }

    /// Stops the work after Ctrl-C. A Ctrl-C between the end of the answer and the prompt was meant for the answer.
    ///
    /// - Returns: whether the program continues. A second Ctrl-C ends it if the first one has not ended the work.
    private func stop() -> Bool {
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
