/// Reads how long a server asks its clients to wait.
@_spi(ChappieInternals) public enum RetryAfter {
    /// The value of `Retry-After` (RFC 9110, 10.2.3): seconds, or an HTTP date in any of its three forms (5.6.7).
    ///
    /// - Returns: seconds from `now`, never negative; `nil` when the value is neither.
    public static func seconds(_ value: String, now: Date) -> TimeInterval? {
        let number = value.split(separator: " ")
        if number.count == 1, number[0].first?.isNumber == true, let seconds = Double(number[0]), seconds.isFinite {
            return seconds
        }
        let words = value.split(whereSeparator: { " ,-".contains($0) }).map(String.init)
        var date: Date?
        if words.count == 6 {
            // Two digits stand for the hundred years around 2000, as in `Sunday, 06-Nov-94 08:49:37 GMT`.
            let century = words[3].utf8.count > 2 ? "" : words[3] < "70" ? "20" : "19"
            date = HTTPDate.imfFixdate("Day, \(words[1]) \(words[2]) \(century)\(words[3]) \(words[4]) \(words[5])")
        } else if words.count == 5 {
            // `Sun Nov  6 08:49:37 1994`
            let day = words[2].utf8.count == 1 ? "0\(words[2])" : words[2]
            date = HTTPDate.imfFixdate("Day, \(day) \(words[1]) \(words[4]) \(words[3]) GMT")
        }
        return date.map { max($0.timeIntervalSince(now), 0) }
    }

    /// The pause that a message names, as in "Please try again in 1.5s.": seconds or milliseconds.
    public static func seconds(inMessage message: String) -> TimeInterval? {
        let message = message.lowercased()
        guard let phrase = message.firstRange(of: "try again in") else { return nil }
        let rest = message[phrase.upperBound...].drop(while: \.isWhitespace)
        let number = rest.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
        guard let value = Double(number), value.isFinite else { return nil }
        switch rest.dropFirst(number.count).drop(while: \.isWhitespace).prefix(while: \.isLetter) {
        case "s", "second", "seconds": return value
        case "ms", "millisecond", "milliseconds": return value / 1000
        default: return nil
        }
    }
}
