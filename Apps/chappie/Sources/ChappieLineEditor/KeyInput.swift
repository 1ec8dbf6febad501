import Glibc

/// The user's keys as characters. They come from a terminal, or the editor itself adds them.
struct KeyInput {
    private let descriptor: CInt
    /// A descriptor that is readable if something other than a key needs attention.
    private let attention: CInt
    /// A descriptor that ends the input when it is readable. It is negative if there is none.
    var bell: CInt = -1
    private var bytes: [UInt8] = []
    private var next = 0
    /// The keys that the editor has added. The key at the end of the array is read before the others.
    private var pushed: [Unicode.Scalar] = []
    /// The text of a paste that the editor itself has added.
    private var ownPaste: String?
    /// Whether something needed attention inside of a sequence.
    private var attends = false
    /// The user's own bindings, in the form of `.editrc`. A sequence that occurs in them is a key.
    private let bindings: String

    enum Event: Equatable {
        case key(Unicode.Scalar)
        /// The other descriptor was readable and is now empty.
        case attention
        case end
    }

    init(descriptor: CInt, attention: CInt, bindings: String = "") {
        self.descriptor = descriptor
        self.attention = attention
        self.bindings = bindings
    }

    /// Adds keys before all later keys.
    mutating func push(_ keys: String) { pushed += keys.unicodeScalars.reversed() }

    /// Adds a paste before all later keys. No character of a paste acts as a key.
    mutating func push(paste text: String) {
        ownPaste = Self.cleaned(text.unicodeScalars)
        push("\u{1B}[200~")
    }

    /// Discards every key that the user typed and the editor has not read yet.
    mutating func discard() {
        tcflush(descriptor, TCIFLUSH)
        bytes = []
        next = 0
        pushed = []
        ownPaste = nil
    }

    /// Whether there is something to read at once.
    var isReady: Bool { isReady(within: 0) }

    private func isReady(within milliseconds: CInt) -> Bool {
        if !pushed.isEmpty || next < bytes.count { return true }
        var waited = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&waited, 1, milliseconds) > 0
    }

    /// Waits for the next key. A key that is not a character comes as its usual sequence (see ``KeySequence``). A
    /// sequence without a meaning here is dropped.
    mutating func event() -> Event {
        while true {
            let isOwn = !pushed.isEmpty
            guard let event = rawEvent() else { continue }
            guard event == .key("\u{1B}"), !isOwn, let first = nextKey(within: Self.keyGap) else { return event }
            if first == "\u{1B}" {
                next -= 1
                continue
            }
            guard let kind = KeySequence.Kind(first) else {
                pushed.append(first)
                return event
            }
            // Alt and one of these letters looks like the beginning of a sequence.
            guard let second = nextKey(within: kind == .text ? Self.keyGap : Self.sequenceGap) else {
                if kind != .text { continue }
                pushed.append(first)
                return event
            }
            push(sequence(kind, after: first, beginningWith: second))
        }
    }

    /// The time, in milliseconds, in which a key's sequence continues after Escape. A user's next key comes later.
    private static let keyGap: CInt = 50
    /// The time, in milliseconds, in which the rest of a sequence arrives. A network may deliver it in pieces.
    private static let sequenceGap: CInt = 500
    /// The time, in milliseconds, in which a paste continues.
    private static let pasteGap: CInt = 1000

    /// Reads the rest of a sequence, and returns the keys that it means.
    private mutating func sequence(
        _ kind: KeySequence.Kind, after first: Unicode.Scalar, beginningWith second: Unicode.Scalar
    ) -> String {
        var sequence = KeySequence(kind)
        var whole = String(first)
        var next: Unicode.Scalar? = second
        while let scalar = next {
            if kind != .text { whole.unicodeScalars.append(scalar) }
            switch sequence.receive(scalar) {
            case .more: next = nextKey(within: Self.sequenceGap)
            case .keys(""): return kind != .text && bindings.contains(whole) ? "\u{1B}" + whole : ""
            case .keys(let keys): return keys
            case .interrupted:
                guard scalar == "\u{1B}" else { return String(scalar) }
                // Another sequence begins.
                self.next -= 1
                return ""
            }
        }
        return ""
    }

    /// Returns the next character if it arrives within that time.
    private mutating func nextKey(within milliseconds: CInt) -> Unicode.Scalar? {
        while true {
            switch rawEvent(within: milliseconds) {
            case .key(let scalar): return scalar
            case .attention: attends = true
            case .end, nil: return nil
            }
        }
    }

    /// Waits for the next character, also inside of a sequence.
    ///
    /// - Parameter milliseconds: the time to wait. -1 means forever.
    /// - Returns: `nil` if nothing happens in this time.
    private mutating func rawEvent(within milliseconds: CInt = -1) -> Event? {
        if let key = pushed.popLast() { return .key(key) }
        while true {
            if let scalar = decoded() { return .key(scalar) }
            if milliseconds < 0, attends {
                attends = false
                return .attention
            }
            var waited = [
                pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0),
                pollfd(fd: attention, events: Int16(POLLIN), revents: 0),
                pollfd(fd: bell, events: Int16(POLLIN), revents: 0),
            ]
            let ready = poll(&waited, 3, milliseconds)
            guard ready > 0 else {
                if ready == 0 { return nil }
                if errno == EINTR { continue }
                return .end
            }
            if waited[2].revents != 0 { return .end }
            var piece = [UInt8](repeating: 0, count: 64)
            if waited[1].revents != 0, read(attention, &piece, piece.count) > 0 { return .attention }
            guard fill() else { return .end }
        }
    }

    /// Reads more bytes, if some are available.
    ///
    /// - Returns: `false` at the end of the input.
    private mutating func fill() -> Bool {
        var piece = [UInt8](repeating: 0, count: 4096)
        let count = read(descriptor, &piece, piece.count)
        if count < 0, errno == EINTR || errno == EAGAIN { return true }
        guard count > 0 else { return false }
        bytes = Array(bytes[next...] + piece[..<count])
        next = 0
        return true
    }

    /// Whether the Escape that was read last begins the sequence of a key, or of Alt-Return.
    var continuesEscape: Bool {
        let following = pushed.last ?? (next < bytes.count ? Unicode.Scalar(bytes[next]) : " ")
        return ["[", "O", "\r", "\n"].contains(following)
    }

    /// Waits until the other descriptor is readable, at most for this time, and empties it.
    func awaitAttention(milliseconds: CInt) {
        var waited = pollfd(fd: attention, events: Int16(POLLIN), revents: 0)
        while poll(&waited, 1, milliseconds) < 0, errno == EINTR {}
        var piece = [UInt8](repeating: 0, count: 64)
        _ = read(attention, &piece, piece.count)
    }

    /// Returns the next character of the bytes, U+FFFD for a byte that is not UTF-8, or `nil` if the rest of the
    /// character has not arrived yet.
    private mutating func decoded() -> Unicode.Scalar? {
        guard next < bytes.count else { return nil }
        let lead = bytes[next]
        let length =
            switch lead {
            case 0xC2...0xDF: 2
            case 0xE0...0xEF: 3
            case 0xF0...0xF4: 4
            default: 1
            }
        let end = min(next + length, bytes.count)
        if let text = String(validating: bytes[next..<end], as: UTF8.self), let scalar = text.unicodeScalars.first {
            next = end
            return scalar
        }
        let isCut = end - next < length && bytes[(next + 1)..<end].allSatisfy { (0x80...0xBF).contains($0) }
        if isCut { return nil }
        next += 1
        return "\u{FFFD}"
    }

    /// Returns the text that arrives until the terminal marks the end of the paste
    /// (https://invisible-island.net/xterm/ctlseqs/ctlseqs.html, "Bracketed Paste Mode"), or until the terminal is
    /// gone. A connection that breaks may lose the mark, so Ctrl-C and a pause also end a paste. It keeps at most
    /// `limit` characters.
    mutating func paste(limit: Int = 1 << 20) -> String {
        if let text = ownPaste.take() { return text }
        let mark = Array("\u{1B}[201~".unicodeScalars)
        var pasted: [Unicode.Scalar] = []
        var matched = 0
        while matched < mark.count, let scalar = nextKey(within: Self.pasteGap) {
            if scalar == mark[matched] {
                matched += 1
                continue
            }
            // The mark has only one escape character, at its start. So the mark can begin again only at an escape.
            pasted += mark[..<matched]
            matched = scalar == mark[0] ? 1 : 0
            guard matched == 0 else { continue }
            // A Ctrl-C that is followed by more is a part of the paste.
            if scalar == "\u{3}", !isReady(within: Self.keyGap) {
                push("\u{3}")
                break
            }
            if pasted.count < limit { pasted.append(scalar) }
        }
        return Self.cleaned(pasted)
    }

    /// Returns the pasted text with a line feed between its lines and without control characters.
    static func cleaned(_ pasted: some Sequence<Unicode.Scalar>) -> String {
        var text = String.UnicodeScalarView()
        var last: Unicode.Scalar?
        for scalar in pasted {
            defer { last = scalar }
            switch scalar {
            case "\r": text.append("\n")
            case "\n" where last == "\r": break
            case "\n", "\t": text.append(scalar)
            default: if scalar.properties.generalCategory != .control { text.append(scalar) }
            }
        }
        // One line feed at the end is kept, so that the next word does not join the last line.
        let endsLine = text.last == "\n"
        while text.last == "\n" { text.removeLast() }
        if endsLine, !text.isEmpty { text.append("\n") }
        return String(text)
    }
}
