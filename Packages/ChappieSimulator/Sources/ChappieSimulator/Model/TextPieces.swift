/// Cuts text into the pieces it is streamed in.
enum TextPieces {
    /// A word longer than this is cut, between characters.
    static let lengthLimit = 64

    /// One piece for each word, with the white space after it. Joined they are `text`, and none cuts a character apart.
    static func split(_ text: String) -> [String] {
        var pieces: [String] = []
        var piece = ""
        var length = 0
        var endsWord = false
        for character in text {
            if (endsWord && !character.isWhitespace) || length == lengthLimit {
                pieces.append(piece)
                piece = ""
                length = 0
            }
            piece.append(character)
            length += 1
            endsWord = character.isWhitespace
        }
        if !piece.isEmpty { pieces.append(piece) }
        return pieces
    }
}
