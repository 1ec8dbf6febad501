@_spi(ChappieInternals) import ChappieCore

/// A regular expression in ECMA-262's syntax (with its flag `u`). Matching is linear in text × pattern.
///
/// The standard library's `Regex` backtracks, and patterns come from servers that may be hostile. This type runs an
/// automaton from the end of the text to its beginning, so that the result of every look-ahead is known when it is
/// needed. Back references, look-behind and scripts (`\p{Script=…}`) are refused.
struct SchemaPattern: Sendable {
    typealias Fault = SchemaPatternParser.Fault
    private typealias Condition = SchemaPatternSyntax.Condition

    let source: String
    /// For each state: the states before it, and the characters between the two.
    private var consuming: [[(state: Int, characters: Int)]] = []
    private var free: [[(state: Int, condition: Condition)]] = []
    private var characters: [SchemaCharacters] = []
    /// The states at which each look-ahead ends and begins, inner ones first. The last program is the whole pattern.
    private var programs: [(end: Int, start: Int)] = []
    /// The size of the pattern. Repetitions are unrolled, and each copy counts.
    private(set) var steps = 0

    /// - Throws: ``Fault``.
    init(_ source: String) throws(Fault) {
        self.source = source
        var parser = SchemaPatternParser(source)
        let syntax = try parser.pattern()
        let end = state()
        programs.append((end, try build(syntax, before: end)))
    }

    // MARK: The automaton

    private mutating func state() -> Int {
        consuming.append([])
        free.append([])
        return free.count - 1
    }

    /// Builds the states for `syntax`, followed by `next`, and returns the first of them.
    private mutating func build(_ syntax: SchemaPatternSyntax, before next: Int) throws(Fault) -> Int {
        steps += 1
        guard steps <= 20_000 else { throw Fault(reason: "is too large, with its repetitions") }
        switch syntax {
        case .characters(let set):
            let state = state()
            characters.append(set)
            consuming[next].append((state, characters.count - 1))
            return state
        case .sequence(let parts):
            var next = next
            for part in parts.reversed() { next = try build(part, before: next) }
            return next
        case .choice(let parts):
            let state = state()
            for part in parts { free[try build(part, before: next)].append((state, .none)) }
            return state
        case .repetition(let part, let minimum, let maximum):
            var next = next
            if let maximum {
                // The end of the repetition may follow every optional copy.
                let after = next
                for _ in minimum..<maximum {
                    let state = state()
                    free[try build(part, before: next)].append((state, .none))
                    free[after].append((state, .none))
                    next = state
                }
            } else {
                let loop = state()
                free[next].append((loop, .none))
                free[try build(part, before: loop)].append((loop, .none))
                next = loop
            }
            for _ in 0..<minimum { next = try build(part, before: next) }
            return next
        case .condition(let condition):
            let state = state()
            free[next].append((state, condition))
            return state
        case .ahead(let body, let isNegative):
            let end = self.state()
            let state = self.state()
            programs.append((end, try build(body, before: end)))
            free[next].append((state, .ahead(programs.count - 1, isNegative: isNegative)))
            return state
        }
    }

    // MARK: Matching

    /// Whether the pattern matches somewhere in `text`; `nil` if `fuel`, from which every step takes some, is used up.
    func matches(_ text: String, fuel: inout Int) -> Bool? {
        let scalars = Array(text.unicodeScalars)
        var marks = Array(repeating: -1, count: free.count)
        var reached = Array(repeating: [Int](), count: programs.count)
        var isMatched = Array(repeating: false, count: programs.count)
        // An unused list, kept for its memory.
        var spare: [Int] = []
        fuel -= free.count
        for position in stride(from: scalars.count, through: 0, by: -1) {
            for (index, program) in programs.enumerated() {
                // A state is in the list if the end of the program can be reached from it here.
                var states = spare
                spare = []
                states.removeAll(keepingCapacity: true)
                func reach(_ state: Int) {
                    guard marks[state] != position else { return }
                    marks[state] = position
                    states.append(state)
                }
                for state in reached[index] {
                    fuel -= consuming[state].count
                    for edge in consuming[state] where characters[edge.characters].contains(scalars[position]) {
                        reach(edge.state)
                    }
                }
                reach(program.end)
                var next = 0
                while next < states.count {
                    let state = states[next]
                    next += 1
                    fuel -= 1 + free[state].count
                    for edge in free[state] where holds(edge.condition, at: position, of: scalars, isMatched) {
                        reach(edge.state)
                    }
                }
                swap(&reached[index], &states)
                spare = states
                isMatched[index] = marks[program.start] == position
            }
            if isMatched[programs.count - 1] { return true }
            if fuel < 0 { return nil }
        }
        return false
    }

    private func holds(
        _ condition: Condition, at position: Int, of scalars: [Unicode.Scalar], _ isMatched: [Bool]
    ) -> Bool {
        func isWord(_ index: Int) -> Bool {
            scalars.indices.contains(index) && SchemaCharacters.word.contains(scalars[index])
        }
        return switch condition {
        case .none: true
        case .start: position == 0
        case .end: position == scalars.count
        case .wordBoundary: isWord(position - 1) != isWord(position)
        case .noWordBoundary: isWord(position - 1) == isWord(position)
        case .ahead(let program, let isNegative): isMatched[program] != isNegative
        }
    }
}
