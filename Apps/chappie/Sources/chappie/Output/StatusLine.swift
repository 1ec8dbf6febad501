import Synchronization

/// A line on a terminal's standard error that is drawn over and disappears; nothing anywhere else, nor over a question.
final class StatusLine: Sendable {
    private let isShown: Bool
    private let isDrawn = Mutex(false)

    init(environment: ProgramEnvironment) {
        isShown = Terminal.styles(Terminal.errorIsTerminal, environment: environment)
    }

    func show(_ text: String) {
        guard isShown, !TerminalEcho.isSilent else { return }
        isDrawn.withLock { isDrawn in
            isDrawn = true
            Output.writeToError("\r\u{1B}[2K\(text)")
        }
    }

    func clear() {
        guard isShown else { return }
        isDrawn.withLock { isDrawn in
            guard isDrawn else { return }
            isDrawn = false
            Output.writeToError("\r\u{1B}[2K")
        }
    }
}
