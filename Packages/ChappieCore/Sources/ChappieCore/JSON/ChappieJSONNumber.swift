/// A JSON number, kept as it was written, so that integers of any size survive a round trip.
public struct ChappieJSONNumber: Sendable, Hashable {
    /// The number in JSON's grammar (RFC 8259, 6).
    public let literal: String

    public init(_ value: Int) { literal = String(value) }

    /// - Returns: `nil` for NaN and the infinities, which JSON can't express.
    public init?(_ value: Double) {
        guard value.isFinite else { return nil }
        let integer = Int(exactly: value)
        literal = integer.map { String($0) } ?? String(describing: value)
    }

    /// Takes bytes that the parser has already checked against the grammar.
    init(checked literal: String) { self.literal = literal }

    /// The value, when it is an integer (also written `1.0` or `1e3`) that fits; exact, never rounded.
    public var int: Int? { Int(literal) ?? integerWithFractionOrExponent }
    /// The nearest double; `nil` when it is out of range.
    public var double: Double? { Double(literal).flatMap { $0.isFinite ? $0 : nil } }

    /// Works on the digits: by way of `Double`, `9007199254740993.0` would lose its last one.
    private var integerWithFractionOrExponent: Int? {
        let isNegative = literal.utf8.first == UInt8(ascii: "-")
        let parts = literal.utf8.dropFirst(isNegative ? 1 : 0).split {
            $0 == UInt8(ascii: "e") || $0 == UInt8(ascii: "E")
        }
        guard let mantissa = parts.first?.split(separator: UInt8(ascii: ".")) else { return nil }
        let fractionDigits = mantissa.count > 1 ? mantissa[1].count : 0
        let digits = mantissa.joined().map { $0 - UInt8(ascii: "0") }
        guard let last = digits.lastIndex(where: { $0 != 0 }) else { return 0 }
        guard let exponent = parts.count > 1 ? Int(Substring(parts[1])) : 0,
            exponent.magnitude <= literal.utf8.count + 19
        else { return nil }
        // The digits up to the last one that is not 0, and how many zeros follow those before the decimal point.
        let zeros = exponent - fractionDigits + (digits.count - 1 - last)
        guard zeros >= 0 else { return nil }
        var value = 0
        for index in 0...(last + zeros) {
            let (product, overflow) = value.multipliedReportingOverflow(by: 10)
            let (sum, carry) = product.subtractingReportingOverflow(index > last ? 0 : Int(digits[index]))
            guard !overflow, !carry else { return nil }
            value = sum
        }
        // Summed up below zero, where there is one more integer.
        return isNegative ? value : (value == .min ? nil : -value)
    }
}
