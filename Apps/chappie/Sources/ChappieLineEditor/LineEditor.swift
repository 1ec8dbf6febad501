import CEditline
import Glibc
import Synchronization

/// An editor that reads lines from the terminal of the standard streams, with the keys of a shell.
///
/// Return ends the entry. Return after a backslash, Alt-Return, and a line feed in a paste begin another line of the
/// same entry. Ctrl-C clears the line, Ctrl-D on an empty line ends the input, and Ctrl-Z restores the terminal and
/// suspends the program. The editor reads the user's `.editrc`.
///
/// Its methods block, so call them on a thread that may block. It is `@unchecked Sendable` because a `Mutex` cannot
/// hold libedit's handle (libedit calls back into this object during a call). Every call holds one lock from its
/// beginning to its end, and all mutable state is read and written under this lock.
public final class LineEditor: @unchecked Sendable {
    /// The user's input.
    public enum Entry: Equatable, Sendable {
        /// A line, or several lines with line feeds between them.
        case text(String)
        /// The user pressed Ctrl-C, and there was no text to clear.
        case interrupted
        /// The user pressed Ctrl-D, or the terminal is gone.
        case end
    }

    /// A question to the user.
    public struct Prompt: Sendable {
        /// The text that is shown before the user's text.
        public var text: String
        /// The initial text, which the user may change.
        public var initial: String
        /// Whether the prompt is bold.
        public var isBold: Bool
        /// Whether Ctrl-C ends the entry even if there is text.
        public var endsWhenInterrupted: Bool
        /// Whether keys that the user typed before the prompt are dropped, so that only a later key answers it.
        public var dropsTypeAhead: Bool
        /// Returns complete texts that could replace the text before the cursor, for Tab.
        public var completions: (@Sendable (_ text: String) -> [String])?
        /// Returns a row to show below the text, dim, while the editor waits for a key. The row has no control
        /// characters and takes fewer columns than `columns`. An empty row is not shown, and neither is a row for which
        /// the text leaves no room.
        public var status: (@Sendable (_ columns: Int) -> String)?
        /// Returns entries that are older than this editor, from the oldest to the newest. The editor calls this
        /// closure when the user first presses a key that may lead to them, and again at the next prompt as long as the
        /// result is `nil`. The user waits for the result.
        public var earlierEntries: (@Sendable () -> [String]?)?

        /// Creates a prompt with the given properties.
        public init(
            _ text: String, initial: String = "", isBold: Bool = false, endsWhenInterrupted: Bool = false,
            dropsTypeAhead: Bool = false, completions: (@Sendable (_ text: String) -> [String])? = nil,
            status: (@Sendable (_ columns: Int) -> String)? = nil,
            earlierEntries: (@Sendable () -> [String]?)? = nil
        ) {
            self.text = text
            self.initial = initial
            self.isBold = isBold
            self.endsWhenInterrupted = endsWhenInterrupted
            self.dropsTypeAhead = dropsTypeAhead
            self.completions = completions
            self.status = status
            self.earlierEntries = earlierEntries
        }
    }

    private let lock = Mutex(())
    private let editor: OpaquePointer
    private let history: OpaquePointer
    // Only the caller that holds the lock uses these.
    fileprivate var input: KeyInput
    fileprivate var prompt = Prompt("")
    fileprivate var shownPrompt: UnsafeMutablePointer<CChar>?
    fileprivate var isInterrupted = false
    private var entries: [String] = []
    private var hasEarlierEntries = false
    /// Whether this prompt may still ask for the earlier entries.
    private var mayRecall = false
    /// Whether the user has chosen the keys of vi.
    private let isVi: Bool

    /// Creates an editor.
    ///
    /// - Parameters:
    ///   - name: the program's name in `.editrc`.
    ///   - historyLimit: the number of entries that the arrow keys can reach.
    /// - Returns: `nil` if the standard streams are not a terminal on which lines can be edited.
    public init?(name: String, historyLimit: Int = 500) {
        guard isatty(STDIN_FILENO) == 1, isatty(STDOUT_FILENO) == 1, TerminalState.awaitForeground(STDIN_FILENO),
            let history = history_init()
        else { return nil }
        TerminalState.remember()
        input = KeyInput(
            descriptor: STDIN_FILENO, attention: Attention.reader, bindings: Self.userBindings())
        let reader: el_rfunc_t = { editor, character in LineEditor.of(editor)?.read(character) ?? 0 }
        let shown: @convention(c) (OpaquePointer?) -> UnsafeMutablePointer<CChar>? = { LineEditor.of($0)?.shownPrompt }
        guard let editor = ceditline_open(name, reader, shown) else {
            history_end(history)
            return nil
        }
        self.editor = editor
        self.history = history
        isVi = ceditline_is_vi(editor) != 0
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

    /// Returns the user's `.editrc`, which libedit reads as well, or an empty text.
    private static func userBindings() -> String {
        let home = getenv("HOME").map { String(cString: $0) + "/.editrc" }
        let path = getenv("EDITRC").map { String(cString: $0) } ?? home
        guard let path, let file = fopen(path, "re") else { return "" }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 1 << 16)
        let count = fread(&bytes, 1, bytes.count, file)
        return String(decoding: bytes[..<count], as: UTF8.self)
    }

    // MARK: Reading

    /// Asks the user and waits for the answer.
    ///
    /// - Parameter bell: a descriptor that ends the entry when it is readable. Default: none.
    public func read(_ prompt: Prompt, until bell: CInt = -1) -> Entry {
        lock.withLock { _ in
            self.prompt = prompt
            // The editor takes everything between two of these for a style, which it writes unchanged.
            self.prompt.text.unicodeScalars.removeAll { $0 == "\u{1}" }
            let prompt = self.prompt
            input.bell = bell
            isInterrupted = false
            free(shownPrompt)
            // The editor ties a style to the character after it, so a style must not be at the end of the prompt.
            let head = prompt.text.dropLast()
            let last = prompt.text.suffix(1)
            shownPrompt = strdup(
                prompt.isBold ? "\u{1}\u{1B}[1m\u{1}\(head)\u{1}\u{1B}[0m\u{1}\(last)" : prompt.text)
            mayRecall = !hasEarlierEntries
            if prompt.dropsTypeAhead { input.discard() }
            if !prompt.initial.isEmpty { input.push(paste: prompt.initial) }
            guard TerminalState.awaitForeground(STDIN_FILENO) else { return .end }
            // The editor itself takes the terminal only after it has shown the prompt. A Ctrl-C in between would end
            // the program.
            ceditline_prepare(editor, 1)
            TerminalState.isEditing = true
            defer { TerminalState.isEditing = false }
            guard ceditline_read(editor) > 0, let line = el_wline(editor)?.pointee else {
                print("\n")
                return isInterrupted ? .interrupted : .end
            }
            var text = Self.text(from: line.buffer, to: line.lastchar)
            while text.last == "\n" { text.removeLast() }
            return .text(text)
        }
    }

    /// Draws the prompt again, with a status that has changed. Any thread may call this method, even during a call of
    /// ``read(_:until:)``.
    public static func redraw() { Attention.call() }

    /// Adds an entry to the history of the arrow keys.
    public func remember(_ entry: String) {
        lock.withLock { _ in
            if !hasEarlierEntries { entries.append(entry) }
            ceditline_remember(history, entry)
        }
    }

    /// Puts the earlier entries before the entries of this editor.
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
            if !input.isReady { showStatus() }
            let event = input.event()
            let isAsDrawn = StatusRow.hide()
            switch event {
            case .end: return 0
            case .attention: takeBack()
            case .key(let scalar):
                if !isAsDrawn { takeBack() }
                // All keys that lead into the history are control characters, or begin with one, also with vi's
                // bindings. Return, Tab, Ctrl-C and Ctrl-D do not lead there.
                if mayRecall, scalar.value < 0x20, !["\r", "\n", "\t", "\u{3}", "\u{4}"].contains(scalar) { recall() }
                let isSequence = isVi && scalar == "\u{1B}" && input.continuesEscape
                character?.pointee = wchar_t(bitPattern: (isSequence ? Self.lead : scalar).value)
                return 1
            }
        }
    }

    // MARK: Keys

    /// Keys that no keyboard has. Only the editor presses them.
    private static let submit = "\u{1B}[2989~"
    private static let leave = "\u{1B}[2990~"

    /// The key that replaces Escape at the beginning of a sequence. With the keys of vi, Escape is a separate key.
    private static let lead: Unicode.Scalar = "\u{1F}"

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
        // With the keys of vi, the editor's own function stops before the last character.
        bind("chappie-end", ["\u{1B}[F", "\u{1B}[4~"]) { editor, _ in
            guard let line = el_wline(editor)?.pointee else { return UInt8(CC_ERROR) }
            el_cursor(editor, CInt(line.lastchar - line.cursor))
            return UInt8(CC_CURSOR)
        }
        bind("chappie-leave", [Self.leave]) { _, _ in UInt8(CC_EOF) }
        bind(Self.submit, to: "ed-newline")
        ceditline_bind(editor, "^R", "em-inc-search-prev")
        for (keys, function) in [
            ("\u{1B}[H", "ed-move-to-beg"), ("\u{1B}[1~", "ed-move-to-beg"), ("\u{1B}[3~", "ed-delete-next-char"),
            ("\u{1B}[1;5C", "em-next-word"), ("\u{1B}[1;5D", "ed-prev-word"),
        ] { bind(keys, to: function) }
        guard isVi else { return }
        for (key, function) in [
            ("A", "ed-prev-history"), ("B", "ed-next-history"), ("C", "ed-next-char"), ("D", "ed-prev-char"),
        ] {
            // Both forms of a terminal's arrow keys.
            bind("\u{1B}[\(key)", to: function)
            bind("\u{1B}O\(key)", to: function)
        }
    }

    private func bind(_ name: String, _ keys: [String], _ function: @escaping ceditline_function) {
        ceditline_add(editor, name, function)
        for key in keys { bind(key, to: name) }
    }

    private func bind(_ key: String, to name: String) {
        guard isVi else {
            ceditline_bind(editor, key, name)
            return
        }
        let key = key.replacing("\u{1B}", with: "\(Self.lead)")
        ceditline_bind(editor, key, name)
        // A line feed and Tab have other uses in vi's command mode.
        if !["\n", "\r", "^I"].contains(key) { ceditline_bind_command(editor, key, name) }
    }

    fileprivate func pressedReturn() -> UInt8 {
        guard let line = el_wline(editor)?.pointee, let last = line.lastchar else { return UInt8(CC_ERROR) }
        if line.cursor == line.lastchar, line.buffer < last, last[-1] == 0x5C {
            el_deletestr(editor, 1)
            el_insertstr(editor, "\n")
            return UInt8(CC_REFRESH)
        }
        // The editor's own function first moves the cursor below the last row.
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

    /// Returns a part of the line without characters of value 0, because libedit's own conversion ends at the first of
    /// them.
    private static func text(from start: UnsafePointer<wchar_t>, to end: UnsafePointer<wchar_t>) -> String {
        var text = String.UnicodeScalarView()
        for character in UnsafeBufferPointer(start: start, count: end - start) where character != 0 {
            if let scalar = Unicode.Scalar(UInt32(bitPattern: character)) { text.append(scalar) }
        }
        return String(text)
    }

    /// Deletes the text of the line.
    ///
    /// - Returns: whether there was any text.
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
        // Like the terminal, this call stops the complete job, including the other programs of a pipeline.
        kill(0, SIGTSTP)
        // The signal may first reach another thread. Without job control it stops no process.
        input.awaitAttention(milliseconds: 500)
        // The shell may have continued the program in the background.
        guard TerminalState.awaitForeground(STDIN_FILENO) else { return UInt8(CC_EOF) }
        TerminalState.isEditing = true
        ceditline_prepare(editor, 1)
        ceditline_redraw(editor)
        return UInt8(CC_NORM)
    }

    fileprivate func complete() -> UInt8 {
        guard let line = el_wline(editor)?.pointee, let completions = prompt.completions else { return UInt8(CC_ERROR) }
        let text = Self.text(from: line.buffer, to: line.cursor)
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

    /// Shows the prompt's status below the text if there is room. By now, libedit has drawn the text.
    private func showStatus() {
        guard let status = prompt.status, let size = TerminalState.size() else { return }
        let (prompt, columns) = (CInt(prompt.text.count), CInt(size.columns))
        let rows = ceditline_rows(editor, prompt, columns, 1)
        guard rows + 2 < size.rows else { return }
        let text = status(size.columns)
        guard !text.isEmpty else { return }
        StatusRow.show(text, below: Int(rows - ceditline_rows(editor, prompt, columns, 0)), on: size)
    }

    /// Goes up to the first row and draws everything again. The terminal has wrapped the rows again, or the shell has
    /// used it in the meantime.
    private func takeBack() {
        guard TerminalState.awaitForeground(STDIN_FILENO) else { return }
        ceditline_prepare(editor, 0)
        ceditline_prepare(editor, 1)
        let columns = TerminalState.size()?.columns ?? 80
        let up = ceditline_rows_above(editor, CInt(prompt.text.columns), CInt(columns))
        print("\r" + (up > 0 ? "\u{1B}[\(up)A" : "") + "\u{1B}[J")
        el_resize(editor)
        ceditline_redraw(editor)
    }

    /// Writes the text at once. libedit writes its own output whenever it waits for a key.
    private func print(_ text: String) { _ = write(STDOUT_FILENO, text, text.utf8.count) }
}
