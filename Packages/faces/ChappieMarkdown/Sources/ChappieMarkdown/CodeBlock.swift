/// The fenced code blocks of a Markdown text, including those inside list items.
public enum CodeBlock {
    /// The largest number of list items that may begin on one line. Each of them reads the line from its start.
    private static let deepest = 100

    /// Returns the content of the first block, with a line feed at the end of each line, or `nil` without a block. A
    /// block without an end extends to the end of the text.
    public static func first(in text: String) -> String? {
        var lines = lines(of: text)[...]
        var items: [Int] = []
        return nextBlock(&lines, &items)
    }

    /// Returns the content of the last block in the form of ``first(in:)``.
    public static func last(in text: String) -> String? {
        var (lines, items, last) = (lines(of: text)[...], [Int](), String?.none)
        while let block = nextBlock(&lines, &items) { last = block }
        return last
    }

    /// Takes the lines up to the end of the next block, and returns its content.
    ///
    /// - Parameter items: For each list item around the line, from the outermost, the column at which its text begins.
    private static func nextBlock(_ lines: inout ArraySlice<ArraySlice<UInt8>>, _ items: inout [Int]) -> String? {
        while var line = lines.popFirst() {
            var start = LineStart(line)
            guard start.kind != .blank else { continue }
            while let item = items.last, item > start.indent { items.removeLast() }
            start = LineStart(line, inside: items.last ?? 0)
            while items.count < deepest, case .item(_, _, let content, isEmpty: false) = start.kind {
                items.append(content)
                blankMarker(of: &line)
                start = LineStart(line, inside: content)
            }
            guard case .fence(let fence) = start.kind else { continue }
            let end = lines.firstIndex { fence.isClosed(by: $0) } ?? lines.endIndex
            var content = lines[..<end]
            // The line feed at the end of the text does not begin another line of the block.
            if end == lines.endIndex, content.last?.isEmpty == true { content.removeLast() }
            lines = lines[end...].dropFirst()
            return content.map { String(decoding: unindented($0, by: start.indent), as: UTF8.self) + "\n" }.joined()
        }
        return nil
    }

    private static func lines(of text: String) -> [ArraySlice<UInt8>] {
        var lines = Array(text.utf8).split(separator: 0x0A, omittingEmptySubsequences: false)
        for index in lines.indices.dropLast() where lines[index].last == 0x0D { lines[index].removeLast() }
        return lines
    }

    /// Writes blanks over a list item's marker, so that the text after it keeps its columns.
    private static func blankMarker(of line: inout ArraySlice<UInt8>) {
        guard let start = line.firstIndex(where: { !Fence.isBlank($0) }) else { return }
        let end = line[start...].firstIndex(where: Fence.isBlank) ?? line.endIndex
        for index in start..<end { line[index] = 0x20 }
    }

    /// Returns the line without as much of its indentation as the fence had.
    private static func unindented(_ line: ArraySlice<UInt8>, by indent: Int) -> ArraySlice<UInt8> {
        line.dropFirst(line.prefix(indent).prefix { $0 == 0x20 }.count)
    }
}
