/// A drawing of blocks as lines of a width.
struct BlockDrawing {
    private let width: Int

    /// Draws one block of the outermost level.
    ///
    /// - Parameter number: the number of an ordered item, or `nil` for the source's number.
    static func lines(of source: [UInt8], width: Int, number: Int? = nil) -> [Line] {
        let drawing = BlockDrawing(width: max(8, width))
        return drawing.lines(of: MarkdownBlock.blocks(of: source, number: number), drawing.width, depth: 0)
    }

    private func lines(of blocks: [MarkdownBlock], _ width: Int, depth: Int, isTight: Bool = false) -> [Line] {
        var lines: [Line] = []
        for block in blocks {
            let block = self.lines(of: block, width, depth: depth)
            if !lines.isEmpty, !block.isEmpty, !isTight { lines.append(Line()) }
            lines += block
        }
        return lines
    }

    private func lines(of block: MarkdownBlock, _ width: Int, depth: Int) -> [Line] {
        switch block {
        case .paragraph(let runs), .heading(_, let runs): TextFlow.lines(of: runs, width: width)
        // Long lines of code stay intact, because the user may want to copy them. The terminal wraps them.
        case .code(let language, let text):
            Line.codeHead(language)
                + text.split(separator: "\n", omittingEmptySubsequences: false).map { Line.code(String($0)) }
        case .rule: [Line.rule(width)]
        case .quote(let blocks):
            lines(of: blocks, narrowed(width, 2), depth: depth + 1).map { $0.following("│ ", .dim) }
        case .list(let list): lines(of: list, width, depth: depth)
        case .table(let table): table.lines(width: width)
        case .verbatim(let text): TextFlow.lines(of: [MarkdownRun(text: text)], width: width)
        }
    }

    /// Returns the width that an indent leaves for text, at least 4 columns.
    private func narrowed(_ width: Int, _ indent: Int) -> Int { max(4, width - indent) }

    private func lines(of list: MarkdownList, _ width: Int, depth: Int) -> [Line] {
        var lines: [Line] = []
        for (index, (head, item)) in zip(list.heads(depth: depth), list.items).enumerated() {
            let indent = head.columns
            if index > 0, !list.isTight { lines.append(Line()) }
            let content = self.lines(
                of: item.blocks, narrowed(width, indent), depth: depth + 1, isTight: list.isTight)
            let blank = String(repeating: " ", count: indent)
            lines += (content.isEmpty ? [Line()] : content).enumerated().map { row, line in
                line.following(row == 0 ? head : blank, [])
            }
        }
        return lines
    }
}

extension MarkdownList {
    /// Returns the text before each item. Numbers are aligned to the right.
    ///
    /// - Parameter depth: the number of lists and quotes around the list. Bullets differ by it.
    public func heads(depth: Int) -> [String] {
        var numbers: [String] = []
        for case .number(let number, let end) in items.map(\.mark) { numbers.append("\(number)\(end)") }
        let widest = numbers.map(\.count).max() ?? 0
        return items.map { item in
            switch item.mark {
            case .bullet: ["•", "◦", "▪"][min(max(depth, 0), 2)] + " "
            case .task(let isDone): isDone ? "☑ " : "☐ "
            case .number(let number, let end):
                String(repeating: " ", count: widest - "\(number)\(end)".count) + "\(number)\(end) "
            }
        }
    }
}

extension Line {
    /// Returns the same line behind an indent.
    func following(_ head: String, _ style: MarkdownStyle) -> Line {
        var line = Line(head, style)
        line.append(self)
        return line
    }

    static func rule(_ width: Int) -> Line { Line(String(repeating: "─", count: max(0, width)), .dim) }

    /// Returns a line with the language of a block of code, if the block names it.
    static func codeHead(_ language: String) -> [Line] {
        language.isEmpty ? [] : [Line("  " + language, .dim)]
    }

    static func code(_ text: String) -> Line {
        var line = Line("    ")
        line.append(text, .code, columns: 0)
        return text.isEmpty ? Line() : line
    }
}
