/// A line of a message that tells the model what to do, instead of being repeated; `SCENARIOS.md` lists them.
enum Directive: Sendable, Hashable {
    case call(name: String, arguments: String?, isForced: Bool)
    case keepCalling(name: String, arguments: String?)
    case run(command: String)
    case repeatWords(Int)
    case reply(String)

    static let wordLimit = 200_000
    /// Characters of a message that are read for directives: an answer must not be many times what was asked.
    static let textLimit = 200_000
    /// Lines looked at, from the start of the message.
    static let lineLimit = 500
    /// Bytes of arguments: many objects that never end must not make the search quadratic.
    static let argumentLimit = 16 * 1024

    static func parse(_ text: String, tools: [DeclaredTool]) -> [Directive] {
        var found: [Directive] = []
        var rest = text.prefix(textLimit)
        var lineCount = 0
        while !rest.isEmpty, lineCount < lineLimit {
            lineCount += 1
            let line = rest.prefix { !$0.isNewline }
            let isWhole: Substring.Index
            if let (directive, end) = parseLine(line, in: rest, tools: tools) {
                found.append(directive)
                isWhole = end
            } else {
                isWhole = line.endIndex
            }
            rest = rest[isWhole...].drop { !$0.isNewline }.drop { $0.isNewline }
        }
        return found
    }

    /// - Returns: the directive and where it ends, which may be lines further down for `{…}` and `reply:`.
    private static func parseLine(
        _ line: Substring, in text: Substring, tools: [DeclaredTool]
    ) -> (Directive, Substring.Index)? {
        let start = line.drop { $0.isWhitespace }
        if let rest = start.droppingPrefix("reply:") {
            let whole = text[rest.startIndex...]
            return (.reply(whole.trimmed), whole.endIndex)
        }
        if let rest = start.droppingPrefix("run:") { return (.run(command: rest.trimmed), line.endIndex) }
        if let rest = start.droppingPrefix("keep calling "), let (name, after) = toolName(rest) {
            let (arguments, end) = self.arguments(after: after, lineEnd: line.endIndex, in: text)
            return (.keepCalling(name: name, arguments: arguments), end)
        }
        let isForced = start.droppingPrefix("force call ") != nil
        if let rest = start.droppingPrefix("force call ") ?? start.droppingPrefix("call "),
            let (name, after) = toolName(rest)
        {
            let (arguments, end) = self.arguments(after: after, lineEnd: line.endIndex, in: text)
            // "call me tomorrow" is prose.
            guard isForced || arguments?.first == "{" || tools.contains(where: { $0.name == name }) else { return nil }
            return (.call(name: name, arguments: arguments, isForced: isForced), end)
        }
        return parseAnywhere(in: line)
    }

    /// The directives that may stand inside a sentence.
    private static func parseAnywhere(in line: Substring) -> (Directive, Substring.Index)? {
        let words = line.split { $0.isWhitespace }
        let lower = words.map { $0.lowercased() }
        for index in words.indices {
            if lower[index] == "repeat", index + 2 < words.count, lower[index + 2].hasPrefix("word"),
                let count = Int(words[index + 1]), count > 0
            {
                return (.repeatWords(min(count, wordLimit)), line.endIndex)
            }
            guard lower[index] == "use" else { continue }
            let skipped = index + 1 < words.count && lower[index + 1] == "the" ? 2 : 1
            if index + skipped + 1 < words.count, lower[index + skipped] == "tool",
                let (name, _) = toolName(words[index + skipped + 1])
            {
                return (.call(name: name, arguments: nil, isForced: false), line.endIndex)
            }
        }
        return nil
    }

    /// A name as the wire allows them, quotes or backticks around it forgiven.
    private static func toolName(_ text: Substring) -> (String, Substring.Index)? {
        let start = text.drop { $0.isWhitespace || $0 == "`" || $0 == "\"" }
        let name = start.prefix { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "_" || $0 == "-") }
        guard !name.isEmpty, name.count <= 64 else { return nil }
        let after = start[name.endIndex...].drop { $0 == "`" || $0 == "\"" }
        return (String(name), after.startIndex)
    }

    /// A JSON object that starts on this line, wherever it ends; otherwise the rest of the line; `nil` when empty.
    private static func arguments(
        after start: Substring.Index, lineEnd: Substring.Index, in text: Substring
    ) -> (String?, Substring.Index) {
        let rest = text[start..<lineEnd].drop { $0.isWhitespace }
        guard let first = rest.first else { return (nil, lineEnd) }
        if first == "{", let end = endOfObject(text[rest.startIndex...]) {
            return (String(text[rest.startIndex..<end]), end)
        }
        return (rest.trimmed, lineEnd)
    }

    /// Finds where a JSON object in running text ends.
    ///
    /// - Returns: the index past the brace that closes the first one; `nil` when that is not within ``argumentLimit``.
    static func endOfObject(_ text: Substring) -> Substring.Index? {
        var depth = 0
        var isInString = false
        var isEscaped = false
        for index in text.utf8.indices.prefix(argumentLimit) {
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

extension Substring {
    /// The text after `prefix`, whatever its case.
    fileprivate func droppingPrefix(_ prefix: String) -> Substring? {
        guard self.prefix(prefix.count).lowercased() == prefix else { return nil }
        return dropFirst(prefix.count)
    }
}

extension StringProtocol {
    /// Without white space at both ends.
    var trimmed: String {
        guard let start = firstIndex(where: { !$0.isWhitespace }), let end = lastIndex(where: { !$0.isWhitespace })
        else { return "" }
        return String(self[start...end])
    }
}
