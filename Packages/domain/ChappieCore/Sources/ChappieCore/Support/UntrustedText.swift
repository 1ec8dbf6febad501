/// Functions that make text from a peer safe to show, to log or to put into a header.
@_spi(ChappieInternals) public enum UntrustedText {
    /// Returns `text` if it consists of 1 to `limit` characters of visible ASCII, so that it fits a header value or a
    /// code.
    public static func token(_ text: String?, limit: Int) -> String? {
        guard let text, !text.isEmpty, text.utf8.count <= limit, text.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        else { return nil }
        return text
    }

    /// Returns `text` if it has 1 to `limit` bytes and no character that moves a cursor or hides other text.
    public static func line(_ text: String?, limit: Int) -> String? {
        guard let text, !text.isEmpty, text.utf8.count <= limit, !text.unicodeScalars.contains(where: isInvisible)
        else { return nil }
        return text
    }

    /// Returns `text` as a sentence. A missing full stop is added at its end.
    public static func sentence(_ text: String) -> String {
        text.last.map { ".!?…".contains($0) } == false ? text + "." : text
    }

    /// The replacement for a secret in a text.
    public static let redacted = "‹redacted›"

    /// Returns a sentence from a peer, without invisible characters and without anything that has the form of a token.
    ///
    /// - Parameter secrets: Exact strings that must not appear, whatever they look like.
    public static func message(_ text: String?, without secrets: [String] = [], limit: Int = 300) -> String? {
        guard let text else { return nil }
        var clean = String(
            String.UnicodeScalarView(text.unicodeScalars.prefix(max(4096, limit)).map { isInvisible($0) ? " " : $0 }))
        // A secret of one or two letters would hide everything.
        for secret in secrets where secret.utf8.count >= 4 { clean = clean.replacing(secret, with: redacted) }
        clean = mapWords(in: clean) { word, before in
            if isToken(word, after: before) { return redacted }
            // A path or an address stays readable, whatever its length.
            return Substring(word).split(separator: "/", omittingEmptySubsequences: false)
                .map { looksSecret($0) ? redacted : String($0) }.joined(separator: "/")
        }
        clean = clean.split(separator: " ").joined(separator: " ")
        guard !clean.isEmpty else { return nil }
        return clean.count <= limit ? clean : clean.prefix(limit - 1) + "…"
    }

    /// Returns `text` without control characters, which a terminal would obey, and without characters that reverse or
    /// hide text.
    ///
    /// U+FFFD replaces C0, DEL and C1, the characters that embed, override or isolate a direction
    /// (https://www.unicode.org/reports/tr9/#Directional_Formatting_Characters), and tags. Line feed and tab stay.
    /// Carriage return is removed, since it would let a line overwrite itself, and so are the marks U+200E, U+200F and
    /// U+061C. Text without such characters, which is nearly all text, is returned unchanged.
    public static func forTerminal(_ text: String) -> String {
        guard text.unicodeScalars.contains(where: { isObeyed($0) || isDropped($0) }) else { return text }
        var safe = String.UnicodeScalarView()
        for scalar in text.unicodeScalars where !isDropped(scalar) {
            safe.append(isObeyed(scalar) ? "\u{FFFD}" : scalar)
        }
        return String(safe)
    }

    private static func isObeyed(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0x09, 0x0A, 0x20..<0x7F: false
        case ..<0xA0, 0x202A...0x202E, 0x2066...0x2069, 0xE0000...0xE007F: true
        default: false
        }
    }

    private static func isDropped(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar {
        case "\r", "\u{200E}", "\u{200F}", "\u{61C}": true
        default: false
        }
    }

    /// Returns `text` with each run of token characters (`b64token` of RFC 6750, 2.1, without the padding) replaced by
    /// the result of `replacement`.
    private static func mapWords(
        in text: String, _ replacement: (_ word: Substring.UTF8View, _ before: Substring.UTF8View) -> String
    ) -> String {
        var output = ""
        var rest = text.utf8[...]
        while !rest.isEmpty {
            let gap = rest.prefix { !isWordByte($0) }
            output += String(Substring(gap))
            rest = rest[gap.endIndex...]
            let word = rest.prefix(while: isWordByte)
            if !word.isEmpty { output += replacement(word, text.utf8[..<word.startIndex]) }
            rest = rest[word.endIndex...]
        }
        return output
    }

    private static func isWordByte(_ byte: UInt8) -> Bool {
        byte.isASCIIAlphanumeric || "._~+/-".utf8.contains(byte)
    }

    /// The beginnings of tokens of this service and of common others.
    private static let tokenPrefixes = [
        "rt_", "rt.", "ac_", "at_", "sk-", "sess-", "deviceauth_", "ghp_", "gho_", "ghs_", "github_pat_", "glpat-",
        "xoxb-", "xoxp-", "AKIA", "AIza", "hf_", "npm_",
    ]

    /// Returns whether `word` has the form of a token, whatever its length. Names, error codes and digests in
    /// hexadecimal have not.
    private static func looksSecret(_ word: Substring) -> Bool {
        if word.hasPrefix("eyJ") { return word.utf8.count >= 16 }
        guard word.utf8.count >= 6, word.contains(where: \.isNumber) else { return false }
        return tokenPrefixes.contains(where: word.hasPrefix)
            || word.utf8.split(separator: UInt8(ascii: ".")).contains(where: looksRandom)
    }

    /// Returns whether letters of both cases and digits are mixed as in random bytes that are written in base64, and
    /// not as in the words and numbers of a name.
    private static func looksRandom(_ run: Substring.UTF8View) -> Bool {
        guard run.count >= 24 else { return false }
        var upper = 0
        var lower = 0
        var digits = 0
        for byte in run {
            switch byte {
            case UInt8(ascii: "A")...UInt8(ascii: "Z"): upper += 1
            case UInt8(ascii: "a")...UInt8(ascii: "z"): lower += 1
            default: digits += isDigit(byte) ? 1 : 0
            }
        }
        guard upper > 0, lower > 0, digits > 0 else { return false }
        // The number of places where a letter is next to a digit.
        let borders = zip(run, run.dropFirst()).count {
            $0.isASCIIAlphanumeric && $1.isASCIIAlphanumeric && isDigit($0) != isDigit($1)
        }
        let isEven = (35...65).contains(upper * 100 / (upper + lower))
        return borders >= (isEven ? 4 : 8)
    }

    private static func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }

    /// Returns `text` for a user who has to judge it. Every character that moves a cursor, or reverses or hides text,
    /// is written as an escape such as `\u{202E}`. Line feed and tab stay.
    public static func writtenOut(_ text: String) -> String {
        guard text.unicodeScalars.contains(where: isInvisible) else { return text }
        return text.unicodeScalars.reduce(into: "") { safe, scalar in
            if isInvisible(scalar), scalar != "\n", scalar != "\t" {
                safe += "\\u{\(String(scalar.value, radix: 16, uppercase: true))}"
            } else {
                safe.unicodeScalars.append(scalar)
            }
        }
    }

    /// Returns whether the character is a control character, or reverses or hides text (bidirectional marks, zero-width
    /// and tag characters, and the letters of Hangul and Braille that are blank).
    private static func isInvisible(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .unassigned: true
        default: [0x115F, 0x1160, 0x2800, 0x3164, 0xFFA0].contains(scalar.value)
        }
    }

    /// Returns `text` without JSON Web Tokens (RFC 7519) and without tokens after "Bearer" (RFC 6750, 2.1). The rest is
    /// unchanged.
    ///
    /// A service, or a proxy before it, may repeat the request in its error. Runs of fewer than 16 characters are
    /// words, as in "Bearer token missing".
    public static func withoutTokens(_ text: String) -> String {
        mapWords(in: text) { word, before in
            let start =
                isToken(word, after: before) ? word.startIndex : Substring(word).firstRange(of: "eyJ")?.lowerBound
            guard let start, word[start...].count >= 16 else { return String(Substring(word)) }
            return String(Substring(word[..<start])) + redacted
        }
    }

    /// Returns whether a word follows "Bearer" and is long enough for a token.
    private static func isToken(_ word: Substring.UTF8View, after before: Substring.UTF8View) -> Bool {
        word.count >= 16 && before.suffix(7).elementsEqual("bearer ".utf8) { $0 | 0x20 == $1 }
    }
}
