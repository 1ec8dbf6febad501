import Foundation
import Glibc
import Testing

@testable import ChappieLineEditor

/// A terminal with a line editor inside. It takes the place of the standard streams: use it in a process of its own, which
/// an exit test makes.
final class EditedTerminal {
    let editor: LineEditor
    private let keyboard: CInt

    /// - Parameters:
    ///   - bindings: the lines of the user's `.editrc`.
    ///   - historyLimit: the editor's.
    init(columns: Int = 80, rows: Int = 24, bindings: String = "", historyLimit: Int = 500) throws {
        // A test that waits in vain ends, and fails.
        alarm(300)
        signal(SIGHUP, SIG_IGN)
        let file = FileManager.default.temporaryDirectory.appending(component: "editrc-\(getpid())")
        try Data(bindings.utf8).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        setenv("EDITRC", file.path, 1)
        setenv("TERM", "xterm-256color", 1)
        // Linux's own way to a terminal (pty(7), ioctl_tty(2)). The process leads a session, and the terminal is its own.
        setsid()
        try #require(getsid(0) == getpid())
        keyboard = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC)
        var (locked, number): (CInt, CInt) = (0, 0)
        try #require(ioctl(keyboard, 0x4004_5431, &locked) == 0 && ioctl(keyboard, 0x8004_5430, &number) == 0)
        Keyboard.resize(keyboard, columns, rows)
        let inside = open("/dev/pts/\(number)", O_RDWR)
        try #require(dup2(inside, STDIN_FILENO) == STDIN_FILENO && dup2(inside, STDOUT_FILENO) == STDOUT_FILENO)
        close(inside)
        editor = try #require(LineEditor(name: "test", historyLimit: historyLimit))
    }

    /// Asks, and the user does this on a thread of their own once the prompt is on the screen: only then does the terminal
    /// leave every key to the editor.
    func read(
        _ prompt: LineEditor.Prompt = .init("> "), showing shown: String? = nil, until bell: CInt = -1,
        _ user: @escaping @Sendable (inout Keyboard) -> Void
    ) -> LineEditor.Entry {
        let (done, doneWriter) = Self.pipe()
        let finished = DispatchSemaphore(value: 0)
        let terminal = keyboard
        Thread.detachNewThread {
            var keyboard = Keyboard(terminal: terminal, done: done)
            keyboard.sees("\u{1B}[?2004h")
            keyboard.sees(shown ?? prompt.text.trimmingCharacters(in: .whitespaces))
            user(&keyboard)
            keyboard.leaveTheRest()
            finished.signal()
        }
        let entry = editor.read(prompt, until: bell)
        close(doneWriter)
        finished.wait()
        close(done)
        return entry
    }

    /// Asks, and the user types this.
    func read(_ prompt: LineEditor.Prompt = .init("> "), typing keys: [UInt8]) -> LineEditor.Entry {
        read(prompt) { keyboard in keyboard.types(keys) }
    }

    func read(_ prompt: LineEditor.Prompt = .init("> "), typing keys: String) -> LineEditor.Entry {
        read(prompt, typing: Array(keys.utf8))
    }

    /// A pipe, or a failure of the test at its first use.
    static func pipe() -> (reader: CInt, writer: CInt) {
        var ends: [CInt] = [-1, -1]
        return Glibc.pipe(&ends) == 0 ? (ends[0], ends[1]) : (-1, -1)
    }
}

/// The user's side of a terminal: keys go in, and everything that the program writes is seen.
struct Keyboard {
    private let terminal: CInt
    /// At its end once the entry is complete.
    private let done: CInt
    private var screen: [UInt8] = []
    private var isGone = false

    init(terminal: CInt, done: CInt) {
        self.terminal = terminal
        self.done = done
    }

    /// Waits until the program has written this after the text that was seen last, or ends the entry without it.
    ///
    /// - Returns: everything up to and with the text.
    @discardableResult
    mutating func sees(_ text: String, at location: SourceLocation = #_sourceLocation) -> String {
        let wanted = Array(text.utf8)
        while true {
            if let end = screen.firstRange(of: wanted)?.upperBound {
                defer { screen.removeFirst(end) }
                return String(decoding: screen[..<end], as: UTF8.self)
            }
            guard turn(writing: []) != nil || receivesMore() else { break }
        }
        Issue.record(
            "\(text.debugDescription) is not in \(String(decoding: screen, as: UTF8.self).debugDescription)",
            sourceLocation: location)
        return ""
    }

    mutating func types(_ keys: String) { types(Array(keys.utf8)) }

    /// Types keys, as fast as the program takes them.
    mutating func types(_ keys: [UInt8]) {
        var rest = keys[...]
        while !rest.isEmpty, let count = turn(writing: rest) { rest = rest.dropFirst(count) }
    }

    func resizes(_ columns: Int, _ rows: Int) { Self.resize(terminal, columns, rows) }

    /// The terminal is gone, as after the window was closed.
    mutating func hangsUp() {
        close(terminal)
        isGone = true
    }

    /// Keeps the terminal's output flowing until the entry is complete.
    mutating func leaveTheRest() { while turn(writing: []) != nil {} }

    static func resize(_ terminal: CInt, _ columns: Int, _ rows: Int) {
        var size = winsize()
        size.ws_col = UInt16(columns)
        size.ws_row = UInt16(rows)
        _ = ioctl(terminal, UInt(TIOCSWINSZ), &size)
    }

    /// Reads once, after the entry is complete: the kernel hands the last output of a terminal over a moment later.
    ///
    /// - Returns: `false` if nothing comes.
    private mutating func receivesMore() -> Bool {
        guard !isGone else { return false }
        var waited = pollfd(fd: terminal, events: Int16(POLLIN), revents: 0)
        guard poll(&waited, 1, 10_000) > 0 else { return false }
        return receive()
    }

    private mutating func receive() -> Bool {
        var piece = [UInt8](repeating: 0, count: 4096)
        let count = Glibc.read(terminal, &piece, piece.count)
        if count > 0 { screen += piece[..<count] }
        return count > 0
    }

    /// Reads or writes once, and waits until one of them is possible.
    ///
    /// - Returns: how many bytes were written; `nil` once the entry is complete.
    private mutating func turn(writing bytes: ArraySlice<UInt8>) -> Int? {
        guard !isGone else { return nil }
        var waited = [
            pollfd(fd: terminal, events: Int16(bytes.isEmpty ? POLLIN : POLLIN | POLLOUT), revents: 0),
            pollfd(fd: done, events: Int16(POLLIN), revents: 0),
        ]
        guard poll(&waited, 2, -1) > 0 else { return 0 }
        if waited[0].revents & Int16(POLLIN) != 0 {
            _ = receive()
            return 0
        }
        if waited[0].revents & Int16(POLLOUT) != 0 {
            let count = bytes.withUnsafeBytes { write(terminal, $0.baseAddress, min($0.count, 1024)) }
            return max(0, count)
        }
        return waited[1].revents != 0 ? nil : 0
    }
}
