/// Functions that read how long a server asks its clients to wait.
@_spi(ChappieInternals) public enum RetryAfter {
    /// The longest pause, which is some 30 years. A longer pause can't be added to a date.
    private static let longest: TimeInterval = 1e9

    /// Parses the value of `Retry-After` (RFC 9110, 10.2.3), which is a number of seconds, or an HTTP date in any of
    /// its three forms (5.6.7).
    ///
    /// - Returns: The seconds from `now`, never negative, or `nil` if the value is neither.
    public static func seconds(_ value: String, now: Date) -> TimeInterval? {
        let number = value.split(separator: " ")
        if number.count == 1, number[0].first?.isNumber == true, let seconds = Double(number[0]), seconds.isFinite {
            return min(seconds, longest)
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

    /// Returns the pause that a message specifies, as in "Please try again in 1.5s." or "try again in 1h2m3s".
    public static func seconds(inMessage message: String) -> TimeInterval? {
        let message = message.lowercased()
        guard let phrase = message.firstRange(of: "try again in") else { return nil }
        var rest = message[phrase.upperBound...]
        var sum: TimeInterval?
        while true {
            rest = rest.drop { $0.isWhitespace || $0 == "," }
            let number = rest.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
            rest = rest.dropFirst(number.count).drop(while: \.isWhitespace)
            let unit = rest.prefix(while: \.isLetter)
            guard let value = Double(number), let seconds = seconds(in: unit) else { return sum }
            sum = min((sum ?? 0) + value * seconds, longest)
            rest = rest.dropFirst(unit.count)
        }
    }

    /// Returns the length in seconds of the unit of time with this name or symbol.
    private static func seconds(in unit: Substring) -> TimeInterval? {
        switch unit {
        case "ms", "millisecond", "milliseconds": 0.001
        case "s", "sec", "secs", "second", "seconds": 1
        case "m", "min", "mins", "minute", "minutes": 60
        case "h", "hr", "hrs", "hour", "hours": 3600
        case "d", "day", "days": 86_400
        default: nil
        }
    }
}
