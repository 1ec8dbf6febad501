/// Sentences and tables on a terminal, without Markdown.
public enum PlainText {
    /// The columns that a terminal gives a text without line feeds.
    public static func columns(of text: String) -> Int { text.columns }

    /// The text with its long lines broken at blanks. What stands between backticks stays together, as does a word that is
    /// longer than the width: the terminal breaks it, and it can be copied whole.
    ///
    /// The rest of a line begins below its first word, or below what follows a name with a colon (`chappie: `). In a table,
    /// whose columns have two blanks or more between them, it begins below the last column.
    public static func wrapped(_ text: String, width: Int) -> String {
        guard text.utf8.count > width else { return text }
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        return lines.map { wrapped($0, width) }.joined(separator: "\n")
    }

    private static func wrapped(_ line: Substring, _ width: Int) -> String {
        guard String(line).columns > width else { return String(line) }
        let words = words(of: line)
        // Of a line that is nearly all indent, too little would be left.
        let margin = min(margin(of: words), width / 2)
        var (output, column, isEmpty) = ("", 0, true)
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

    /// The words of a line, each with the number of blanks before it.
    private static func words(of line: Substring) -> [(blanks: Int, text: String)] {
        var words: [(blanks: Int, text: String)] = []
        var (blanks, word, isCode) = (0, "", false)
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
        var (margin, column) = (0, 0)
        for (index, word) in words.enumerated() {
            column += word.blanks
            let followsName = index == 1 && words[0].text.hasSuffix(":")
            if index == 0 || word.blanks > 1 || followsName { margin = column }
            column += word.text.columns
        }
        return margin
    }

    /// The beginning of a text without line feeds that fits into so many columns, with a mark where there is more.
    public static func cut(_ text: String, to width: Int) -> String {
        guard text.columns > width else { return text }
        var (output, column) = ("", 0)
        for character in text {
            column += String(character).columns
            guard column < width else { break }
            output.append(character)
        }
        return output + "…"
    }
}
