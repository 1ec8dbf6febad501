@_spi(ChappieInternals) import ChappieCore

/// A reader of an access token from a text that the user has pasted, or that a settings file has supplied.
enum PastedToken {
    /// Returns the token without the text that was copied with it: white space, quotes, a byte order mark and
    /// `Bearer `.
    ///
    /// - Throws: ``ChappieAuthError/authorizationDenied(_:)`` for any other text. The message doesn't repeat the text.
    static func secret(in text: String) throws(ChappieAuthError) -> Secret {
        let token = token(in: text)
        guard !token.contains(where: \.isNewline), !isAssignment(token) else {
            throw .authorizationDenied(
                "This is not an access token: one token on one line is expected, and nothing else.")
        }
        guard let secret = Secret(token: token) else {
            throw .authorizationDenied("This is not an access token: it can't travel in a header.")
        }
        return secret
    }

    private static func token(in text: String) -> String {
        var rest = text[...]
        while true {
            let before = rest.count
            rest = rest.drop(while: isWrapping)
            while let last = rest.last, isWrapping(last) { rest.removeLast() }
            if rest.prefix(7).lowercased() == "bearer " { rest = rest.dropFirst(7) }
            if rest.count == before { return String(rest) }
        }
    }

    private static func isWrapping(_ character: Character) -> Bool {
        character.isWhitespace || "\u{FEFF}\"'`“”‘’".contains(character)
    }

    /// Returns whether it is a line like `NAME=token`. A token in Base64 has the equals sign only at its end.
    private static func isAssignment(_ text: String) -> Bool {
        let name = text.prefix { $0 != "=" }
        guard let word = name.split(separator: " ").last, word.first?.isNumber == false else { return false }
        return word.utf8.allSatisfy { $0.isASCIIAlphanumeric || $0 == UInt8(ascii: "_") }
            && text.dropFirst(name.count).contains { $0 != "=" }
    }
}
