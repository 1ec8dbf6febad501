/// Sentences and tables on a terminal, without Markdown.
public enum PlainText {
    /// Returns the number of columns that a text without line feeds takes up on a terminal.
    public static func columns(of text: String) -> Int { text.columns }

    /// Returns the text with its long lines broken at blanks. Text between backticks stays together. A word that is
    /// longer than the width also stays together, so that the terminal wraps it and the user can copy it intact.
    ///
    /// The rest of a line begins below its first word, or below the text after a name with a colon (`chappie: `). In a
    /// table, whose columns have two or more blanks between them, it begins below the last column.
    public static func wrapped(_ text: String, width: Int) -> String {
        guard text.utf8.count > width else { return text }
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        return lines.map { wrapped($0, width) }.joined(separator: "\n")
    }

    private static func wrapped(_ line: Substring, _ width: Int) -> String {
        guard String(line).columns > width else { return String(line) }
        let words = words(of: line)
        // A line with a large indent would leave too little room.
        let margin = min(margin(of: words), width / 2)
        var output = ""
        var column = 0
        var isEmpty = true
        for (blanks, word) in words {
            let columns = word.columns
            if !isEmpty, column + blanks + columns > width {
                output += "\n" + String(repeating: " ", count: margin) + word
                column = margin + columns
            } else {
                output += String(repeating: " ", count: blanks) + word
                column += blanks + columns
            }
            isEmpty = false
        }
        return output
    }

    /// Splits a line into its words, each with the number of blanks before it.
    private static func words(of line: Substring) -> [(blanks: Int, text: String)] {
        var words: [(blanks: Int, text: String)] = []
        var blanks = 0
        var word = ""
        var isCode = false
        for character in line {
            if character == "`" { isCode.toggle() }
            if character == " ", !isCode {
                if !word.isEmpty { words.append((blanks, word)) }
                blanks = word.isEmpty ? blanks + 1 : 1
                word = ""
            } else {
                word.append(character)
            }
        }
        if blanks > 0 || !word.isEmpty { words.append((blanks, word)) }
        return words
    }

    private static func margin(of words: [(blanks: Int, text: String)]) -> Int {
        var margin = 0
        var column = 0
        for (index, word) in words.enumerated() {
            column += word.blanks
            let followsName = index == 1 && words[0].text.hasSuffix(":")
            if index == 0 || word.blanks > 1 || followsName { margin = column }
            column += word.text.columns
        }
        return margin
    }

    /// Returns the beginning of a text without line feeds, cut to the width. `…` at its end shows that text is missing.
    public static func cut(_ text: String, to width: Int) -> String {
        guard text.columns > width else { return text }
        var output = ""
        var column = 0
        for character in text {
            column += String(character).columns
            guard column < width else { break }
            output.append(character)
        }
        return output + "…"
    }
}
