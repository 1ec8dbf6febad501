@_spi(ChappieInternals) import ChappieCore

/// A regular expression in ECMA-262's syntax (with its flag `u`). Matching is linear in text × pattern.
///
/// The standard library's `Regex` backtracks, and patterns come from servers that may be hostile. This type runs an
/// automaton from the end of the text to its beginning, so that the result of every look-ahead is known when it is
/// needed. Back references, look-behind and scripts (`\p{Script=…}`) are refused.
struct SchemaPattern: Sendable {
    /// A pattern that can't be used.
    struct Fault: Error {
        let reason: String
    }

    /// The condition for entering a state without a character.
    enum Condition: Sendable {
        case none, start, end, wordBoundary, noWordBoundary
        /// The look-ahead of this number matches here, or does not if `isNegative`.
        case ahead(Int, isNegative: Bool)
    }

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

/// A set of characters.
struct SchemaCharacters: Sendable {
    private var ranges: [ClosedRange<UInt32>]
    /// Properties in addition to the ranges, and whether each is negated.
    private var properties: [(SchemaCharacterProperty, isNegated: Bool)] = []
    private var isNegated = false

    static let digit = SchemaCharacters([0x30...0x39])
    static let word = SchemaCharacters([0x30...0x39, 0x41...0x5A, 0x5F...0x5F, 0x61...0x7A])
    static let space = SchemaCharacters([
        0x09...0x0D, 0x20...0x20, 0xA0...0xA0, 0x1680...0x1680, 0x2000...0x200A, 0x2028...0x2029, 0x202F...0x202F,
        0x205F...0x205F, 0x3000...0x3000, 0xFEFF...0xFEFF,
    ])
    static let lineEnd = SchemaCharacters([0x0A...0x0A, 0x0D...0x0D, 0x2028...0x2029])

    init(_ ranges: [ClosedRange<UInt32>]) { self.ranges = ranges }

    init(_ property: SchemaCharacterProperty, isNegated: Bool) {
        ranges = []
        properties = [(property, isNegated)]
    }

    /// The union of `sets`, whose ranges are sorted and joined, for the search in ``contains(_:)``.
    init(union sets: [SchemaCharacters], isNegated: Bool) {
        ranges = []
        for range in sets.flatMap(\.positiveRanges).sorted(by: { $0.lowerBound < $1.lowerBound }) {
            if let last = ranges.last, range.lowerBound <= last.upperBound {
                ranges[ranges.count - 1] = last.lowerBound...max(last.upperBound, range.upperBound)
            } else {
                ranges.append(range)
            }
        }
        for (property, isNegated) in sets.flatMap(\.properties)
        where !properties.contains(where: { $0.0 == property && $0.isNegated == isNegated }) {
            properties.append((property, isNegated))
        }
        self.isNegated = isNegated
    }

    /// The set of all other characters.
    var inverted: SchemaCharacters {
        var copy = self
        copy.isNegated.toggle()
        return copy
    }

    /// The ranges without a negation. Only sets without properties are negated before they join a union.
    private var positiveRanges: [ClosedRange<UInt32>] {
        guard isNegated else { return ranges }
        var gaps: [ClosedRange<UInt32>] = []
        var start: UInt32 = 0
        for range in ranges {
            if start < range.lowerBound { gaps.append(start...range.lowerBound - 1) }
            start = range.upperBound + 1
        }
        if start <= 0x10FFFF { gaps.append(start...0x10FFFF) }
        return gaps
    }

    func contains(_ scalar: Unicode.Scalar) -> Bool {
        var low = 0
        var high = ranges.count
        while low < high {
            let middle = (low + high) / 2
            if ranges[middle].upperBound < scalar.value { low = middle + 1 } else { high = middle }
        }
        let isIn =
            low < ranges.count && ranges[low].contains(scalar.value)
            || properties.contains { $0.0.holds(scalar) != $0.isNegated }
        return isIn != isNegated
    }
}

/// A property of characters, named by `\p{…}`.
enum SchemaCharacterProperty: Sendable, Hashable {
    case categories(Set<Unicode.GeneralCategory>)
    case any, ascii, alphabetic, uppercase, lowercase, whiteSpace, emoji, identifierStart, identifierContinue

    private static let categories: [(String, String, Unicode.GeneralCategory)] = [
        ("Lu", "Uppercase_Letter", .uppercaseLetter), ("Ll", "Lowercase_Letter", .lowercaseLetter),
        ("Lt", "Titlecase_Letter", .titlecaseLetter), ("Lm", "Modifier_Letter", .modifierLetter),
        ("Lo", "Other_Letter", .otherLetter), ("Mn", "Nonspacing_Mark", .nonspacingMark),
        ("Mc", "Spacing_Mark", .spacingMark), ("Me", "Enclosing_Mark", .enclosingMark),
        ("Nd", "Decimal_Number", .decimalNumber), ("Nl", "Letter_Number", .letterNumber),
        ("No", "Other_Number", .otherNumber), ("Pc", "Connector_Punctuation", .connectorPunctuation),
        ("Pd", "Dash_Punctuation", .dashPunctuation), ("Ps", "Open_Punctuation", .openPunctuation),
        ("Pe", "Close_Punctuation", .closePunctuation), ("Pi", "Initial_Punctuation", .initialPunctuation),
        ("Pf", "Final_Punctuation", .finalPunctuation), ("Po", "Other_Punctuation", .otherPunctuation),
        ("Sm", "Math_Symbol", .mathSymbol), ("Sc", "Currency_Symbol", .currencySymbol),
        ("Sk", "Modifier_Symbol", .modifierSymbol), ("So", "Other_Symbol", .otherSymbol),
        ("Zs", "Space_Separator", .spaceSeparator), ("Zl", "Line_Separator", .lineSeparator),
        ("Zp", "Paragraph_Separator", .paragraphSeparator), ("Cc", "Control", .control), ("Cf", "Format", .format),
        ("Cs", "Surrogate", .surrogate), ("Co", "Private_Use", .privateUse), ("Cn", "Unassigned", .unassigned),
    ]
    private static let groups = [
        "Letter": "L", "Mark": "M", "Number": "N", "Punctuation": "P", "Symbol": "S", "Separator": "Z", "Other": "C",
        "digit": "Nd", "punct": "P", "cntrl": "Cc", "Combining_Mark": "M",
    ]

    /// `nil` for unknown names.
    init?(_ name: String) {
        switch name {
        case "Any": self = .any
        case "ASCII": self = .ascii
        case "Alphabetic", "Alpha": self = .alphabetic
        case "Uppercase", "Upper": self = .uppercase
        case "Lowercase", "Lower": self = .lowercase
        case "White_Space", "space": self = .whiteSpace
        case "Emoji": self = .emoji
        case "ID_Start", "IDS": self = .identifierStart
        case "ID_Continue", "IDC": self = .identifierContinue
        case "LC", "Cased_Letter": self = .categories([.uppercaseLetter, .lowercaseLetter, .titlecaseLetter])
        default:
            var name = name
            for prefix in ["General_Category=", "gc="] where name.hasPrefix(prefix) { name.removeFirst(prefix.count) }
            name = Self.groups[name] ?? name
            let found = Self.categories.filter { $0.0 == name || $0.1 == name || $0.0.prefix(1) == name }
            guard !found.isEmpty else { return nil }
            self = .categories(Set(found.map(\.2)))
        }
    }

    func holds(_ scalar: Unicode.Scalar) -> Bool {
        switch self {
        case .categories(let categories): categories.contains(scalar.properties.generalCategory)
        case .any: true
        case .ascii: scalar.isASCII
        case .alphabetic: scalar.properties.isAlphabetic
        case .uppercase: scalar.properties.isUppercase
        case .lowercase: scalar.properties.isLowercase
        case .whiteSpace: scalar.properties.isWhitespace
        case .emoji: scalar.properties.isEmoji
        case .identifierStart: scalar.properties.isIDStart
        case .identifierContinue: scalar.properties.isIDContinue
        }
    }
}
