import CCMark

extension MarkdownTable {
    /// Reads a table.
    ///
    /// - Parameter node: a node of the type `table`.
    init(_ node: OpaquePointer) {
        rows = node.children.enumerated().map { index, row in
            row.children.map { InlineText.runs(of: $0, index == 0 ? .bold : []) }
        }
        let count = rows.first?.count ?? 0
        let marks = cmark_gfm_extensions_get_table_alignments(node)
        alignments = (0..<count).map { column in
            switch marks?[column] {
            case UInt8(ascii: "r"): .right
            case UInt8(ascii: "c"): .center
            default: .left
            }
        }
    }

    private static let separator = " │ "
    /// The smallest width of a column. A narrower column is hard to read.
    private static let narrowest = 6

    func lines(width: Int) -> [Line] {
        guard let widths = columnWidths(width) else { return records(width) }
        var lines: [Line] = []
        for (index, row) in rows.enumerated() {
            lines += cells(row, widths)
            if index == 0 {
                lines.append(Line(widths.map { String(repeating: "─", count: $0) }.joined(separator: "─┼─"), .dim))
            }
        }
        return lines
    }

    /// Returns the columns' widths, or `nil` if even the smallest widths do not fit. If the table is too wide, the
    /// widest columns shrink.
    private func columnWidths(_ width: Int) -> [Int]? {
        var natural = alignments.map { _ in 1 }
        for row in rows {
            for (column, cell) in row.enumerated() where column < natural.count {
                natural[column] = max(natural[column], TextFlow.extent(of: cell).line)
            }
        }
        let available = width - Self.separator.columns * (natural.count - 1)
        guard !natural.isEmpty, available >= natural.reduce(0, { $0 + min($1, Self.narrowest) }) else { return nil }
        guard natural.reduce(0, +) > available else { return natural }
        // Finds the largest width that all columns can be cut to. The first wider columns get the rest.
        var low = Self.narrowest
        var high = natural.max() ?? 1
        while low < high {
            let middle = (low + high + 1) / 2
            if natural.reduce(0, { $0 + min($1, middle) }) <= available { low = middle } else { high = middle - 1 }
        }
        var widths = natural.map { min($0, low) }
        var rest = available - widths.reduce(0, +)
        for column in widths.indices where rest > 0 && widths[column] < natural[column] {
            widths[column] += 1
            rest -= 1
        }
        return widths
    }

    private func cells(_ row: [[MarkdownRun]], _ widths: [Int]) -> [Line] {
        let cells = widths.indices.map { column in
            TextFlow.lines(of: column < row.count ? row[column] : [], width: widths[column])
        }
        return (0..<(cells.map(\.count).max() ?? 0)).map { height in
            var line = Line()
            for (column, cell) in cells.enumerated() {
                if column > 0 { line.append(Line(Self.separator, .dim)) }
                let text = height < cell.count ? cell[height] : Line()
                let room = widths[column] - text.columns
                let left =
                    switch alignments[column] {
                    case .left: 0
                    case .right: room
                    case .center: room / 2
                    }
                let end = line.columns + widths[column]
                line.pad(to: line.columns + left)
                line.append(text)
                if column < cells.count - 1 { line.pad(to: end) }
            }
            return line
        }
    }

    /// Returns each row as "head: cell" lines, for a screen that is too narrow for columns.
    private func records(_ width: Int) -> [Line] {
        guard let head = rows.first else { return [] }
        return rows.dropFirst().enumerated().flatMap { index, row in
            (index > 0 ? [Line()] : [])
                + row.enumerated().flatMap { column, cell in
                    TextFlow.lines(
                        of: (column < head.count ? head[column] : []) + [MarkdownRun(text: ": ", style: .bold)] + cell,
                        width: width)
                }
        }
    }
}
