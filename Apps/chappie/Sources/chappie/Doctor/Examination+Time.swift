import FoundationEssentials
import Glibc

extension Examination {
    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    /// A moment in GMT as servers and OpenSSL write it: `Sat, 21 Nov 2026 05:37:32 GMT`, `Nov 21 05:37:32 2026 GMT`.
    static func moment(_ text: String) -> Date? {
        var parts = tm()
        var found = Set<String>()
        for word in text.split(whereSeparator: { $0 == " " || $0 == "," }) {
            if let month = months.firstIndex(of: String(word)) {
                parts.tm_mon = CInt(month)
                found.insert("month")
            } else if word.contains(":") {
                let clock = word.split(separator: ":").compactMap { CInt($0) }
                guard clock.count == 3 else { return nil }
                (parts.tm_hour, parts.tm_min, parts.tm_sec) = (clock[0], clock[1], clock[2])
                found.insert("time")
            } else if let number = CInt(word) {
                if number > 31 { parts.tm_year = number - 1900 } else { parts.tm_mday = number }
                found.insert(number > 31 ? "year" : "day")
            }
        }
        guard found.count == 4 else { return nil }
        return Date(timeIntervalSince1970: TimeInterval(timegm(&parts)))
    }
}
