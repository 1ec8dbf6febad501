import Glibc
import Synchronization

/// The state of the terminal before the program changed it.
public enum TerminalState {
    // There are two mutexes because of a defect in Swift 6.3.1. In a static `Mutex` over a structure, -O mistakes a
    // `nil` of `termios?` for settings that are all zero (see Tests/Acceptance/test_terminal.py). A caller that locks
    // both locks `original` before `line`.
    private static let original = Mutex<termios?>(nil)
    private static let line = Mutex((isEdited: false, wasEdited: false))

    /// Returns the terminal's columns and rows, or `nil` if the descriptor, by default standard output, is not a
    /// terminal.
    public static func size(of descriptor: CInt = 1) -> (columns: Int, rows: Int)? {
        terminalSize(of: descriptor)
    }

    /// Whether an editor has edited lines on this terminal and is not editing one at the moment.
    public static var isBetweenLines: Bool { line.withLock { $0.wasEdited && !$0.isEdited } }

    /// Sets whether the terminal shows the user's keys while the program does not read them. The line editor shows its
    /// own text. The keys are kept.
    public static func echo(_ shows: Bool) {
        original.withLock { original in
            guard original != nil, isForeground(STDIN_FILENO) else { return }
            var settings = termios()
            guard tcgetattr(STDIN_FILENO, &settings) == 0 else { return }
            if shows { settings.c_lflag |= tcflag_t(ECHO) } else { settings.c_lflag &= ~tcflag_t(ECHO) }
            tcsetattr(STDIN_FILENO, TCSANOW, &settings)
        }
    }

    /// Runs `work` with the keys shown. Another program may use the terminal during `work`.
    public static func showing(_ work: () -> Void) {
        var settings = termios()
        let isHidden =
            original.withLock { $0 != nil } && tcgetattr(STDIN_FILENO, &settings) == 0
            && settings.c_lflag & tcflag_t(ECHO) == 0
        if isHidden { echo(true) }
        work()
        if isHidden { echo(false) }
    }

    /// Restores the terminal at the program's end. Does nothing if the program has not made an editor.
    public static func restore() {
        original.withLock { original in
            guard var settings = original, isForeground(STDIN_FILENO) else { return }
            let wasEdited = line.withLock { line in
                defer { line.isEdited = false }
                return line.isEdited
            }
            if wasEdited, takesOutput(STDOUT_FILENO) {
                StatusRow.hide()
                announce("\u{1B}[?2004l\n")
            }
            tcsetattr(STDIN_FILENO, TCSANOW, &settings)
        }
    }

    // MARK: Job control

    /// Returns whether this process may change and read the terminal. In the background, the shell or another program
    /// uses it.
    public static func isForeground(_ terminal: CInt) -> Bool {
        let group = tcgetpgrp(terminal)
        return group < 0 || group == getpgrp()
    }

    /// Waits until this process is in the foreground. In the background, the system stops it here until the shell
    /// brings it back. Later, reads of this thread in the background stop it as well.
    ///
    /// - Returns: `false` if no shell can bring the process back.
    public static func awaitForeground(_ terminal: CInt) -> Bool {
        obeysJobControl()
        // The call has no effect other than this check (SIGTTOU).
        var result: CInt
        repeat { result = tcflow(terminal, TCOON) } while result < 0 && errno == EINTR
        return result == 0 || errno != EIO
    }

    /// Lets the system stop this process when this thread uses the terminal in the background. The threads of
    /// libdispatch block these signals, and then a read fails, and a change succeeds.
    public static func obeysJobControl() {
        var signals = sigset_t()
        sigemptyset(&signals)
        for number in [SIGTTIN, SIGTTOU] { sigaddset(&signals, number) }
        pthread_sigmask(SIG_UNBLOCK, &signals, nil)
    }

    /// Whether the terminal of standard input was closed.
    public static var isGone: Bool {
        var terminal = pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0)
        return poll(&terminal, 1, 0) == 1 && terminal.revents & Int16(POLLHUP) != 0
    }

    /// Removes the row below the line that is being edited, if there is one. Call this method before other output.
    public static func clearStatus() { StatusRow.hide() }

    static func remember() {
        original.withLock { original in
            var settings = termios()
            guard original == nil, tcgetattr(STDIN_FILENO, &settings) == 0 else { return }
            original = settings
        }
    }

    /// Whether a line is being edited. In this case the terminal marks pastes.
    static var isEditing: Bool {
        get { line.withLock(\.isEdited) }
        set {
            let isNews = line.withLock { line in
                defer { line = (isEdited: newValue, wasEdited: line.wasEdited || newValue) }
                return line.isEdited != newValue
            }
            // The lock is not held, because this may wait for a stopped terminal.
            if isNews { announce(newValue ? "\u{1B}[?2004h" : "\u{1B}[?2004l") }
        }
    }

    /// Returns whether a terminal accepts output at once. A terminal that Ctrl-S has stopped does not, and the
    /// program's end must not wait for it.
    public static func takesOutput(_ descriptor: CInt) -> Bool {
        var terminal = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        return poll(&terminal, 1, 0) == 1
    }

    private static func announce(_ sequence: String) { _ = write(STDOUT_FILENO, sequence, sequence.utf8.count) }
}
