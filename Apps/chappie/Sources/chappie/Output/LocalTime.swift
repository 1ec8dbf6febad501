import FoundationEssentials
import Glibc

extension Date {
    /// `2026-11-21 14:05` in the machine's time zone.
    var localMinute: String {
        var seconds = time_t(timeIntervalSince1970)
        var parts = tm()
        guard localtime_r(&seconds, &parts) != nil else { return formatted(.iso8601) }
        var buffer = [CChar](repeating: 0, count: 32)
        let length = strftime(&buffer, buffer.count, "%Y-%m-%d %H:%M", &parts)
        return String(decoding: buffer[..<length].map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
