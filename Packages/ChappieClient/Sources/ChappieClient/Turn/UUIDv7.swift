import ChappieAuth
import FoundationEssentials

/// Time-ordered ids (RFC 9562, 5.7), as the backend's other clients use for sessions and threads.
enum UUIDv7 {
    static func make(now: Date, entropy: any Entropy) -> String {
        let milliseconds = UInt64(max(now.timeIntervalSince1970 * 1000, 0)) & 0xFFFF_FFFF_FFFF
        var bytes = (0..<6).map { UInt8(truncatingIfNeeded: milliseconds >> (8 * (5 - UInt64($0)))) }
        // Ids are no secrets: when the system has no random bytes to give, the time alone has to do.
        let random = (try? entropy.bytes(10)) ?? []
        bytes += random.prefix(10) + [UInt8](repeating: 0, count: 10 - random.prefix(10).count)
        bytes[6] = bytes[6] & 0x0F | 0x70
        bytes[8] = bytes[8] & 0x3F | 0x80
        let digits = bytes.map { byte in
            let text = String(byte, radix: 16)
            return text.count == 1 ? "0" + text : text
        }.joined()
        return [0..<8, 8..<12, 12..<16, 16..<20, 20..<32].map { range in
            String(digits.dropFirst(range.lowerBound).prefix(range.count))
        }.joined(separator: "-")
    }
}
