/// Text from a peer, made fit to be shown, logged or put into a header.
@_spi(ChappieInternals) public enum UntrustedText {
    /// `text` if it is 1 to `limit` characters of visible ASCII: what a header value or a code may be.
    public static func token(_ text: String?, limit: Int) -> String? {
        guard let text, !text.isEmpty, text.utf8.count <= limit, text.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        else { return nil }
        return text
    }

    /// `text` if it is at most `limit` bytes and holds nothing that moves a cursor or hides other text.
    public static func line(_ text: String?, limit: Int) -> String? {
        guard let text, !text.isEmpty, text.utf8.count <= limit, !text.unicodeScalars.contains(where: isInvisible)
        else { return nil }
        return text
    }

    /// The mark in the place of a secret.
    public static let redacted = "‹redacted›"

    /// A sentence of a peer with everything that looks like a secret, and everything invisible, taken out.
    ///
    /// - Parameter secrets: exact strings that must not appear, whatever they look like.
    public static func message(_ text: String?, without secrets: [String] = [], limit: Int = 300) -> String? {
        guard let text else { return nil }
        var clean = String(
            String.UnicodeScalarView(text.unicodeScalars.prefix(max(4096, limit)).map { isInvisible($0) ? " " : $0 }))
        // A secret of a letter or two would hide everything.
        for secret in secrets where secret.utf8.count >= 4 { clean = clean.replacing(secret, with: redacted) }
        clean = withoutSecretLikeWords(clean)
        clean = clean.split(separator: " ").joined(separator: " ")
        guard !clean.isEmpty else { return nil }
        return clean.count <= limit ? clean : clean.prefix(limit - 1) + "…"
    }

    /// `text` without control characters, for a terminal, which obeys what is written to it.
    ///
    /// U+FFFD stands for each of C0, DEL and C1. Line feed and tab stay; carriage return goes, since it would let a line
    /// write over itself. Text without any, which is nearly all, is returned as it is.
    public static func forTerminal(_ text: String) -> String {
        guard text.unicodeScalars.contains(where: isControl) else { return text }
        var safe = String.UnicodeScalarView()
        for scalar in text.unicodeScalars where scalar != "\r" { safe.append(isControl(scalar) ? "\u{FFFD}" : scalar) }
        return String(safe)
    }

    private static func isControl(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0x09, 0x0A: false
        case 0..<0x20, 0x7F..<0xA0: true
        default: false
        }
    }

    private static func withoutSecretLikeWords(_ text: String) -> String {
        var output = ""
        var word = ""
        for character in text {
            if isWordCharacter(character) {
                word.append(character)
            } else {
                output += looksSecret(word) ? redacted : word
                word = ""
                output.append(character)
            }
        }
        return output + (looksSecret(word) ? redacted : word)
    }

    private static func isWordCharacter(_ character: Character) -> Bool {
        guard let byte = character.asciiValue else { return false }
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            return true
        default: return "._~+/-".utf8.contains(byte)
        }
    }

    /// Tokens are long, or have the prefixes that this service gives them; words and error codes are neither.
    private static func looksSecret(_ word: String) -> Bool {
        let prefixes = ["eyJ", "rt_", "rt.", "ac_", "at_", "sk-", "sess-"]
        if word.utf8.count >= 6, prefixes.contains(where: word.hasPrefix) { return true }
        if word.hasPrefix("deviceauth_"), word.contains(where: \.isNumber) { return true }
        guard word.utf8.count >= 24 else { return false }
        let isMixed = word.contains(where: \.isNumber) || (word.contains(where: \.isUppercase) && !word.contains("_"))
        return isMixed || word.utf8.count >= 64
    }

    /// Controls, and the characters that turn or hide text (bidirectional marks, zero-width and tag characters).
    private static func isInvisible(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .unassigned: true
        default: false
        }
    }

    // MARK: Whole bodies

    /// `text` without anything that looks like a JSON Web Token (RFC 7519) or stands after "Bearer" (RFC 6750, 2.1), and
    /// otherwise as it is.
    ///
    /// A service, or a proxy before it, may repeat the request in its error. Each byte is looked at a bounded number of
    /// times.
    public static func withoutTokens(_ text: String) -> String {
        let bytes = Array(text.utf8)
        var output: [UInt8] = []
        output.reserveCapacity(bytes.count)
        var index = 0
        while index < bytes.count {
            let end = endOfToken(in: bytes, from: index)
            if end - index < shortestToken {
                output.append(bytes[index])
                index += 1
            } else {
                output += redacted.utf8
                index = end
            }
        }
        return String(decoding: output, as: UTF8.self)
    }

    /// Shorter runs are words: "Bearer token missing".
    private static let shortestToken = 16
    private static let bearer = Array("bearer ".utf8)

    /// Where the token that begins at `start` ends; `start` where none begins.
    private static func endOfToken(in bytes: [UInt8], from start: Int) -> Int {
        let isAfterBearer =
            start >= bearer.count
            && bytes[(start - bearer.count)..<start].elementsEqual(bearer) { $0 | 0x20 == $1 }
        guard isAfterBearer || bytes[start...].starts(with: "eyJ".utf8) else { return start }
        return bytes[start...].firstIndex { !isTokenByte($0) } ?? bytes.count
    }

    /// `b64token` of RFC 6750, 2.1, but for the padding.
    private static func isTokenByte(_ byte: UInt8) -> Bool { isWordCharacter(Character(Unicode.Scalar(byte))) }
}
