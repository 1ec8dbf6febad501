/// A splitter that cuts streamed Markdown into the blocks of its outermost level.
///
/// It is sans-IO. It takes text and returns events. The time is linear in the size of the text.
struct BlockSplitter: Sendable {
    enum Event {
        /// The unfinished block has more text, as its source. If this is its beginning, `start` is its first line.
        case grew(String, start: LineStart?)
        /// A blank line outside of blocks.
        case blank
        /// A block is complete. `blanks` is the number of blank lines after it that were taken for a part of it.
        case finished([UInt8], LineStart, blanks: Int)
        /// A block of code begins. Code is final line by line. `info` is the text after the fence.
        case codeBegan(info: String, LineStart)
        case code(String)
        case codeEnded
    }

    private var block: OpenBlock?
    /// The bytes of the incomplete line.
    private var line: [UInt8] = []
    /// Whether a part of the unfinished block has been returned.
    private var hasGrown = false

    mutating func append(_ delta: String) -> [Event] {
        var events: [Event] = []
        for piece in delta.utf8.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).enumerated() {
            if piece.offset > 0 { endLine(&events) }
            // A carriage return is a part of a line's end, or has no meaning.
            let bytes = piece.element.filter { $0 != 0x0D }
            guard !bytes.isEmpty else { continue }
            line += bytes
            growLine(by: bytes, &events)
        }
        return events
    }

    /// Ends the text, because it is complete or something else follows it.
    mutating func finish() -> [Event] {
        var events: [Event] = []
        if !line.isEmpty { endLine(&events) }
        closeBlock(&events)
        hasGrown = false
        return events
    }

    /// Handles `bytes` that have been added to the line, which is still incomplete.
    private mutating func growLine(by bytes: [UInt8], _ events: inout [Event]) {
        guard block?.isFence != true else { return }
        if line.count <= 64 {
            // The beginning may already show that the block above has ended.
            if let block, let start = LineStart.certainlyInterrupts(line[...]), !block.continues(with: start) {
                closeBlock(&events)
            }
            // A fence is never shown as text.
            if block == nil, line.allSatisfy({ $0 == 0x20 || $0 == 0x60 || $0 == 0x7E }) { return }
        }
        grow(by: hasGrown ? bytes : line, &events)
    }

    private mutating func grow(by bytes: [UInt8], _ events: inout [Event]) {
        let start = hasGrown ? nil : LineStart(line[...])
        hasGrown = true
        events.append(.grew(String(decoding: bytes, as: UTF8.self), start: start))
    }

    private mutating func endLine(_ events: inout [Event]) {
        defer { line.removeAll(keepingCapacity: true) }
        // The block is changed in place and not bound to a name. Otherwise its source would be copied for each line.
        if case .fence(let fence, let indent)? = block?.kind { return inFence(fence, indent, &events) }
        let start = LineStart(line[...])
        if block?.kind == .text, LineStart.isUnderline(line[...]) {
            block?.add(line)
            return closeBlock(&events)
        }
        if block?.continues(with: start) == true {
            block?.add(start.kind == .blank ? [] : line)
            return grow(by: [0x0A], &events)
        }
        closeBlock(&events)
        begin(start, &events)
    }

    /// Begins a block with the complete line `line`, or reports that the line is blank.
    private mutating func begin(_ start: LineStart, _ events: inout [Event]) {
        let kind: OpenBlock.Kind
        switch start.kind {
        case .blank:
            hasGrown = false
            return events.append(.blank)
        case .heading, .rule: return end(line, start, blanks: 0, &events)
        case .definition: return end([UInt8(ascii: "\\")] + line.drop { $0 == 0x20 }, start, blanks: 0, &events)
        case .fence(let fence):
            hasGrown = false
            let info = line.drop { $0 == 0x20 }.drop { $0 == fence.mark }
            block = OpenBlock(kind: .fence(fence, indent: start.indent))
            return events.append(.codeBegan(info: String(decoding: info, as: UTF8.self), start))
        case .quote: kind = .quote
        case .html: kind = .html
        case .indented: kind = .indented
        case .text: kind = .text
        case .item(let mark, _, let content, _): kind = .item(mark: mark, content: content)
        }
        block = OpenBlock(kind: kind, source: line + [0x0A])
        if !hasGrown { grow(by: line, &events) }
        grow(by: [0x0A], &events)
    }

    /// Handles a complete line within a fence. A line of code is final.
    private mutating func inFence(_ fence: Fence, _ indent: Int, _ events: inout [Event]) {
        if fence.isClosed(by: line[...]), LineStart(line[...]).kind != .indented { return closeBlock(&events) }
        var code = line[...]
        for _ in 0..<indent where code.first == 0x20 { code.removeFirst() }
        events.append(.code(String(decoding: code, as: UTF8.self)))
    }

    private mutating func closeBlock(_ events: inout [Event]) {
        guard let closed = block else { return }
        block = nil
        if closed.isFence { return events.append(.codeEnded) }
        end(closed.source, LineStart(closed.source.prefix { $0 != 0x0A }), blanks: closed.blanks, &events)
    }

    private mutating func end(_ source: [UInt8], _ start: LineStart, blanks: Int, _ events: inout [Event]) {
        hasGrown = false
        events.append(.finished(source, start, blanks: blanks))
    }
}

/// The order of the blocks in a text. It counts the items of lists, and the blank lines between blocks.
struct BlockOrder: Sendable {
    /// Whether there is a block, so that the next one needs a gap.
    private var hasBlock = false
    /// The list of the last item, and the number of the next item.
    private var list: (mark: UInt8, next: Int)?
    /// The number of blank lines since the last block ended.
    var blanks = 0

    /// Returns the number of blank lines above a block that begins like this. Between the items of a list, the gap is
    /// the source's.
    func gap(before start: LineStart) -> Int {
        if !hasBlock { return 0 }
        if case .item(let mark, _, _, _) = start.kind, mark == list?.mark { return blanks > 0 ? 1 : 0 }
        return 1
    }

    /// Records the beginning of a block.
    ///
    /// - Returns: the number of an ordered item, otherwise `nil`.
    mutating func follow(_ start: LineStart) -> Int? {
        hasBlock = true
        blanks = 0
        guard case .item(let mark, let number, _, _) = start.kind else {
            list = nil
            return nil
        }
        let count = list?.mark == mark ? list?.next : number
        list = (mark, (count ?? 0) + 1)
        return number == nil ? nil : count
    }

    /// Ends the text. A list that follows is another one.
    mutating func end() {
        list = nil
        blanks = 0
    }
}
