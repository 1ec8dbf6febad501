import Glibc
import Synchronization

/// Keeps what a person types from showing, and gives the terminal back as it was, however the program ends.
enum TerminalEcho {
    private struct Silenced {
        let terminal: CInt
        var settings: termios
    }

    private static let silenced = Mutex<Silenced?>(nil)
    private static let restoresAtExit: Void = { atexit { TerminalEcho.restore() } }()

    /// Whether somebody is being asked for something right now.
    static var isSilent: Bool { silenced.withLock { $0 != nil } }

    /// - Returns: whether it could be done.
    static func silence(_ terminal: CInt) -> Bool {
        var settings = termios()
        guard tcgetattr(terminal, &settings) == 0 else { return false }
        _ = restoresAtExit
        silenced.withLock { $0 = Silenced(terminal: terminal, settings: settings) }
        settings.c_lflag &= ~tcflag_t(ECHO)
        return tcsetattr(terminal, TCSAFLUSH, &settings) == 0
    }

    /// Does nothing where nothing is silenced.
    static func restore() {
        silenced.withLock { silenced in
            guard var old = silenced else { return }
            tcsetattr(old.terminal, TCSAFLUSH, &old.settings)
            _ = write(old.terminal, "\n", 1)
            silenced = nil
        }
    }
}
