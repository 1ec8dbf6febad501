extension ChappieJSON {
    /// Parses a whole JSON text.
    ///
    /// Linear in time, at most 256 objects and arrays deep. Strict: RFC 8259's grammar, valid UTF-8, no trailing text.
    /// The last of two equal names counts, and half a surrogate pair in a string becomes U+FFFD.
    ///
    /// - Throws: ``ChappieJSONError`` with the offset of the trouble.
    public init(parsing bytes: [UInt8]) throws(ChappieJSONError) {
        self = try bytes.withUnsafeBufferPointer { bytes throws(ChappieJSONError) in try ChappieJSON(parsing: bytes) }
    }

    /// Parses a whole JSON text. See ``init(parsing:)-([UInt8])``.
    public init(parsing text: String) throws(ChappieJSONError) { try self.init(parsing: Array(text.utf8)) }

    init(parsing bytes: UnsafeBufferPointer<UInt8>) throws(ChappieJSONError) {
        var parser = JSONParser(bytes)
        self = try parser.parseDocument()
    }
}

/// Text that is not JSON, or is nested too deeply.
public struct ChappieJSONError: Error, Sendable, Hashable, LocalizedError {
    /// The fault, in a few words; never the text itself.
    public let reason: String
    /// Bytes from the start of the text to where it went wrong.
    public let offset: Int

    public var errorDescription: String? { "The text is not valid JSON: \(reason) at byte \(offset)." }
}

/// A recursive-descent parser over bytes: linear in time, bounded in depth, strict about RFC 8259 and UTF-8.
struct JSONParser {
    /// Objects and arrays inside each other: deeper than any real payload, shallow enough for a small thread's stack.
    static let maximumDepth = 256

    private let bytes: UnsafeBufferPointer<UInt8>
    private var position = 0

    init(_ bytes: UnsafeBufferPointer<UInt8>) { self.bytes = bytes }

    mutating func parseDocument() throws(ChappieJSONError) -> ChappieJSON {
        let value = try parseValue(depth: 0)
        skipSpace()
        guard position == bytes.count else { throw failure("unexpected text after the value") }
        return value
    }

    private mutating func parseValue(depth: Int) throws(ChappieJSONError) -> ChappieJSON {
        skipSpace()
        guard position < bytes.count else { throw failure("unexpected end") }
        switch bytes[position] {
        case UInt8(ascii: "{"): return .object(try parseObject(depth: depth))
        case UInt8(ascii: "["): return .array(try parseArray(depth: depth))
        case UInt8(ascii: "\""): return .string(try parseString())
        case UInt8(ascii: "t"): return try parseWord("true", .bool(true))
        case UInt8(ascii: "f"): return try parseWord("false", .bool(false))
        case UInt8(ascii: "n"): return try parseWord("null", .null)
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): return .number(try parseNumber())
        default: throw failure("unexpected character")
        }
    }

    private mutating func parseObject(depth: Int) throws(ChappieJSONError) -> ChappieJSONObject {
        try checkDepth(depth)
        position += 1
        var members: [ChappieJSONObject.Member] = []
        if consumeAfterSpace(UInt8(ascii: "}")) { return ChappieJSONObject() }
        repeat {
            skipSpace()
            guard position < bytes.count, bytes[position] == UInt8(ascii: "\"") else {
                throw failure("a member name is missing")
            }
            let name = try parseString()
            guard consumeAfterSpace(UInt8(ascii: ":")) else { throw failure("a colon is missing") }
            members.append(.init(name: name, value: try parseValue(depth: depth + 1)))
        } while consumeAfterSpace(UInt8(ascii: ","))
        guard consumeAfterSpace(UInt8(ascii: "}")) else { throw failure("an object does not end") }
        return ChappieJSONObject(members: members)
    }

    private mutating func parseArray(depth: Int) throws(ChappieJSONError) -> [ChappieJSON] {
        try checkDepth(depth)
        position += 1
        var elements: [ChappieJSON] = []
        if consumeAfterSpace(UInt8(ascii: "]")) { return elements }
        repeat { elements.append(try parseValue(depth: depth + 1)) } while consumeAfterSpace(UInt8(ascii: ","))
        guard consumeAfterSpace(UInt8(ascii: "]")) else { throw failure("an array does not end") }
        return elements
    }

    /// `depth` objects and arrays are open already.
    private func checkDepth(_ depth: Int) throws(ChappieJSONError) {
        guard depth < Self.maximumDepth else { throw failure("nested over \(Self.maximumDepth) levels deep") }
    }

    private mutating func parseWord(
        _ word: StaticString, _ value: ChappieJSON
    ) throws(ChappieJSONError) -> ChappieJSON {
        let length = word.utf8CodeUnitCount
        guard bytes.count - position >= length else { throw failure("unexpected end") }
        for index in 0..<length where bytes[position + index] != word.utf8Start[index] {
            throw failure("unexpected word")
        }
        position += length
        return value
    }

    private mutating func parseNumber() throws(ChappieJSONError) -> ChappieJSONNumber {
        let start = position
        if peek == UInt8(ascii: "-") { position += 1 }
        if peek == UInt8(ascii: "0") { position += 1 } else { try skipDigits() }
        if peek == UInt8(ascii: ".") {
            position += 1
            try skipDigits()
        }
        if peek == UInt8(ascii: "e") || peek == UInt8(ascii: "E") {
            position += 1
            if peek == UInt8(ascii: "+") || peek == UInt8(ascii: "-") { position += 1 }
            try skipDigits()
        }
        return ChappieJSONNumber(checked: String(decoding: bytes[start..<position], as: UTF8.self))
    }

    private mutating func skipDigits() throws(ChappieJSONError) {
        let start = position
        while let byte = peek, byte >= UInt8(ascii: "0"), byte <= UInt8(ascii: "9") { position += 1 }
        guard position > start else { throw failure("a digit is missing") }
    }

    private mutating func parseString() throws(ChappieJSONError) -> String {
        let start = position
        guard let (string, end) = JSONStringScanner.scan(bytes, from: start) else {
            throw failure("a string is malformed")
        }
        position = end
        return string
    }

    private var peek: UInt8? { position < bytes.count ? bytes[position] : nil }

    private mutating func skipSpace() {
        while let byte = peek, byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 { position += 1 }
    }

    private mutating func consumeAfterSpace(_ byte: UInt8) -> Bool {
        skipSpace()
        guard peek == byte else { return false }
        position += 1
        return true
    }

    private func failure(_ reason: String) -> ChappieJSONError { ChappieJSONError(reason: reason, offset: position) }
}
