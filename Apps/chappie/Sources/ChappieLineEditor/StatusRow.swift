import Glibc
import Synchronization

/// A row below the line that is being edited. It is on the screen only while the editor waits for a key.
///
/// Only rows above the cursor ever scroll away, and this row is below it. It is removed before the key is given to
/// libedit, and before anything else is written. So the row never gets into the scrollback, whatever the key does: end
/// the line, clear the screen, list completions or suspend the program. libedit does not know the row, and its redraws
/// find the screen as they left it. A row above the prompt would scroll away with a long text, and a row of libedit's
/// own prompt would stay on the screen with the line. On many terminals, rows that leave a scroll region (DECSTBM) are
/// missing in the scrollback, and the region survives a program that is killed.
enum StatusRow {
    /// The number of rows from the cursor down to the status row, or 0 if it is not shown, and the terminal's size. The
    /// mutex is also locked while the row is written, because another thread's output must not come between.
    /// ``TerminalState/restore()`` must not wait for a stopped terminal, so it first checks whether the terminal
    /// accepts output.
    private static let shown = Mutex((rows: 0, columns: 0, height: 0))

    /// Draws the row and leaves the cursor at its place.
    ///
    /// - Parameter rows: the number of rows of the text below the cursor.
    static func show(_ text: String, below rows: Int, on size: (columns: Int, rows: Int)) {
        let down = rows > 0 ? "\u{1B}[\(rows)B" : ""
        // IND makes room, because it scrolls on the last row of the screen. Then the cursor's place is kept (DECSC).
        let room = "\(down)\u{1B}D\u{1B}[\(rows + 1)A"
        // Without DECAWM, a text that the terminal finds wider than expected does not wrap into a second row.
        let row = "\u{1B}7\u{1B}[\(rows + 1)B\r\u{1B}[2K\u{1B}[?7l\u{1B}[2m\(text)\u{1B}[0m\u{1B}[?7h\u{1B}8"
        shown.withLock { shown in
            write(room + row)
            shown = (rows + 1, size.columns, size.rows)
        }
    }

    /// Removes the row. Any thread may call this method. It does nothing if the row is not shown.
    ///
    /// - Returns: `false` if the terminal now has another size. It may have moved the row, and only a redraw of
    ///   everything below the prompt removes it.
    @discardableResult
    static func hide() -> Bool {
        shown.withLock { shown in
            guard shown.rows > 0 else { return true }
            defer { shown.rows = 0 }
            if let size = terminalSize(of: STDOUT_FILENO), size != (shown.columns, shown.height) { return false }
            write("\u{1B}7\u{1B}[\(shown.rows)B\r\u{1B}[J\u{1B}8")
            return true
        }
    }

    private static func write(_ text: String) { _ = Glibc.write(STDOUT_FILENO, text, text.utf8.count) }
}

/// Returns the terminal's columns and rows, or `nil` if the descriptor is not a terminal.
func terminalSize(of descriptor: CInt) -> (columns: Int, rows: Int)? {
    var size = winsize()
    guard ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else { return nil }
    return (Int(size.ws_col), Int(size.ws_row))
}
