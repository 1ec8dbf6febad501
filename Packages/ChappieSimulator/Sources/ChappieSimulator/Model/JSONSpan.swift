/// Finds where a JSON object in running text ends.
enum JSONSpan {
    /// Bytes looked through: many objects that never end must not make the search quadratic.
    static let limit = 16 * 1024

    /// - Returns: the index past the brace that closes the first one; `nil` when that is not within ``limit``.
    static func end(of text: Substring) -> Substring.Index? {
        var depth = 0
        var isInString = false
        var isEscaped = false
        for index in text.utf8.indices.prefix(limit) {
            let byte = text.utf8[index]
            if isEscaped {
                isEscaped = false
            } else if isInString {
                isEscaped = byte == UInt8(ascii: "\\")
                isInString = byte != UInt8(ascii: "\"")
            } else if byte == UInt8(ascii: "\"") {
                isInString = true
            } else if byte == UInt8(ascii: "{") {
                depth += 1
            } else if byte == UInt8(ascii: "}") {
                depth -= 1
                if depth == 0 { return text.utf8.index(after: index) }
            }
        }
        return nil
    }
}
