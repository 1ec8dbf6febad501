import CEditline
import Glibc
import Synchronization

/// Reads lines from the terminal of the standard streams, with the keys that people know from their shell.
///
/// Return ends a line; after a backslash, and with Alt, it begins another one in the same entry, and so does a line feed in a
/// paste. Ctrl-C clears the line, Ctrl-D on an empty one ends the input, Ctrl-Z suspends the program with the terminal as it
/// was. The user's `.editrc` is read.
///
/// Its calls block: make them from a thread that may. It is `@unchecked Sendable` because libedit's handle is no value for
/// a `Mutex` (libedit calls back into this object from within a call): every call holds one lock from its beginning to its
/// end, and all mutable state is read and written under it.
public final class LineEditor: @unchecked Sendable {
    /// What the user has entered.
    public enum Entry: Equatable, Sendable {
        /// A line, or several with line feeds between them.
        case text(String)
        /// Ctrl-C, where there was nothing to clear.
        case interrupted
        /// Ctrl-D, or the terminal is gone.
        case end
    }

    /// A question to the user.
    public struct Prompt: Sendable {
        /// Shown before the text.
        public var text: String
        /// Text to begin with, which the user may change.
        public var initial: String
        /// Whether the prompt is bold.
        public var isBold: Bool
        /// Whether Ctrl-C also ends the entry where there is text.
        public var endsWhenInterrupted: Bool
        /// Whether the answer is typed after the prompt is asked: what was typed before is dropped.
        public var dropsTypeAhead: Bool
        /// Whole texts that could stand in the place of the one before the cursor: for Tab.
        public var completions: (@Sendable (_ text: String) -> [String])?
        /// Entries from before this editor, the newest last: asked for when the user first presses a key that may lead to
        /// them, and again at the next prompt while they are `nil`. The user waits for them.
        public var earlierEntries: (@Sendable () -> [String]?)?

        /// A prompt with the given properties.
        public init(
            _ text: String, initial: String = "", isBold: Bool = false, endsWhenInterrupted: Bool = false,
            dropsTypeAhead: Bool = false, completions: (@Sendable (_ text: String) -> [String])? = nil,
            earlierEntries: (@Sendable () -> [String]?)? = nil
        ) {
            self.text = text
            self.initial = initial
            self.isBold = isBold
            self.endsWhenInterrupted = endsWhenInterrupted
            self.dropsTypeAhead = dropsTypeAhead
            self.completions = completions
            self.earlierEntries = earlierEntries
        }
    }

    private let lock = Mutex(())
    private let editor: OpaquePointer
    private let history: OpaquePointer
    // Only used by the caller who holds the lock.
    fileprivate var input: KeyInput
    fileprivate var prompt = Prompt("")
    fileprivate var shownPrompt: UnsafeMutablePointer<CChar>?
    fileprivate var isInterrupted = false
    private var entries: [String] = []
    private var hasEarlierEntries = false
    /// Whether this prompt has not asked for them yet.
    private var mayRecall = false

    /// - Parameters:
    ///   - name: the program's, as `.editrc` knows it.
    ///   - historyLimit: how many entries the arrow keys go through.
    /// - Returns: `nil` where the standard streams are no terminal that can be edited on.
    public init?(name: String, historyLimit: Int = 500) {
        guard isatty(STDIN_FILENO) == 1, isatty(STDOUT_FILENO) == 1, let history = history_init() else { return nil }
        TerminalState.remember()
        input = KeyInput(descriptor: STDIN_FILENO, attention: Attention.reader)
        let reader: el_rfunc_t = { editor, character in LineEditor.of(editor)?.read(character) ?? 0 }
        let shown: @convention(c) (OpaquePointer?) -> UnsafeMutablePointer<CChar>? = { LineEditor.of($0)?.shownPrompt }
        guard let editor = ceditline_open(name, reader, shown) else {
            history_end(history)
            return nil
        }
        (self.editor, self.history) = (editor, history)
        ceditline_set_context(editor, Unmanaged.passUnretained(self).toOpaque())
        ceditline_set_history(editor, history, CInt(historyLimit))
        bindKeys()
    }

    deinit {
        el_end(editor)
        history_end(history)
        free(shownPrompt)
    }

    fileprivate static func of(_ editor: OpaquePointer?) -> LineEditor? {
        ceditline_context(editor).map { Unmanaged<LineEditor>.fromOpaque($0).takeUnretainedValue() }
    }

    // MARK: Reading

    /// Asks the user, and waits for the answer.
    public func read(_ prompt: Prompt) -> Entry {
        lock.withLock { _ in
            self.prompt = prompt
            isInterrupted = false
            free(shownPrompt)
            // The editor ties a style to the character behind it, so that none may stand at the end.
            let (head, last) = (prompt.text.dropLast(), prompt.text.suffix(1))
            shownPrompt = strdup(
                prompt.isBold ? "\u{1}\u{1B}[1m\u{1}\(head)\u{1}\u{1B}[0m\u{1}\(last)" : prompt.text)
            mayRecall = !hasEarlierEntries
            if prompt.dropsTypeAhead { input.discard() }
            if !prompt.initial.isEmpty { input.push(paste: prompt.initial) }
            TerminalState.isEditing = true
            defer { TerminalState.isEditing = false }
            var count: CInt = 0
            guard let line = ceditline_gets(editor, &count), count > 0 else {
                print("\n")
                return isInterrupted ? .interrupted : .end
            }
            var text = String(cString: line)
            if text.last == "\n" { text.removeLast() }
            return .text(text)
        }
    }

    /// Adds an entry to those that the arrow keys go through.
    public func remember(_ entry: String) {
        lock.withLock { _ in
            if !hasEarlierEntries { entries.append(entry) }
            ceditline_remember(history, entry)
        }
    }

    /// Puts the earlier entries before those that were entered here.
    private func recall() {
        mayRecall = false
        guard let earlier = prompt.earlierEntries?() else { return }
        hasEarlierEntries = true
        ceditline_forget(history)
        for entry in earlier + entries { ceditline_remember(history, entry) }
        entries = []
    }

    fileprivate func read(_ character: UnsafeMutablePointer<wchar_t>?) -> CInt {
        while true {
            switch input.event() {
            case .end: return 0
            case .attention: takeBack()
            case .key(let scalar):
                // All keys that lead into the history are control characters, or begin with one, also with vi's bindings.
                // Ctrl-C and Ctrl-D are none of them.
                if mayRecall, scalar.value < 0x20, !["\r", "\n", "\t", "\u{3}", "\u{4}"].contains(scalar) { recall() }
                character?.pointee = wchar_t(bitPattern: scalar.value)
                return 1
            }
        }
    }

    // MARK: Keys

    /// Keys that no keyboard has, for the editor to press.
    private static let submit = "\u{1B}[2989~"
    private static let leave = "\u{1B}[2990~"

    private func bindKeys() {
        bind("chappie-return", ["\n", "\r"]) { editor, _ in LineEditor.of(editor)?.pressedReturn() ?? 0 }
        bind("chappie-line", ["\u{1B}\n", "\u{1B}\r"]) { editor, _ in
            el_insertstr(editor, "\n")
            return UInt8(CC_REFRESH)
        }
        bind("chappie-paste", ["\u{1B}[200~"]) { editor, _ in
            if let text = LineEditor.of(editor)?.input.paste(), !text.isEmpty { el_insertstr(editor, text) }
            return UInt8(CC_REFRESH)
        }
        bind("chappie-clear", ["^C"]) { editor, _ in LineEditor.of(editor)?.pressedInterrupt() ?? 0 }
        bind("chappie-delete", ["^D"]) { editor, _ in LineEditor.of(editor)?.pressedEnd() ?? 0 }
        bind("chappie-suspend", ["^Z"]) { editor, _ in LineEditor.of(editor)?.suspend() ?? 0 }
        bind("chappie-complete", ["^I"]) { editor, _ in LineEditor.of(editor)?.complete() ?? 0 }
        bind("chappie-leave", [Self.leave]) { _, _ in UInt8(CC_EOF) }
        ceditline_bind(editor, Self.submit, "ed-newline")
        ceditline_bind(editor, "^R", "em-inc-search-prev")
        for (keys, function) in [
            ("\u{1B}[H", "ed-move-to-beg"), ("\u{1B}[F", "ed-move-to-end"), ("\u{1B}[1~", "ed-move-to-beg"),
            ("\u{1B}[4~", "ed-move-to-end"), ("\u{1B}[3~", "ed-delete-next-char"), ("\u{1B}[1;5C", "em-next-word"),
            ("\u{1B}[1;5D", "ed-prev-word"),
        ] { ceditline_bind(editor, keys, function) }
    }

    private func bind(_ name: String, _ keys: [String], _ function: @escaping ceditline_function) {
        ceditline_add(editor, name, function)
        for key in keys { ceditline_bind(editor, key, name) }
    }

    fileprivate func pressedReturn() -> UInt8 {
        guard let line = el_wline(editor)?.pointee, let last = line.lastchar else { return UInt8(CC_ERROR) }
        if line.cursor == line.lastchar, line.buffer < last, last[-1] == 0x5C {
            el_deletestr(editor, 1)
            el_insertstr(editor, "\n")
            return UInt8(CC_REFRESH)
        }
        // The editor's own function goes below the last row first.
        press(Self.submit)
        return UInt8(CC_NORM)
    }

    fileprivate func pressedInterrupt() -> UInt8 {
        let hadText = clear()
        if hadText, !prompt.endsWhenInterrupted { return UInt8(CC_REFRESH) }
        isInterrupted = true
        press(Self.leave)
        return UInt8(CC_REFRESH)
    }

    private func press(_ key: String) {
        mayRecall = false
        input.push(key)
    }

    fileprivate func pressedEnd() -> UInt8 {
        guard let line = el_wline(editor)?.pointee else { return UInt8(CC_EOF) }
        if line.buffer == line.lastchar { return UInt8(CC_EOF) }
        guard line.cursor != line.lastchar else { return UInt8(CC_ERROR) }
        el_cursor(editor, 1)
        el_deletestr(editor, 1)
        return UInt8(CC_REFRESH)
    }

    /// - Returns: whether there was anything.
    private func clear() -> Bool {
        guard let line = el_wline(editor)?.pointee, line.buffer != line.lastchar else { return false }
        el_cursor(editor, CInt(line.lastchar - line.cursor))
        el_deletestr(editor, CInt(line.lastchar - line.buffer))
        return true
    }

    fileprivate func suspend() -> UInt8 {
        ceditline_prepare(editor, 0)
        TerminalState.isEditing = false
        print("\n")
        // The whole job, as the terminal would do it: a pipeline's other programs stop as well.
        kill(0, SIGTSTP)
        // The signal may reach another thread first. Where there is no job control it stops nothing.
        input.awaitAttention(milliseconds: 500)
        TerminalState.isEditing = true
        ceditline_prepare(editor, 1)
        ceditline_redraw(editor)
        return UInt8(CC_NORM)
    }

    fileprivate func complete() -> UInt8 {
        guard let line = el_line(editor)?.pointee, let completions = prompt.completions else { return UInt8(CC_ERROR) }
        let before = UnsafeBufferPointer(start: line.buffer, count: line.cursor - line.buffer)
        let text = String(decoding: before.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        switch Completion(of: text, among: completions(text)) {
        case .nothing: return UInt8(CC_REFRESH_BEEP)
        case .insert(let more):
            el_insertstr(editor, more)
            return UInt8(CC_REFRESH)
        case .list(let candidates):
            print("\n" + Completion.table(candidates, columns: TerminalState.size()?.columns ?? 80))
            return UInt8(CC_REDISPLAY)
        }
    }

    // MARK: The screen

    /// The terminal has broken the rows anew, or the shell has had it meanwhile: goes up to the first row, and draws all
    /// again.
    private func takeBack() {
        ceditline_prepare(editor, 0)
        ceditline_prepare(editor, 1)
        let columns = TerminalState.size()?.columns ?? 80
        let up = ceditline_rows_above(editor, CInt(prompt.text.count), CInt(columns))
        print("\r" + (up > 0 ? "\u{1B}[\(up)A" : "") + "\u{1B}[J")
        el_resize(editor)
        ceditline_redraw(editor)
    }

    /// libedit's own output is written whenever it waits for a key.
    private func print(_ text: String) { _ = write(STDOUT_FILENO, text, text.utf8.count) }
}

/// A terminal that has changed its size, and a shell that gives it back, make a descriptor readable.
private enum Attention {
    /// A signal handler may do little more than write.
    private static let pipe: (reader: CInt, writer: CInt) = {
        var ends: [CInt] = [-1, -1]
        guard Glibc.pipe(&ends) == 0 else { return (-1, -1) }
        for end in ends {
            _ = fcntl(end, F_SETFD, FD_CLOEXEC)
            _ = fcntl(end, F_SETFL, O_NONBLOCK)
        }
        return (ends[0], ends[1])
    }()

    /// The descriptor; the signals are handled from here on.
    static let reader: CInt = {
        guard pipe.reader >= 0 else { return -1 }
        var action = sigaction()
        action.sa_flags = SA_RESTART
        action.__sigaction_handler.sa_handler = { _ in
            let reason = errno
            _ = write(Attention.pipe.writer, "w", 1)
            errno = reason
        }
        for number in [SIGWINCH, SIGCONT] { sigaction(number, &action, nil) }
        return pipe.reader
    }()
}
