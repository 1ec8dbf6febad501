import Glibc
import Synchronization

/// The terminal as it was before the program changed it.
public enum TerminalState {
    private struct State {
        var original: termios?
        var isEditing = false
        var hasEdited = false
    }

    private static let state = Mutex(State())

    /// Its columns and rows; `nil` where the descriptor, by default standard output, is no terminal.
    public static func size(of descriptor: CInt = 1) -> (columns: Int, rows: Int)? {
        var size = winsize()
        guard ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else { return nil }
        return (Int(size.ws_col), Int(size.ws_row))
    }

    /// Whether lines are edited on this terminal, and none is at the moment.
    public static var isBetweenLines: Bool { state.withLock { $0.hasEdited && !$0.isEditing } }

    /// Shows what the user types while nothing reads it, or not; the line editor shows it itself. What is typed is kept.
    public static func echo(_ shows: Bool) {
        state.withLock { state in
            guard state.original != nil else { return }
            var settings = termios()
            guard tcgetattr(STDIN_FILENO, &settings) == 0 else { return }
            if shows { settings.c_lflag |= tcflag_t(ECHO) } else { settings.c_lflag &= ~tcflag_t(ECHO) }
            tcsetattr(STDIN_FILENO, TCSANOW, &settings)
        }
    }

    /// Puts everything back, at the program's end; does nothing where no editor was made.
    public static func restore() {
        state.withLock { state in
            guard var original = state.original else { return }
            if state.isEditing { announce("\u{1B}[?2004l\n") }
            state.isEditing = false
            tcsetattr(STDIN_FILENO, TCSANOW, &original)
        }
    }

    static func remember() {
        state.withLock { state in
            var settings = termios()
            guard state.original == nil, tcgetattr(STDIN_FILENO, &settings) == 0 else { return }
            state.original = settings
        }
    }

    /// Whether a line is being edited: the terminal then marks what is pasted.
    static var isEditing: Bool {
        get { state.withLock(\.isEditing) }
        set {
            state.withLock { state in
                guard state.isEditing != newValue else { return }
                (state.isEditing, state.hasEdited) = (newValue, true)
                announce(newValue ? "\u{1B}[?2004h" : "\u{1B}[?2004l")
            }
        }
    }

    private static func announce(_ sequence: String) { _ = write(STDOUT_FILENO, sequence, sequence.utf8.count) }
}
