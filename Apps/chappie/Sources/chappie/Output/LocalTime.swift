import FoundationEssentials
import Glibc

extension Date {
    /// `2026-11-21 14:05` in the machine's time zone.
    var localMinute: String {
        guard var seconds = time_t(exactly: timeIntervalSince1970.rounded(.down)) else { return "a time unknown" }
        var parts = tm()
        guard localtime_r(&seconds, &parts) != nil else { return "a time unknown" }
        var buffer = [CChar](repeating: 0, count: 32)
        let length = strftime(&buffer, buffer.count, "%Y-%m-%d %H:%M", &parts)
        return String(decoding: buffer[..<length].map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
