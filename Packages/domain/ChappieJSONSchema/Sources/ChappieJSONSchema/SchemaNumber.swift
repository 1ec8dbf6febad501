import ChappieCore

/// A JSON number that is compared by its value. `1`, `1.0` and `10e-1` are equal, and digits that a double would lose
/// also count.
///
/// Every operation is linear in the number of digits, whatever the exponent. An exponent of more than 18 digits counts
/// as the largest of 18 digits.
struct SchemaNumber: Hashable, Comparable {
    private let isNegative: Bool
    /// The digits from the first to the last that is not 0. It is empty for zero.
    private let digits: [UInt8]
    /// The power of ten of the last digit.
    private let exponent: Int

    init(_ number: ChappieJSONNumber) {
        var digits: [UInt8] = []
        var exponent = 0
        var rest = number.literal.utf8[...]
        let isNegative = rest.first == UInt8(ascii: "-")
        if isNegative { rest.removeFirst() }
        var isFraction = false
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "."): isFraction = true
            case UInt8(ascii: "e"), UInt8(ascii: "E"):
                exponent += Self.exponent(rest)
                rest = rest[rest.endIndex...]
            default:
                digits.append(byte & 0x0F)
                if isFraction { exponent -= 1 }
            }
        }
        while digits.last == 0 {
            digits.removeLast()
            exponent += 1
        }
        self.digits = Array(digits.drop { $0 == 0 })
        self.exponent = self.digits.isEmpty ? 0 : exponent
        self.isNegative = isNegative && !self.digits.isEmpty
    }

    private static func exponent(_ text: Substring.UTF8View) -> Int {
        var value = 0
        for byte in text where byte >= UInt8(ascii: "0") {
            value = min(value * 10 + Int(byte & 0x0F), 999_999_999_999_999_999)
            if value == 999_999_999_999_999_999 { break }
        }
        return text.first == UInt8(ascii: "-") ? -value : value
    }

    var isInteger: Bool { exponent >= 0 }
    var isPositive: Bool { !isNegative && !digits.isEmpty }

    /// The number if it is an integer of 0 or more, but at most `Int.max`, or `nil` for other numbers.
    var count: Int? {
        guard isInteger, !isNegative else { return nil }
        guard digits.count + exponent < 19 else { return Int.max }
        return (digits + Array(repeating: 0, count: exponent)).reduce(0) { $0 * 10 + Int($1) }
    }

    static func < (left: SchemaNumber, right: SchemaNumber) -> Bool {
        if left.isNegative != right.isNegative { return left.isNegative }
        return left.isNegative ? right.isCloserToZero(than: left) : left.isCloserToZero(than: right)
    }

    private func isCloserToZero(than other: SchemaNumber) -> Bool {
        if digits.isEmpty || other.digits.isEmpty { return digits.isEmpty && !other.digits.isEmpty }
        let order = exponent + digits.count
        let otherOrder = other.exponent + other.digits.count
        return order == otherOrder ? digits.lexicographicallyPrecedes(other.digits) : order < otherOrder
    }

    // MARK: Multiples

    /// Whether the number has few enough digits for ``isMultiple(of:)``.
    var isDivisor: Bool { isPositive && digits.count <= 19 }

    /// Returns whether the number is a multiple of `divisor`. The result is exact, unlike a division of doubles.
    func isMultiple(of divisor: SchemaNumber) -> Bool {
        // The last digit is not 0, so no power of ten divides the number.
        guard exponent >= divisor.exponent || digits.isEmpty else { return false }
        let modulus = divisor.digits.reduce(UInt64(0)) { $0 * 10 + UInt64($1) }
        func product(_ left: UInt64, _ right: UInt64) -> UInt64 {
            // Both are smaller than the modulus, so the quotient fits.
            modulus.dividingFullWidth(left.multipliedFullWidth(by: right)).remainder
        }
        var rest = digits.reduce(UInt64(0)) { (product($0, 10 % modulus) + UInt64($1)) % modulus }
        var power = 10 % modulus
        var shift = digits.isEmpty ? 0 : exponent - divisor.exponent
        while shift > 0, rest != 0 {
            if shift & 1 == 1 { rest = product(rest, power) }
            power = product(power, power)
            shift >>= 1
        }
        return rest == 0
    }

    /// Appends bytes that only equal numbers share.
    func append(to output: inout [UInt8]) {
        output.append(UInt8(ascii: isNegative ? "-" : "+"))
        output.append(contentsOf: String(exponent).utf8)
        output.append(UInt8(ascii: ":"))
        output.append(contentsOf: digits)
        output.append(0xFF)
    }
}

/// A JSON value as bytes that only equal values share. Numbers are compared by value, members regardless of their
/// order, and strings by their code points, unlike Swift's `==`.
struct SchemaIdentity: Hashable {
    private(set) var bytes: [UInt8] = []

    /// - Precondition: The value is not nested more deeply than JSON may be.
    init(_ value: ChappieJSON) { append(value) }

    private mutating func append(_ value: ChappieJSON) {
        switch value {
        case .null: bytes.append(UInt8(ascii: "n"))
        case .bool(let value): bytes.append(UInt8(ascii: value ? "t" : "f"))
        case .number(let number): SchemaNumber(number).append(to: &bytes)
        case .string(let text): append(text)
        case .array(let elements):
            bytes.append(UInt8(ascii: "["))
            for element in elements { append(element) }
            bytes.append(UInt8(ascii: "]"))
        case .object(let object):
            bytes.append(UInt8(ascii: "{"))
            for member in object.members.sorted(by: { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }) {
                append(member.name)
                append(member.value)
            }
            bytes.append(UInt8(ascii: "}"))
        }
    }

    private mutating func append(_ text: String) {
        bytes.append(UInt8(ascii: "s"))
        bytes.append(contentsOf: String(text.utf8.count).utf8)
        bytes.append(UInt8(ascii: ":"))
        bytes.append(contentsOf: text.utf8)
    }
}

/// A string that is compared by its code points. Swift's own equality ignores whether é consists of one or two code
/// points.
struct SchemaName: Hashable {
    let text: String

    init(_ text: String) { self.text = text }

    static func == (left: SchemaName, right: SchemaName) -> Bool { left.text.utf8.elementsEqual(right.text.utf8) }

    func hash(into hasher: inout Hasher) {
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}
