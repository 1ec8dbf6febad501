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

    enum Event: Equatable {
        case key(Unicode.Scalar)
        /// The other descriptor was readable and is now empty.
        case attention
        case end
    }

    init(descriptor: CInt, attention: CInt) {
        self.descriptor = descriptor
        self.attention = attention
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
    var isReady: Bool {
        if !pushed.isEmpty || next < bytes.count { return true }
        var waited = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&waited, 1, 0) > 0
    }

    /// Waits for the next key.
    mutating func event() -> Event {
        if let key = pushed.popLast() { return .key(key) }
        while true {
            if let scalar = decoded() { return .key(scalar) }
            var waited = [
                pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0),
                pollfd(fd: attention, events: Int16(POLLIN), revents: 0),
                pollfd(fd: bell, events: Int16(POLLIN), revents: 0),
            ]
            guard poll(&waited, 3, -1) > 0 else {
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

    /// Returns whether the Escape that was read last begins the sequence of a key, or of Alt-Return. A terminal sends
    /// such a sequence at once, and a user's next key comes later than `milliseconds`.
    mutating func continuesEscape(milliseconds: CInt = 50) -> Bool {
        if pushed.isEmpty, next == bytes.count {
            var waited = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            var ready: CInt
            repeat { ready = poll(&waited, 1, milliseconds) } while ready < 0 && errno == EINTR
            guard ready > 0, fill() else { return false }
        }
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
    /// gone. It keeps at most `limit` characters.
    mutating func paste(limit: Int = 1 << 20) -> String {
        if let text = ownPaste.take() { return text }
        let mark = Array("\u{1B}[201~".unicodeScalars)
        var pasted: [Unicode.Scalar] = []
        var matched = 0
        while matched < mark.count {
            switch event() {
            case .end: return Self.cleaned(pasted)
            case .attention: continue
            case .key(let scalar):
                if scalar == mark[matched] {
                    matched += 1
                    continue
                }
                // The mark has only one escape character, at its start. So the mark can begin again only at an escape.
                pasted += mark[..<matched]
                matched = scalar == mark[0] ? 1 : 0
                if matched == 0, pasted.count < limit { pasted.append(scalar) }
            }
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
        while text.last == "\n" { text.removeLast() }
        return String(text)
    }
}
