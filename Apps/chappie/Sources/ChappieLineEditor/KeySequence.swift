/// A parser for what a terminal sends after Escape: keys without a character, pastes, mouse and focus reports, and
/// answers to questions (ECMA-48, 5.4 and 5.6; https://invisible-island.net/xterm/ctlseqs/ctlseqs.html).
///
/// It follows the grammar of the sequences, so that one that is not known never becomes text.
struct KeySequence {
    enum Kind {
        /// CSI: parameters, and a final character.
        case control
        /// SS3: one character.
        case single
        /// OSC, DCS, SOS, PM and APC: a text up to ST or BEL.
        case text

        /// Creates the kind of the sequence that begins with Escape and this character.
        init?(_ scalar: Unicode.Scalar) {
            switch scalar {
            case "[": self = .control
            case "O": self = .single
            case "]", "P", "X", "^", "_": self = .text
            default: return nil
            }
        }
    }

    enum Progress: Equatable {
        case more
        /// The complete sequence, as the keys that have the same meaning. They are empty without a meaning.
        case keys(String)
        /// The character does not belong to the sequence.
        case interrupted
    }

    private let kind: Kind
    private var text = ""
    /// The number of bytes of an old mouse report that follow.
    private var mouse = 0
    private var hasEscape = false

    init(_ kind: Kind) { self.kind = kind }

    mutating func receive(_ scalar: Unicode.Scalar) -> Progress {
        switch kind {
        case .single: return scalar.value < 0x20 ? .interrupted : .keys(Self.single(scalar))
        case .control: return receiveControl(scalar)
        case .text:
            defer { hasEscape = scalar == "\u{1B}" }
            if hasEscape || scalar == "\u{7}" || scalar == "\u{9C}" { return .keys("") }
            return scalar == "\u{3}" ? .interrupted : .more
        }
    }

    private mutating func receiveControl(_ scalar: Unicode.Scalar) -> Progress {
        if mouse > 0 {
            mouse -= 1
            return mouse == 0 ? .keys("") : .more
        }
        switch scalar.value {
        // The console of Linux sends F1 to F5 as Escape, two brackets and a letter.
        case 0x5B where text.isEmpty: text = "["
        case 0x4D where text.isEmpty: mouse = 3
        case 0x20...0x3F: text.unicodeScalars.append(scalar)
        case 0x40...0x7E: return .keys(Self.control(text, final: Character(scalar)))
        default: return .interrupted
        }
        return .more
    }

    // MARK: The keys that have a meaning

    /// The keypad in its application mode, by the letters of SS3.
    private static let keypad: [Unicode.Scalar: String] = [
        "M": "\r", "X": "=", "j": "*", "k": "+", "l": ",", "m": "-", "n": ".", "o": "/",
    ]

    private static func single(_ scalar: Unicode.Scalar) -> String {
        if let key = keypad[scalar] { return key }
        if ("p"..."y").contains(scalar) { return String(scalar.value - 0x70) }
        return ["A", "B", "C", "D", "F", "H"].contains(scalar) ? "\u{1B}[\(scalar)" : ""
    }

    private static func control(_ text: String, final: Character) -> String {
        let numbers = text.split(separator: ";", omittingEmptySubsequences: false).map { Int($0) }
        let modifiers = max((numbers.count > 1 ? numbers[1] ?? 1 : 1) - 1, 0)
        switch (final, numbers.first ?? nil) {
        case ("A", _), ("B", _), ("F", _), ("H", _): return modifiers == 0 && text.isEmpty ? "\u{1B}[\(final)" : ""
        // Alt and Ctrl move by words.
        case ("C", _), ("D", _):
            if text.isEmpty { return "\u{1B}[\(final)" }
            return modifiers & 0b110 != 0 ? "\u{1B}[1;5\(final)" : ""
        case ("~", 1?) where modifiers == 0, ("~", 7?) where modifiers == 0: return "\u{1B}[H"
        case ("~", 4?) where modifiers == 0, ("~", 8?) where modifiers == 0: return "\u{1B}[F"
        case ("~", 3?) where modifiers == 0: return "\u{1B}[3~"
        case ("~", 200?): return "\u{1B}[200~"
        case ("~", 27?): return numbers.count == 3 ? key(numbers[2] ?? 0, modifiers) : ""
        case ("u", let code?): return key(code, modifiers)
        default: return ""
        }
    }

    /// Returns a key that comes with its code and modifiers, of which 1 is Shift, 2 is Alt and 4 is Ctrl.
    private static func key(_ code: Int, _ modifiers: Int) -> String {
        guard let scalar = Unicode.Scalar(UInt32(clamping: code)), modifiers < 8 else { return "" }
        let (isAlt, isControl) = (modifiers & 2 != 0, modifiers & 4 != 0)
        switch code {
        // With Shift, Alt or Ctrl, Return begins another line.
        case 13: return modifiers == 0 ? "\r" : "\u{1B}\r"
        case 9, 27: return modifiers == 0 ? String(scalar) : ""
        case 8, 127: return isAlt ? "\u{1B}\u{7F}" : "\u{7F}"
        case 0x40...0x7E where isControl: return (isAlt ? "\u{1B}" : "") + String(Unicode.Scalar(UInt8(code & 0x1F)))
        case 0x20...0x7E: return isControl ? "" : (isAlt ? "\u{1B}" : "") + String(scalar)
        default: return ""
        }
    }
}
