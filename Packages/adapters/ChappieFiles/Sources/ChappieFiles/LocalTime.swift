public import ChappieCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

@_spi(ChappieInternals) extension Date {
    /// Returns the time as strftime(3) formats it in the machine's time zone, such as `%Y-%m-%d %H:%M`. A time outside
    /// of the years 1 to 9999 is unknown.
    public func local(_ format: String) -> String {
        let unknown = "an unknown time"
        guard var seconds = time_t(exactly: timeIntervalSince1970.rounded(.down)) else { return unknown }
        var parts = tm()
        guard localtime_r(&seconds, &parts) != nil, (1...9999).contains(Int(parts.tm_year) + 1900) else {
            return unknown
        }
        var buffer = [CChar](repeating: 0, count: 64)
        let length = strftime(&buffer, buffer.count, format, &parts)
        return String(decoding: buffer[..<length].map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
