/// Text that a person has been shown, and how far the present attempt has come in saying it again.
struct DeliveredText: Sendable {
    private var bytes: [UInt8] = []
    /// How much of `bytes` the present attempt has said.
    private var position = 0

    var text: String { String(decoding: bytes, as: UTF8.self) }
    var isEmpty: Bool { bytes.isEmpty }
    /// Whether the present attempt has said everything that had been shown.
    var isCaughtUp: Bool { position == bytes.count }

    mutating func attemptBegan() { position = 0 }

    /// The next piece that the attempt says.
    ///
    /// - Returns: what of it is new, maybe nothing; `nil` when it differs from what had been shown. Text that differs is
    ///   not taken in.
    mutating func said(_ piece: String) -> String? {
        guard !isCaughtUp else {
            bytes.append(contentsOf: piece.utf8)
            position = bytes.count
            return piece
        }
        let known = bytes[position...].prefix(piece.utf8.count)
        guard piece.utf8.starts(with: known) else { return nil }
        position += known.count
        guard known.count < piece.utf8.count else { return "" }
        // What was shown were whole strings, so that the rest begins where a character of UTF-8 does.
        let rest = String(decoding: piece.utf8.dropFirst(known.count), as: UTF8.self)
        bytes.append(contentsOf: rest.utf8)
        position = bytes.count
        return rest
    }

    /// The attempt's text as a whole, at its end: it may go beyond what was said piece by piece.
    ///
    /// - Returns: what of it is new, maybe nothing. Text that does not begin with what had been shown says nothing here.
    mutating func concluded(_ whole: String) -> String {
        guard whole.utf8.starts(with: bytes) else { return "" }
        let rest = String(decoding: whole.utf8.dropFirst(bytes.count), as: UTF8.self)
        bytes.append(contentsOf: rest.utf8)
        position = bytes.count
        return rest
    }
}
