import ChappieCore

#if !canImport(Darwin)
    // This is for canonical composition. Apple's SDKs leave this SPI out. There it comes from Foundation, through
    // ChappieCore.
    @_spi(_Unicode) import Swift
#endif

/// The text that a search reads, as words of letters and digits without case and accents. A symbol or emoji is a word
/// by itself, `C++` and `C#` keep their signs, and the `v` of a version is separate. A store that has its own index
/// splits texts and queries with this type, so that every store finds the same threads.
public struct ChappieThreadWords: Sendable, Hashable {
    /// The words in order, including repeated ones. A word longer than 64 bytes is cut into pieces.
    public let words: [String]
    /// The words of a query that must follow one another.
    public private(set) var phrases: [[String]] = []
    /// Whether the last word of a query may be the beginning of a word.
    public private(set) var endsWithBeginning = true

    /// Splits a text into words.
    public init(_ text: String) {
        var words: [String] = []
        var word: [UInt8] = []
        // The signs after a single letter. They belong to it unless another letter follows.
        var signs: [UInt8] = []
        func end() {
            if !word.isEmpty { words.append(String(decoding: word + signs, as: UTF8.self)) }
            word.removeAll(keepingCapacity: true)
            signs.removeAll(keepingCapacity: true)
        }
        func dropSigns() {
            guard !signs.isEmpty else { return }
            signs.removeAll(keepingCapacity: true)
            end()
        }
        func isOneLetter() -> Bool { String(decoding: word, as: UTF8.self).count == 1 }
        func add(_ ascii: UInt8) {
            let isDigit = (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(ascii)
            switch ascii {
            case _ where isDigit, UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"):
                dropSigns()
                if isDigit, word == [UInt8(ascii: "v")] { end() }
                word.append(isDigit ? ascii : ascii | 0x20)
            case UInt8(ascii: "+") where signs.count < 2 && isOneLetter(),
                UInt8(ascii: "#") where signs.isEmpty && isOneLetter():
                signs.append(ascii)
            default: end()
            }
            if word.count >= Self.longest { end() }
        }
        func add(_ character: Character) {
            if let ascii = character.asciiValue ?? Self.narrow(character) { return add(ascii) }
            if Self.isOfWords(character) {
                dropSigns()
                // Chinese and Japanese are written without spaces, so each ideograph is a word.
                let isIdeograph = character.unicodeScalars.first?.properties.isIdeographic ?? false
                if isIdeograph { end() }
                word += Self.folded(character).utf8
                if isIdeograph || word.count >= Self.longest { end() }
            } else {
                end()
                if let symbol = Self.symbol(character) { words.append(symbol) }
            }
        }
        var rest = text[...]
        while !rest.isEmpty {
            // Most text is ASCII, which is read much faster as bytes than as characters. The last byte before another
            // character may be a letter that an accent follows.
            let ascii = rest.utf8.prefix { $0 < 0x80 }
            let complete = ascii.endIndex == rest.endIndex ? ascii : ascii.dropLast()
            for byte in complete { add(byte) }
            rest = rest[complete.endIndex...]
            if let character = rest.popFirst() { add(character) }
        }
        end()
        self.words = words
    }

    /// Returns the ASCII form of a full-width character, or `nil` for another one.
    private static func narrow(_ character: Character) -> UInt8? {
        guard character.unicodeScalars.count == 1, let scalar = character.unicodeScalars.first?.value,
            (0xFF01...0xFF5E).contains(scalar)
        else { return nil }
        return UInt8(truncatingIfNeeded: scalar - 0xFEE0)
    }

    /// Returns a symbol or emoji without its colour of skin and its form of presentation, or `nil` for another
    /// character. The lines and blocks of tables are left out.
    private static func symbol(_ character: Character) -> String? {
        guard character.isSymbol, let first = character.unicodeScalars.first,
            !(0x2500...0x259F).contains(first.value)
        else { return nil }
        let scalars = character.unicodeScalars.filter {
            $0.value != 0xFE0F && $0.value != 0xFE0E && !(0x1F3FB...0x1F3FF).contains($0.value)
        }
        return scalars.isEmpty ? nil : String(String.UnicodeScalarView(scalars.prefix(16)))
    }

    /// The size of the pieces into which a longer word is cut, in bytes.
    private static let longest = 64

    /// Splits a query into words. Two quotation marks (`"`) enclose a phrase, whose words must follow one another. The
    /// last word may be the beginning of a word, unless it is in a phrase.
    public init(query: String) {
        let parts = query.split(separator: "\"" as Character, omittingEmptySubsequences: false)
        var words: [String] = []
        for (index, part) in parts.enumerated() {
            let found = Self(String(part)).words
            // A single quotation mark without a second one is ignored.
            let isPhrase = index % 2 == 1 && index < parts.count - 1
            if isPhrase, !found.isEmpty { phrases.append(found) }
            if !found.isEmpty { endsWithBeginning = !isPhrase }
            words += found
        }
        self.words = words
    }

    /// Returns whether each of the words occurs in `text`, and the phrases in their order. The last word may occur as
    /// the beginning of a word. Without words, the result is `false`.
    public func occur(in text: String) -> Bool {
        guard let last = words.last else { return false }
        let found = Self(text).words
        let all = Set(found)
        return words.dropLast().allSatisfy(all.contains)
            && (endsWithBeginning ? found.contains { $0.hasPrefix(last) } : all.contains(last))
            && phrases.allSatisfy { phrase in
                found.indices.contains { found[$0...].starts(with: phrase) }
            }
    }

    /// Returns the surroundings of the first word in `text` that is among these, as one line of at most `limit`
    /// characters.
    public func excerpt(of text: String, limit: Int = 160) -> String {
        let parts = text.split { $0.isWhitespace }.map(String.init)
        let sought = Set(words)
        let hit =
            parts.firstIndex { part in
                Self(part).words.contains { word in sought.contains(word) || words.last.map(word.hasPrefix) ?? false }
            } ?? 0
        var line = hit > 5 ? "…" : ""
        for part in parts[max(hit - 5, 0)...] {
            if !line.isEmpty, line != "…" { line += " " }
            line += part
            if line.count > limit { return line.prefix(limit - 1) + "…" }
        }
        return line
    }

    /// Returns whether the character is a letter or digit, including those with accents. A character may begin with a
    /// letter and contain a quote, because a letter that belongs before another character
    /// (https://www.unicode.org/reports/tr29/#Prepend) can have any character after it.
    private static func isOfWords(_ character: Character) -> Bool {
        (character.isLetter || character.isNumber)
            && character.unicodeScalars.allSatisfy { scalar in
                !scalar.isASCII || scalar.properties.isAlphabetic || ("0"..."9").contains(scalar)
            }
    }

    /// Returns a character without case and accent, cut if it has more accents than any script. Canonically equal
    /// characters give the same bytes (https://www.unicode.org/reports/tr15/). In the file names of some systems,
    /// Korean and kana are decomposed.
    private static func folded(_ character: Character) -> String {
        let lower = character.lowercased()
        if let spelling = spellings[lower] { return spelling }
        guard lower.count == 1, let base = bases[Character(lower)] else {
            #if canImport(Darwin)
                let composed = lower.precomposedStringWithCanonicalMapping.unicodeScalars
            #else
                let composed = lower._nfc
            #endif
            return String(String.UnicodeScalarView(composed.prefix(16)))
        }
        return String(base)
    }

    /// Other spellings of letters that have no accent to leave out, and of ligatures.
    private static let spellings = [
        "ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ð": "d", "ł": "l", "ħ": "h", "ŧ": "t", "þ": "th",
        "ı": "i",
        "ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st",
    ]

    /// The letters without accents, by the letters with the accents of Latin, Greek and Cyrillic script. Canonical
    /// equivalence makes `é` the same key as `e` with its accent.
    private static let bases: [Character: Character] = {
        // Grave, acute, circumflex, tilde, macron, breve, dot above, diaeresis, hook, ring, double acute, caron, horn,
        // dot below, comma below, cedilla, ogonek, Greek tonos' kin.
        let marks =
            "\u{300}\u{301}\u{302}\u{303}\u{304}\u{306}\u{307}\u{308}\u{309}\u{30A}\u{30B}\u{30C}\u{31B}\u{323}\u{326}\u{327}\u{328}"
        let letters = "abcdefghijklmnopqrstuvwxyzαεηιουωабвгдежзийклмнопрстуфхцчшщъыьэюя"
        var bases: [Character: Character] = [:]
        for letter in letters.unicodeScalars {
            for first in marks.unicodeScalars {
                bases[Character(String(String.UnicodeScalarView([letter, first])))] = Character(letter)
                guard letter.isASCII else { continue }
                // Vietnamese letters can have two accents.
                for second in marks.unicodeScalars {
                    bases[Character(String(String.UnicodeScalarView([letter, first, second])))] = Character(letter)
                }
            }
        }
        return bases
    }()
}
