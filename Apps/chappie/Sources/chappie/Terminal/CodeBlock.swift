/// The fenced code blocks of a Markdown text (https://spec.commonmark.org/0.31.2/#fenced-code-blocks), also those inside
/// list items.
enum CodeBlock {
    /// The content of the first one, with a line feed at the end of each line; `nil` where there is none. One that does not end
    /// goes to the end of the text.
    static func first(in text: String) -> String? {
        var lines = text.split(omittingEmptySubsequences: false) { $0 == "\n" || $0 == "\r\n" }[...]
        // Where the text of the list items begins that the line is in, from the outermost one.
        var items: [Int] = []
        while var line = lines.popFirst() {
            guard let first = line.firstIndex(where: { $0 != " " && $0 != "\t" }) else { continue }
            var indent = columns(line[..<first])
            line = line[first...]
            while let item = items.last, item > indent { items.removeLast() }
            while indent - (items.last ?? 0) < 4, let marker = markerWidth(line) {
                indent += marker
                items.append(indent)
                line = line.dropFirst(marker)
            }
            guard indent - (items.last ?? 0) < 4, let fence = Fence(line) else { continue }
            let ending = lines.firstIndex { fence.isClosed(by: $0) } ?? lines.endIndex
            var content = lines[..<ending]
            // The line feed at the end of the text is no line of the block.
            if ending == lines.endIndex, content.last?.isEmpty == true { content.removeLast() }
            return content.map { String(unindented($0, by: indent)) + "\n" }.joined()
        }
        return nil
    }

    private struct Fence {
        private let character: Character
        private let length: Int

        /// - Parameter line: from its first visible character.
        init?(_ line: Substring) {
            guard let character = line.first, character == "`" || character == "~" else { return nil }
            let run = line.prefix { $0 == character }
            // Backticks further on make it code within a line.
            guard run.count >= 3, character == "~" || !line[run.endIndex...].contains("`") else { return nil }
            (self.character, length) = (character, run.count)
        }

        func isClosed(by line: Substring) -> Bool {
            let text = line.drop { $0 == " " || $0 == "\t" }
            let run = text.prefix { $0 == character }
            return run.count >= length && text[run.endIndex...].allSatisfy { $0 == " " || $0 == "\t" }
        }
    }

    /// How wide a list item's marker is, with the space after it; `nil` for a line that begins none.
    private static func markerWidth(_ line: Substring) -> Int? {
        let digits = line.prefix { $0.isASCII && $0.isNumber }
        let mark = line.dropFirst(digits.count)
        guard let sign = mark.first, digits.isEmpty ? "-+*".contains(sign) : digits.count < 10 && ".)".contains(sign)
        else { return nil }
        let spaces = mark.dropFirst().prefix { $0 == " " }.count
        guard spaces > 0, !mark.dropFirst(1 + spaces).isEmpty else { return nil }
        // Text that is indented further is code in the item.
        return digits.count + 1 + (spaces > 4 ? 1 : spaces)
    }

    /// A tab goes to the next multiple of four.
    private static func columns(_ blanks: Substring) -> Int {
        blanks.reduce(0) { $1 == "\t" ? ($0 / 4 + 1) * 4 : $0 + 1 }
    }

    /// Without as much of its indentation as the fence had.
    private static func unindented(_ line: Substring, by indent: Int) -> Substring {
        var (line, left) = (line, indent)
        while left > 0, line.first == " " { (line, left) = (line.dropFirst(), left - 1) }
        return line
    }
}
