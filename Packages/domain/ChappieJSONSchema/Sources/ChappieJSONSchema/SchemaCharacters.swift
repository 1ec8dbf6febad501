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
