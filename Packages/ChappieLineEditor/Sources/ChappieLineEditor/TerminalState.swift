import Glibc
import Synchronization

/// The terminal as it was before the program changed it.
public enum TerminalState {
    // Two mutexes: in a static `Mutex` over a structure, Swift 6.3.1 with -O takes a `nil` of `termios?` for settings
    // that are all zero (see Tests/Acceptance/test_terminal.py). If both are locked, `original` is the first.
    private static let original = Mutex<termios?>(nil)
    private static let line = Mutex((isEdited: false, wasEdited: false))

    /// Its columns and rows; `nil` where the descriptor, by default standard output, is no terminal.
    public static func size(of descriptor: CInt = 1) -> (columns: Int, rows: Int)? {
        var size = winsize()
        guard ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else { return nil }
        return (Int(size.ws_col), Int(size.ws_row))
    }

    /// Whether lines are edited on this terminal, and none is at the moment.
    public static var isBetweenLines: Bool { line.withLock { $0.wasEdited && !$0.isEdited } }

    /// Shows what the user types while nothing reads it, or not; the line editor shows it itself. What is typed is kept.
    public static func echo(_ shows: Bool) {
        original.withLock { original in
            guard original != nil else { return }
            var settings = termios()
            guard tcgetattr(STDIN_FILENO, &settings) == 0 else { return }
            if shows { settings.c_lflag |= tcflag_t(ECHO) } else { settings.c_lflag &= ~tcflag_t(ECHO) }
            tcsetattr(STDIN_FILENO, TCSANOW, &settings)
        }
    }

    /// Puts everything back, at the program's end; does nothing where no editor was made.
    public static func restore() {
        original.withLock { original in
            guard var settings = original else { return }
            let wasEdited = line.withLock { line in
                defer { line.isEdited = false }
                return line.isEdited
            }
            if wasEdited, takesOutput(STDOUT_FILENO) { announce("\u{1B}[?2004l\n") }
            tcsetattr(STDIN_FILENO, TCSANOW, &settings)
        }
    }

    static func remember() {
        original.withLock { original in
            var settings = termios()
            guard original == nil, tcgetattr(STDIN_FILENO, &settings) == 0 else { return }
            original = settings
        }
    }

    /// Whether a line is being edited: the terminal then marks what is pasted.
    static var isEditing: Bool {
        get { line.withLock(\.isEdited) }
        set {
            let isNews = line.withLock { line in
                defer { line = (isEdited: newValue, wasEdited: line.wasEdited || newValue) }
                return line.isEdited != newValue
            }
            // Without the lock: this may wait for a terminal that is stopped.
            if isNews { announce(newValue ? "\u{1B}[?2004h" : "\u{1B}[?2004l") }
        }
    }

    /// Whether a terminal shows at once what is written. One that Ctrl-S has stopped does not, and the program's end must
    /// not wait for it.
    public static func takesOutput(_ descriptor: CInt) -> Bool {
        var terminal = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        return poll(&terminal, 1, 0) == 1
    }

    private static func announce(_ sequence: String) { _ = write(STDOUT_FILENO, sequence, sequence.utf8.count) }
}
