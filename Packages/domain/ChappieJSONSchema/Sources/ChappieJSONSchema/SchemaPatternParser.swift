@_spi(ChappieInternals) import ChappieCore

/// The syntax tree of a ``SchemaPattern``.
indirect enum SchemaPatternSyntax {
    case characters(SchemaCharacters)
    case sequence([SchemaPatternSyntax])
    case choice([SchemaPatternSyntax])
    case repetition(SchemaPatternSyntax, minimum: Int, maximum: Int?)
    case condition(Condition)
    case ahead(SchemaPatternSyntax, isNegative: Bool)

    /// The condition for entering a state without a character.
    enum Condition: Sendable {
        case none, start, end, wordBoundary, noWordBoundary
        /// The look-ahead of this number matches here, or does not if `isNegative`.
        case ahead(Int, isNegative: Bool)
    }
}

/// Reads ECMA-262's regular expressions (22.2.1), with the extensions of its annex B that real patterns use: any
/// punctuation may be escaped, and an unmatched brace or bracket stands for itself.
struct SchemaPatternParser {
    /// A pattern that can't be used.
    struct Fault: Error {
        let reason: String
    }

    private let scalars: [Unicode.Scalar]
    private var position = 0

    init(_ source: String) { scalars = Array(source.unicodeScalars) }

    /// Reads the whole pattern.
    mutating func pattern() throws(Fault) -> SchemaPatternSyntax {
        guard scalars.count <= 10_000 else { throw Fault(reason: "is longer than 10000 characters") }
        let syntax = try choice(depth: 0)
        guard position == scalars.count else { throw Fault(reason: "closes a group that is not open") }
        return syntax
    }

    private mutating func take(_ scalar: Unicode.Scalar) -> Bool {
        guard position < scalars.count, scalars[position] == scalar else { return false }
        position += 1
        return true
    }

    private mutating func take(_ text: String) -> Bool {
        guard scalars[position...].starts(with: text.unicodeScalars) else { return false }
        position += text.unicodeScalars.count
        return true
    }

    private mutating func next() -> Unicode.Scalar? {
        guard position < scalars.count else { return nil }
        position += 1
        return scalars[position - 1]
    }

    // MARK: Structure

    private mutating func choice(depth: Int) throws(Fault) -> SchemaPatternSyntax {
        guard depth <= 50 else { throw Fault(reason: "has groups over 50 levels deep") }
        var parts: [SchemaPatternSyntax] = []
        repeat {
            var sequence: [SchemaPatternSyntax] = []
            while position < scalars.count, scalars[position] != "|", scalars[position] != ")" {
                sequence.append(try term(depth: depth))
            }
            parts.append(.sequence(sequence))
        } while take("|")
        return parts.count == 1 ? parts[0] : .choice(parts)
    }

    private mutating func term(depth: Int) throws(Fault) -> SchemaPatternSyntax {
        let start = position
        let atom: SchemaPatternSyntax
        switch next() {
        case "^": return .condition(.start)
        case "$": return .condition(.end)
        case "(": atom = try group(depth: depth)
        case ".": atom = .characters(SchemaCharacters.lineEnd.inverted)
        case "[": atom = .characters(try set())
        case "*", "+", "?": throw Fault(reason: "repeats nothing, at character \(start + 1)")
        case "\\":
            if take("b") { return .condition(.wordBoundary) }
            if take("B") { return .condition(.noWordBoundary) }
            atom = .characters(try escape(inSet: false))
        case let scalar?:
            position -= 1
            if try bounds() != nil { throw Fault(reason: "repeats nothing, at character \(start + 1)") }
            position = start + 1
            atom = .characters(SchemaCharacters([scalar.value...scalar.value]))
        case nil: return .sequence([])
        }
        guard let (minimum, maximum) = try bounds() else { return atom }
        // A lazy repetition matches the same texts.
        _ = take("?")
        if position < scalars.count, ["*", "+", "?"].contains(scalars[position]) {
            throw Fault(reason: "repeats a repetition, at character \(position + 1)")
        }
        return .repetition(atom, minimum: minimum, maximum: maximum)
    }

    /// The next quantifier, if there is one.
    private mutating func bounds() throws(Fault) -> (Int, Int?)? {
        if take("*") { return (0, nil) }
        if take("+") { return (1, nil) }
        if take("?") { return (0, 1) }
        let start = position
        if take("{"), let minimum = number() {
            let maximum = take(",") ? number() : minimum
            if take("}") {
                let bound = 10_000
                guard minimum <= bound, maximum ?? 0 <= bound else {
                    throw Fault(reason: "repeats something more than \(bound) times")
                }
                guard minimum <= maximum ?? bound else { throw Fault(reason: "has a repetition from more to less") }
                return (minimum, maximum)
            }
        }
        position = start
        return nil
    }

    private mutating func number() -> Int? {
        var value: Int?
        while position < scalars.count, case let digit = scalars[position], "0"..."9" ~= digit {
            value = min((value ?? 0) * 10 + Int(digit.value - 0x30), 1_000_000)
            position += 1
        }
        return value
    }

    private mutating func group(depth: Int) throws(Fault) -> SchemaPatternSyntax {
        var isNegative: Bool?
        if take("?") {
            if take("=") {
                isNegative = false
            } else if take("!") {
                isNegative = true
            } else if take("<") {
                if take("=") || take("!") { throw Fault(reason: "looks behind, which is not supported") }
                while let scalar = next(), scalar != ">" {
                    guard scalar.properties.isIDContinue || scalar == "$" else {
                        throw Fault(reason: "has a group with an invalid name")
                    }
                }
            } else if !take(":") {
                throw Fault(reason: "has a kind of group that is not supported, at character \(position + 1)")
            }
        }
        let body = try choice(depth: depth + 1)
        guard take(")") else { throw Fault(reason: "has a group that does not end") }
        return isNegative.map { .ahead(body, isNegative: $0) } ?? body
    }

    // MARK: Characters

    private mutating func set() throws(Fault) -> SchemaCharacters {
        let isNegated = take("^")
        var sets: [SchemaCharacters] = []
        while !take("]") {
            let (first, value) = try member()
            // A hyphen at the end of a set, or beside a class such as \w, stands for itself.
            guard position + 1 < scalars.count, scalars[position] == "-", scalars[position + 1] != "]", let value else {
                sets.append(first)
                continue
            }
            position += 1
            let (second, end) = try member()
            if let end {
                guard value <= end else { throw Fault(reason: "has a range of characters from more to less") }
                sets.append(SchemaCharacters([value...end]))
            } else {
                sets += [first, SchemaCharacters([0x2D...0x2D]), second]
            }
        }
        return SchemaCharacters(union: sets, isNegated: isNegated)
    }

    /// One member of a set, and its value if it is a single character.
    private mutating func member() throws(Fault) -> (SchemaCharacters, UInt32?) {
        guard let scalar = next() else { throw Fault(reason: "has a set of characters that does not end") }
        guard let value = scalar == "\\" ? try escapedCharacter(inSet: true) : scalar.value else {
            return (try escape(inSet: true), nil)
        }
        return (SchemaCharacters([value...value]), value)
    }

    /// The characters of an escape, whose backslash has been read.
    private mutating func escape(inSet: Bool) throws(Fault) -> SchemaCharacters {
        if let value = try escapedCharacter(inSet: inSet) { return SchemaCharacters([value...value]) }
        switch next() {
        case "d": return .digit
        case "D": return .digit.inverted
        case "w": return .word
        case "W": return .word.inverted
        case "s": return .space
        case "S": return .space.inverted
        case "p": return try property(isNegated: false)
        case "P": return try property(isNegated: true)
        case let scalar? where scalar == "k" || "1"..."9" ~= scalar:
            throw Fault(reason: "refers back to a group, which is not supported")
        case let scalar?: throw Fault(reason: "has the escape \\\(scalar), which is not known")
        case nil: throw Fault(reason: "ends with a backslash")
        }
    }

    private mutating func property(isNegated: Bool) throws(Fault) -> SchemaCharacters {
        guard take("{"), let end = scalars[position...].firstIndex(of: "}") else {
            throw Fault(reason: "has a property of characters without a name")
        }
        let name = String(String.UnicodeScalarView(scalars[position..<end]))
        position = end + 1
        guard let property = SchemaCharacterProperty(name) else {
            throw Fault(reason: "names a property of characters that is not supported: \(name.prefix(60))")
        }
        return SchemaCharacters(property, isNegated: isNegated)
    }

    /// The single character of the escape; `nil`, with nothing read, for other escapes.
    private mutating func escapedCharacter(inSet: Bool) throws(Fault) -> UInt32? {
        let start = position
        guard let scalar = next() else { return nil }
        switch scalar {
        case "t": return 0x09
        case "n": return 0x0A
        case "v": return 0x0B
        case "f": return 0x0C
        case "r": return 0x0D
        case "b" where inSet: return 0x08
        case "0":
            if position == scalars.count || SchemaCharacters.digit.contains(scalars[position]) == false { return 0 }
        case "c":
            guard let letter = next(), letter.isASCII, letter.properties.isAlphabetic else {
                throw Fault(reason: "has an invalid control character")
            }
            return letter.value & 0x1F
        case "x": return try hexadecimal(2)
        case "u":
            if take("{") {
                guard let end = scalars[position...].firstIndex(of: "}"), 1...8 ~= end - position else {
                    throw Fault(reason: "has an invalid code point")
                }
                let value = try hexadecimal(end - position)
                position += 1
                guard value <= 0x10FFFF else { throw Fault(reason: "has an invalid code point") }
                return value
            }
            let high = try hexadecimal(4)
            let end = position
            if 0xD800...0xDBFF ~= high, take("\\u"), case let low = try hexadecimal(4) {
                if 0xDC00...0xDFFF ~= low { return 0x10000 + (high - 0xD800) << 10 + (low - 0xDC00) }
                position = end
            }
            return high
        case _ where !scalar.properties.isIDContinue || scalar == "_": return scalar.value
        default: break
        }
        position = start
        return nil
    }

    private mutating func hexadecimal(_ count: Int) throws(Fault) -> UInt32 {
        var value: UInt32 = 0
        for _ in 0..<count {
            guard let digit = next().flatMap({ $0.isASCII ? Character($0).hexDigitValue : nil }) else {
                throw Fault(reason: "has an escape with a digit missing")
            }
            value = value << 4 | UInt32(digit)
        }
        return value
    }
}
