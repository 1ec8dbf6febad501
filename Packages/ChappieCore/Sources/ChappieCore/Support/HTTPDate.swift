/// The two spellings of a moment on this wire, read without locale or trap.
@_spi(ChappieInternals) public enum HTTPDate {
    /// `2026-11-20T23:42:00Z`, with an optional fraction and offset (RFC 3339, 5.6).
    public static func rfc3339(_ text: String) -> Date? {
        let bytes = Array(text.utf8)
        guard (20...48).contains(bytes.count), bytes[4] == UInt8(ascii: "-"), bytes[7] == UInt8(ascii: "-"),
            [UInt8(ascii: "T"), UInt8(ascii: "t"), 0x20].contains(bytes[10]),
            let year = number(bytes[0..<4]), let month = number(bytes[5..<7]), let day = number(bytes[8..<10]),
            let time = timeOfDay(bytes[11..<19]), let rest = zone(bytes[19...]),
            let days = daysSinceEpoch(year: year, month: month, day: day)
        else { return nil }
        return Date(timeIntervalSince1970: Double(days * 86_400 + time - rest.offset) + rest.fraction)
    }

    /// `Fri, 20 Nov 2026 23:42:00 GMT` (RFC 9110, 5.6.7).
    public static func imfFixdate(_ text: String) -> Date? {
        let bytes = Array(text.utf8)
        guard bytes.count == 29, bytes[3] == UInt8(ascii: ","), text.hasSuffix(" GMT"),
            let day = number(bytes[5..<7]), let year = number(bytes[12..<16]), let time = timeOfDay(bytes[17..<25]),
            let month = months.firstIndex(where: { $0.utf8.elementsEqual(bytes[8..<11]) }),
            let days = daysSinceEpoch(year: year, month: month + 1, day: day)
        else { return nil }
        return Date(timeIntervalSince1970: Double(days * 86_400 + time))
    }

    /// `date` as RFC 3339 in UTC, whole seconds. Years outside 1970…9999 are clamped.
    public static func rfc3339Text(_ date: Date) -> String {
        let seconds = Int(min(max(date.timeIntervalSince1970, 0), 253_402_300_799))
        let (year, month, day) = civil(daysSinceEpoch: seconds / 86_400)
        let time = seconds % 86_400
        return "\(padded(year, 4))-\(padded(month, 2))-\(padded(day, 2))"
            + "T\(padded(time / 3600, 2)):\(padded(time / 60 % 60, 2)):\(padded(time % 60, 2))Z"
    }

    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    /// At most nine digits, so that nothing overflows.
    private static func number(_ digits: ArraySlice<UInt8>) -> Int? {
        guard (1...9).contains(digits.count) else { return nil }
        var value = 0
        for digit in digits {
            guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(digit) else { return nil }
            value = value * 10 + Int(digit - UInt8(ascii: "0"))
        }
        return value
    }

    private static func timeOfDay(_ bytes: ArraySlice<UInt8>) -> Int? {
        let start = bytes.startIndex
        guard bytes.count == 8, bytes[start + 2] == UInt8(ascii: ":"), bytes[start + 5] == UInt8(ascii: ":"),
            let hour = number(bytes[start..<(start + 2)]), let minute = number(bytes[(start + 3)..<(start + 5)]),
            let second = number(bytes[(start + 6)..<(start + 8)]), hour < 24, minute < 60, second <= 60
        else { return nil }
        return hour * 3600 + minute * 60 + second
    }

    private static func zone(_ bytes: ArraySlice<UInt8>) -> (fraction: Double, offset: Int)? {
        var rest = bytes
        var fraction = 0.0
        if rest.first == UInt8(ascii: ".") {
            let digits = rest.dropFirst().prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
            guard let value = number(digits.prefix(9)) else { return nil }
            fraction = (0..<digits.prefix(9).count).reduce(Double(value)) { value, _ in value / 10 }
            rest = rest.dropFirst(1 + digits.count)
        }
        if rest.count == 1, rest.first == UInt8(ascii: "Z") || rest.first == UInt8(ascii: "z") { return (fraction, 0) }
        let start = rest.startIndex
        guard rest.count == 6, rest[start + 3] == UInt8(ascii: ":"),
            let hours = number(rest[(start + 1)..<(start + 3)]), let minutes = number(rest[(start + 4)..<(start + 6)]),
            hours < 24, minutes < 60
        else { return nil }
        switch rest[start] {
        case UInt8(ascii: "+"): return (fraction, hours * 3600 + minutes * 60)
        case UInt8(ascii: "-"): return (fraction, -(hours * 3600 + minutes * 60))
        default: return nil
        }
    }

    /// The proleptic Gregorian calendar, counted in eras of 400 years that begin in March.
    private static func daysSinceEpoch(year: Int, month: Int, day: Int) -> Int? {
        guard (1970...9999).contains(year), (1...12).contains(month), (1...31).contains(day) else { return nil }
        let shifted = month <= 2 ? year - 1 : year
        let era = shifted / 400
        let yearOfEra = shifted - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }

    private static func civil(daysSinceEpoch days: Int) -> (year: Int, month: Int, day: Int) {
        let shifted = days + 719_468
        let era = shifted / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        let day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
        return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, day)
    }

    private static func padded(_ value: Int, _ width: Int) -> String {
        let digits = String(value)
        return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }
}

extension Duration {
    /// The duration for a sentence: `250 ms`, `2 s`, `1.5 s`, `3 min`. Rounded to milliseconds.
    ///
    /// Whole minutes are named from two on, since `60 s` is how limits are written.
    @_spi(ChappieInternals) public var words: String {
        let (seconds, attoseconds) = components
        let milliseconds = attoseconds / 1_000_000_000_000_000
        if milliseconds == 0 { return seconds >= 120 && seconds % 60 == 0 ? "\(seconds / 60) min" : "\(seconds) s" }
        if seconds == 0 { return "\(milliseconds) ms" }
        var digits = String(abs(milliseconds) + 1000).dropFirst()
        while digits.last == "0" { digits.removeLast() }
        return "\(seconds).\(digits) s"
    }
}
