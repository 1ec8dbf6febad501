@_spi(ChappieInternals) import ChappieCore

/// A line of a message that is a command to the model instead of text to repeat. `SCENARIOS.md` lists the directives.
enum Directive: Sendable, Hashable {
    /// - Parameters:
    ///   - arguments: the arguments, or `nil` to generate them from the tool's schema.
    ///   - isForced: whether the tool is called even if it is not declared.
    ///   - isKept: whether the tool is called again after its result.
    case call(name: String, arguments: String?, isForced: Bool = false, isKept: Bool = false)
    case run(command: String)
    case repeatWords(Int)
    case reply(String)
    /// Refuses with this text and outputs nothing else.
    case refuse(String)
    /// First searches the web, if the request offers that.
    case search(String)
    /// First makes a picture, if the request offers that.
    case draw(String)
    /// First searches for tools with these arguments, if the request offers that. Calls follow the search.
    case find(ChappieJSON)
    /// A comment that the model outputs while it works, before anything else.
    case comment(String)
    /// The number of answers before the last one, which do not end the turn.
    case steps(Int)

    /// Whether it determines the answer, and not the output before the answer.
    var isAnswer: Bool {
        switch self {
        case .comment, .steps, .search, .draw, .find: false
        case .call, .run, .repeatWords, .reply, .refuse: true
        }
    }

    private static let wordLimit = 200_000
    private static let stepLimit = 1000
    /// The number of characters of a message that are searched for directives.
    private static let textLimit = 200_000

    static func parse(_ text: String, tools: [DeclaredTool]) -> [Directive] {
        var found: [Directive] = []
        var rest = text.prefix(textLimit)
        while !rest.isEmpty {
            rest = rest.drop { $0.isWhitespace }
            if let reply = rest.dropping("reply:") { return found + [.reply(reply.trimmed)] }
            let line = rest.prefix { !$0.isNewline }
            if let directive = parseLine(line, tools: tools) { found.append(directive) }
            rest = rest[line.endIndex...]
        }
        return found
    }

    private static func parseLine(_ line: Substring, tools: [DeclaredTool]) -> Directive? {
        if let command = line.dropping("run:") { return .run(command: command.trimmed) }
        if let words = line.dropping("refuse:") { return .refuse(words.trimmed) }
        if let query = line.dropping("search:") { return .search(query.trimmed) }
        if let prompt = line.dropping("draw:") { return .draw(prompt.trimmed) }
        if let query = line.dropping("find:") {
            let text = query.trimmed
            let given = try? ChappieJSON(parsing: Array(text.utf8))
            return .find(given ?? ["query": .string(text)])
        }
        if let comment = line.dropping("comment:") { return .comment(comment.trimmed) }
        if let rest = line.dropping("take ") {
            let words = rest.split(separator: " ")
            guard words.count == 2, words[1].dropping("step") != nil, let count = Int(words[0]), count > 0 else {
                return nil
            }
            return .steps(min(count, stepLimit))
        }
        if let rest = line.dropping("repeat ") {
            let words = rest.split(separator: " ")
            guard words.count > 1, words[1].dropping("word") != nil, let count = Int(words[0]), count > 0 else {
                return nil
            }
            return .repeatWords(min(count, wordLimit))
        }
        for (word, isForced, isKept) in [
            ("call ", false, false), ("use tool ", false, false), ("force call ", true, false),
            ("keep calling ", false, true),
        ] {
            guard let parts = line.dropping(word)?.split(separator: " ", maxSplits: 1), let name = parts.first else {
                continue
            }
            let arguments = parts.count > 1 ? parts[1].trimmed : nil
            // "call me tomorrow" is prose.
            guard isForced || arguments?.first == "{" || tools.contains(where: { $0.name == name }) else { return nil }
            return .call(name: String(name), arguments: arguments, isForced: isForced, isKept: isKept)
        }
        return nil
    }
}

extension Substring {
    /// Returns the text after `prefix`, ignoring case, or `nil` if the text does not begin with it.
    fileprivate func dropping(_ prefix: String) -> Substring? {
        self.prefix(prefix.count).lowercased() == prefix ? dropFirst(prefix.count) : nil
    }
}
