extension ChappieJSON {
    /// Parses a complete JSON text.
    ///
    /// Parsing takes linear time. The text may have at most 256 nested objects and arrays, and 4 million members and
    /// elements in total. It must follow RFC 8259's grammar, be valid UTF-8, and have no trailing text. The last of two
    /// equal names counts, and half a surrogate pair in a string becomes U+FFFD.
    ///
    /// - Throws: ``ChappieJSONError`` with the offset of the error.
    public init(parsing bytes: [UInt8]) throws(ChappieJSONError) {
        self = try bytes.withUnsafeBufferPointer { bytes throws(ChappieJSONError) in try ChappieJSON(parsing: bytes) }
    }

    /// Parses a complete JSON text. See ``init(parsing:)-([UInt8])``.
    public init(parsing text: String) throws(ChappieJSONError) { try self.init(parsing: Array(text.utf8)) }

    init(parsing bytes: UnsafeBufferPointer<UInt8>) throws(ChappieJSONError) {
        var reader = JSONReader(bytes)
        self = try reader.value()
        guard reader.peek() == nil else { throw reader.failure("unexpected text after the value") }
    }
}

/// The error for text that is not JSON, or that is nested too deeply.
public struct ChappieJSONError: ChappieError, Hashable {
    /// A short description of the error, which never contains the text itself.
    public let reason: String
    /// The number of bytes from the start of the text to the error.
    public let offset: Int

    public var errorDescription: String? { "The text is not valid JSON: \(reason) at byte \(offset)." }
}

/// A reader that parses JSON from bytes by recursive descent. It is linear in time, bounded in depth, and strict about
/// RFC 8259 and UTF-8.
///
/// ``TextDeltaScanner`` uses its tokens without building values.
struct JSONReader {
    private let bytes: UnsafeBufferPointer<UInt8>
    private var position = 0
    /// The number of members and elements so far. Two bytes of text may become a value of thirty bytes.
    private var count = 0

    init(_ bytes: UnsafeBufferPointer<UInt8>) { self.bytes = bytes }

    func failure(_ reason: String) -> ChappieJSONError { ChappieJSONError(reason: reason, offset: position) }

    // MARK: Values

    mutating func value(depth: Int = 0) throws(ChappieJSONError) -> ChappieJSON {
        guard let first = peek() else { throw failure("unexpected end") }
        switch first {
        case "{": return .object(ChappieJSONObject(members: try list(until: "}", depth, Self.member)))
        case "[": return .array(try list(until: "]", depth, Self.element))
        case "\"": return .string(try string())
        case "t":
            try word("true")
            return .bool(true)
        case "f":
            try word("false")
            return .bool(false)
        case "n":
            try word("null")
            return .null
        case "-", "0"..."9": return .number(try number())
        default: throw failure("unexpected character")
        }
    }

    @inline(__always)
    private mutating func list<Element>(
        until end: Unicode.Scalar, _ depth: Int,
        _ element: (inout JSONReader, _ depth: Int) throws(ChappieJSONError) -> Element
    ) throws(ChappieJSONError) -> [Element] {
        guard depth < ChappieJSON.maximumDepth else {
            throw failure("nested over \(ChappieJSON.maximumDepth) levels deep")
        }
        position += 1
        var elements: [Element] = []
        if take(end) { return elements }
        repeat {
            elements.append(try element(&self, depth + 1))
            count += 1
            guard count <= ChappieJSON.maximumCount else {
                throw failure("over \(ChappieJSON.maximumCount) members and elements")
            }
        } while take(",")
        guard take(end) else { throw failure("an object or array does not end") }
        return elements
    }

    private static func element(_ reader: inout JSONReader, depth: Int) throws(ChappieJSONError) -> ChappieJSON {
        try reader.value(depth: depth)
    }

    private static func member(
        _ reader: inout JSONReader, depth: Int
    ) throws(ChappieJSONError) -> ChappieJSONObject.Member {
        let name = try reader.string()
        guard reader.take(":") else { throw reader.failure("a colon is missing") }
        return ChappieJSONObject.Member(name: name, value: try reader.value(depth: depth))
    }

    // MARK: Tokens

    /// Skips white space and returns the next character, without taking it, or `nil` at the end.
    @inline(__always)
    mutating func peek() -> Unicode.Scalar? {
        while position < bytes.count {
            let character = Unicode.Scalar(bytes[position])
            switch character {
            case " ", "\n", "\r", "\t": position += 1
            default: return character
            }
        }
        return nil
    }

    /// Skips white space, takes `character` if it is next, and returns whether it was.
    @inline(__always)
    mutating func take(_ character: Unicode.Scalar) -> Bool {
        guard peek() == character else { return false }
        position += 1
        return true
    }

    mutating func word(_ word: StaticString) throws(ChappieJSONError) {
        let end = position + word.utf8CodeUnitCount
        guard end <= bytes.count, ByteScanner.equal(UnsafeBufferPointer(rebasing: bytes[position..<end]), word) else {
            throw failure("unexpected word")
        }
        position = end
    }

    private mutating func number() throws(ChappieJSONError) -> ChappieJSONNumber {
        let start = position
        try skipNumber()
        return ChappieJSONNumber(checked: String(decoding: bytes[start..<position], as: UTF8.self))
    }

    /// Skips a number that begins here (RFC 8259, 6).
    mutating func skipNumber() throws(ChappieJSONError) {
        skip("-")
        if !skip("0") { try skipDigits() }
        if skip(".") { try skipDigits() }
        if skip("e") || skip("E") {
            if !skip("+") { skip("-") }
            try skipDigits()
        }
    }

    @discardableResult @inline(__always)
    private mutating func skip(_ character: Unicode.Scalar) -> Bool {
        guard position < bytes.count, Unicode.Scalar(bytes[position]) == character else { return false }
        position += 1
        return true
    }

    private mutating func skipDigits() throws(ChappieJSONError) {
        let start = position
        while position < bytes.count, "0"..."9" ~= Unicode.Scalar(bytes[position]) { position += 1 }
        guard position > start else { throw failure("a digit is missing") }
    }

    /// Returns the bytes of the next string, if it is printable ASCII without escapes.
    mutating func plainString() -> UnsafeBufferPointer<UInt8>? {
        guard take("\"") else { return nil }
        let start = position
        position = ByteScanner.endOfPlainText(bytes, from: start)
        let end = position
        return skip("\"") ? UnsafeBufferPointer(rebasing: bytes[start..<end]) : nil
    }

    // MARK: Strings

    /// Returns the next string (RFC 8259, 7).
    mutating func string() throws(ChappieJSONError) -> String {
        guard take("\"") else { throw failure("a string is missing") }
        let start = position
        // The text before `run` has been unescaped.
        var unescaped: [UInt8] = []
        var run = start
        var isASCII = true
        while true {
            position = ByteScanner.endOfPlainText(bytes, from: position)
            guard position < bytes.count else { throw failure("a string does not end") }
            switch Unicode.Scalar(bytes[position]) {
            case "\"":
                let rest = UnsafeBufferPointer(rebasing: bytes[run..<position])
                position += 1
                // In measurements, validating costs twice as much as decoding. ASCII needs no validation.
                if run == start, isASCII { return String(decoding: rest, as: UTF8.self) }
                if run > start { unescaped.append(contentsOf: rest) }
                let string =
                    run == start
                    ? String(validating: rest, as: UTF8.self) : String(validating: unescaped, as: UTF8.self)
                guard let string else { throw failure("a string is not UTF-8") }
                return string
            case "\\":
                unescaped.append(contentsOf: UnsafeBufferPointer(rebasing: bytes[run..<position]))
                position += 1
                try appendEscaped(to: &unescaped)
                run = position
            case "\0"..<" ": throw failure("a control character in a string")
            default:
                isASCII = false
                while position < bytes.count, bytes[position] >= 0x80 { position += 1 }
            }
        }
    }

    /// Appends the character of an escape, whose backslash has been read.
    private mutating func appendEscaped(to output: inout [UInt8]) throws(ChappieJSONError) {
        guard position < bytes.count else { throw failure("a string does not end") }
        let letter = bytes[position]
        position += 1
        switch Unicode.Scalar(letter) {
        case "\"", "\\", "/": output.append(letter)
        case "b": output.append(0x08)
        case "f": output.append(0x0C)
        case "n": output.append(0x0A)
        case "r": output.append(0x0D)
        case "t": output.append(0x09)
        case "u":
            var scalar = try codeUnit()
            if 0xD800...0xDBFF ~= scalar, bytes[position...].starts(with: [0x5C, 0x75]) {
                let end = position
                position += 2
                let low = try codeUnit()
                if 0xDC00...0xDFFF ~= low {
                    scalar = 0x10000 + (scalar - 0xD800) << 10 + (low - 0xDC00)
                } else {
                    position = end
                }
            }
            // Half a pair is not a character. Servers that cut text by UTF-16 units send it, and the rest of the text
            // is valid.
            output.append(contentsOf: UTF8.encode(Unicode.Scalar(scalar) ?? "\u{FFFD}") ?? .init())
        default: throw failure("an unknown escape")
        }
    }

    private mutating func codeUnit() throws(ChappieJSONError) -> UInt32 {
        guard position + 4 <= bytes.count else { throw failure("a string does not end") }
        var unit: UInt32 = 0
        for byte in bytes[position..<(position + 4)] {
            switch Unicode.Scalar(byte) {
            case "0"..."9": unit = unit << 4 | UInt32(byte - 0x30)
            case "A"..."F", "a"..."f": unit = unit << 4 | UInt32(byte & 0x5F - 0x37)
            default: throw failure("an unknown escape")
            }
        }
        position += 4
        return unit
    }
}

/// Functions that search runs of bytes for the decoders, eight bytes at a time if that is faster.
enum ByteScanner {
    private static let lanes: UInt64 = 0x0101_0101_0101_0101
    private static let topBits: UInt64 = 0x8080_8080_8080_8080

    /// Returns the offset of the first byte from `start` on that is a quote, a backslash, a control character or not
    /// ASCII, or `bytes.count` if there is none. These bytes of a JSON string need more work.
    static func endOfPlainText(_ bytes: UnsafeBufferPointer<UInt8>, from start: Int) -> Int {
        guard let base = UnsafeRawPointer(bytes.baseAddress) else { return 0 }
        var index = start
        while bytes.count - index >= 8 {
            let word = UInt64(littleEndian: base.loadUnaligned(fromByteOffset: index, as: UInt64.self))
            // In each lane the top bit means "below", because x - n borrows exactly if x < n. The first lane that
            // borrows is correct, because its borrow affects only the lanes after it.
            let quote = (word ^ 0x2222_2222_2222_2222) &- lanes
            let backslash = (word ^ 0x5C5C_5C5C_5C5C_5C5C) &- lanes
            let control = word &- 0x2020_2020_2020_2020
            let found = (quote | backslash | control | word) & topBits
            if found != 0 { return index + found.trailingZeroBitCount / 8 }
            index += 8
        }
        while index < bytes.count {
            switch Unicode.Scalar(bytes[index]) {
            case "\"", "\\", "\0"..<" ", "\u{80}"...: return index
            default: index += 1
            }
        }
        return index
    }

    /// Returns the offset of the first line feed or carriage return from `start` on, or `bytes.count` if there is none.
    static func endOfLine(_ bytes: UnsafeBufferPointer<UInt8>, from start: Int) -> Int {
        guard let base = UnsafeRawPointer(bytes.baseAddress) else { return 0 }
        var index = start
        while bytes.count - index >= 8 {
            let word = UInt64(littleEndian: base.loadUnaligned(fromByteOffset: index, as: UInt64.self))
            let (feed, carriage) = (word ^ 0x0A0A_0A0A_0A0A_0A0A, word ^ 0x0D0D_0D0D_0D0D_0D0D)
            // A lane that is 0 borrows, so its top bit, which was clear, is set.
            let found = ((feed &- lanes) & ~feed | (carriage &- lanes) & ~carriage) & topBits
            if found != 0 { return index + found.trailingZeroBitCount / 8 }
            index += 8
        }
        while index < bytes.count, bytes[index] != UInt8(ascii: "\n"), bytes[index] != UInt8(ascii: "\r") { index += 1 }
        return index
    }

    /// Returns whether the bytes are those of `word`. It is many times as fast as `elementsEqual`.
    static func equal(_ bytes: UnsafeBufferPointer<UInt8>, _ word: StaticString) -> Bool {
        guard bytes.count == word.utf8CodeUnitCount, let base = UnsafeRawPointer(bytes.baseAddress) else {
            return false
        }
        let other = UnsafeRawPointer(word.utf8Start)
        var index = 0
        while bytes.count - index >= 8 {
            guard
                base.loadUnaligned(fromByteOffset: index, as: UInt64.self)
                    == other.loadUnaligned(fromByteOffset: index, as: UInt64.self)
            else { return false }
            index += 8
        }
        while index < bytes.count, bytes[index] == word.utf8Start[index] { index += 1 }
        return index == bytes.count
    }
}
