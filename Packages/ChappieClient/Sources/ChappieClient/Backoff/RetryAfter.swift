import FoundationEssentials

/// Reads `Retry-After` (RFC 9110, 10.2.3): seconds, or an HTTP date in one of its three forms (5.6.7).
enum RetryAfter {
    /// Seconds from `now`, never negative; `nil` when the value is neither form.
    static func seconds(_ value: String, now: Date) -> TimeInterval? {
        let text = value.trimmingASCIISpace
        if let first = text.utf8.first, first >= UInt8(ascii: "0"), first <= UInt8(ascii: "9"),
            let seconds = Double(text), seconds.isFinite
        {
            return seconds
        }
        return date(text).map { max($0.timeIntervalSince(now), 0) }
    }

    /// `Sun, 06 Nov 1994 08:49:37 GMT`, `Sunday, 06-Nov-94 08:49:37 GMT` or `Sun Nov  6 08:49:37 1994`.
    static func date(_ text: String) -> Date? {
        let words = text.split(whereSeparator: { $0 == " " || $0 == "," || $0 == "-" }).map(String.init)
        switch words.count {
        case 6 where words[5] == "GMT": return date(day: words[1], month: words[2], year: words[3], time: words[4])
        case 5: return date(day: words[2], month: words[1], year: words[4], time: words[3])
        default: return nil
        }
    }

    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    private static func date(day: String, month: String, year: String, time: String) -> Date? {
        let clock = time.split(separator: ":", omittingEmptySubsequences: false).map { Int($0) }
        guard let day = Int(day), (1...31).contains(day), let month = months.firstIndex(of: month),
            var year = Int(year), (0...9999).contains(year), clock.count == 3,
            let hour = clock[0], let minute = clock[1], let second = clock[2],
            (0...23).contains(hour), (0...59).contains(minute), (0...60).contains(second)
        else { return nil }
        // Two digits: within the last century as seen from 2000, as RFC 850 dates are.
        if year < 100 { year += year < 70 ? 2000 : 1900 }
        let days = daysSinceEpoch(year: year, month: month + 1, day: day)
        return Date(timeIntervalSince1970: Double(days * 86_400 + hour * 3_600 + minute * 60 + second))
    }

    /// Days from 1970-01-01 in the proleptic Gregorian calendar.
    private static func daysSinceEpoch(year: Int, month: Int, day: Int) -> Int {
        let shifted = month <= 2 ? year - 1 : year
        let era = (shifted >= 0 ? shifted : shifted - 399) / 400
        let yearOfEra = shifted - era * 400
        let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }
}

extension String {
    /// Without spaces and tabs at either end.
    var trimmingASCIISpace: String {
        let isSpace: (Character) -> Bool = { $0 == " " || $0 == "\t" }
        return String(drop(while: isSpace).reversed().drop(while: isSpace).reversed())
    }
}
