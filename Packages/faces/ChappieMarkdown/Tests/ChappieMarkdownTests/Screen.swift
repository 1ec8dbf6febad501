@testable import ChappieMarkdown

/// A terminal as far as the renderer needs one: rows, a cursor, and what has scrolled away above. A tab is a blank to it.
struct Screen {
    let width: Int
    let height: Int
    /// All rows, beginning with the rows that have scrolled away.
    private var rows: [[String]] = [[]]
    private var row = 0
    private var column = 0
    /// Sequences that are neither a style nor one of the three movements.
    private(set) var surprises: [String] = []

    init(width: Int = 40, height: Int = 12) {
        self.width = width
        self.height = height
    }

    private var top: Int { max(0, rows.count - height) }

    mutating func write(_ text: String) {
        var rest = text.unicodeScalars[...]
        while let scalar = rest.popFirst() {
            switch scalar {
            case "\n":
                row += 1
                column = 0
                if row == rows.count { rows.append([]) }
            case "\r": column = 0
            case "\t": put(" ", 1)
            case "\u{1B}":
                let sequence = rest.prefix { !("A"..."Z").contains($0) && !("a"..."z").contains($0) }
                rest = rest[sequence.endIndex...]
                let final = rest.popFirst() ?? "?"
                obey(String(sequence), final)
            default:
                if scalar.value < 0x20 || (0x7F..<0xA0).contains(scalar.value) { surprises.append("\(scalar.value)") }
                put(String(scalar), scalar.columns)
            }
        }
    }

    private mutating func obey(_ sequence: String, _ final: Unicode.Scalar) {
        switch (final, sequence) {
        case ("A", _): row = max(top, row - (Int(sequence.dropFirst()) ?? 1))
        case ("J", "["):
            rows.removeSubrange((row + 1)...)
            rows[row].removeSubrange(min(column, rows[row].count)...)
        case ("m", _): break
        default: surprises.append("ESC \(sequence)\(final)")
        }
    }

    private mutating func put(_ character: String, _ columns: Int) {
        guard columns > 0 else {
            // It joins what is before it.
            guard let last = rows[row][..<column].lastIndex(where: { !$0.isEmpty }) else { return }
            return rows[row][last] += character
        }
        if column + columns > width {
            row += 1
            column = 0
            if row == rows.count { rows.append([]) }
        }
        while rows[row].count < column + columns { rows[row].append(" ") }
        rows[row][column] = character
        // The second half of a wide character.
        if columns == 2 { rows[row][column + 1] = "" }
        column += columns
    }

    /// The text that the user sees when they scroll up, without blanks at the ends of rows.
    var text: String {
        var lines = rows.map { row in
            var row = row
            while row.last == " " { row.removeLast() }
            return row.joined()
        }
        while lines.last == "" { lines.removeLast() }
        return lines.joined(separator: "\n")
    }
}
