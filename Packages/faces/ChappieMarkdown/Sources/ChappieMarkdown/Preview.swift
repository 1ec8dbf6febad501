/// The preview of the unfinished block on the screen. It is the source as plain text, which grows and is erased when
/// the block is drawn.
struct Preview {
    var width: Int
    /// The largest number of rows.
    private var height: Int
    /// The used columns of each row. The array is empty while no text is shown.
    private var rows: [Int] = []
    private var word = ""
    private var wordColumns = 0
    private var blanks = 0
    /// The line feeds before the next word.
    private var feeds: Int

    /// Creates an empty preview.
    ///
    /// - Parameter gap: the blank rows between the last drawn block and this one.
    init(width: Int, height: Int, gap: Int) {
        self.width = width
        self.height = height
        feeds = gap
    }

    var isShown: Bool { !rows.isEmpty }

    /// Shows more of the block, as far as it fits on the screen, because rows that have scrolled away cannot be erased.
    mutating func add(_ text: String) -> String {
        var output = ""
        for scalar in text.visible.unicodeScalars {
            switch scalar {
            case "\n":
                place(&output)
                feeds += 1
                blanks = 0
            case " ", "\t":
                place(&output)
                blanks += 1
            default:
                let columns = scalar.columns
                if columns == 2 || wordColumns + columns > width { place(&output) }
                word.unicodeScalars.append(scalar)
                wordColumns += columns
                if columns == 2 { place(&output) }
            }
        }
        return output
    }

    private mutating func place(_ output: inout String) {
        guard !word.isEmpty else { return }
        defer {
            word = ""
            wordColumns = 0
            blanks = 0
            feeds = 0
        }
        let isFull = (rows.last ?? 0) + blanks + wordColumns > width
        let more = rows.isEmpty ? feeds + 1 : max(feeds, isFull ? 1 : 0)
        guard rows.count + more <= height else {
            // The rest is drawn only when the block is complete.
            height = 0
            return
        }
        output += String(repeating: "\n", count: rows.isEmpty ? feeds : more)
        rows += Array(repeating: 0, count: more)
        let indent = feeds == 0 && isFull ? 0 : min(blanks, max(0, width - wordColumns))
        output += String(repeating: " ", count: indent) + word
        rows[rows.count - 1] += indent + wordColumns
    }

    /// Returns the sequence that erases the preview. The terminal may now have another width, and may have wrapped the
    /// rows again.
    func erased(width now: Int) -> String {
        guard isShown else { return "" }
        let up = rows.reduce(0) { $0 + max(1, ($1 + now - 1) / now) } - 1
        return "\r" + (up > 0 ? "\u{1B}[\(up)A" : "") + "\u{1B}[J"
    }
}
