/// Takes access tokens out of a peer's words: a service, or a proxy before it, that repeats the request in its error must
/// not put the token before people, into logs, or into the hands of the host app.
enum TokenScrubber {
    static let mark = "‹redacted›"

    /// Shorter runs are words: "Bearer token missing".
    private static let shortest = 16

    /// `text` without anything that looks like a JSON Web Token (RFC 7519) or stands after "Bearer" (RFC 6750, 2.1). Looks
    /// at each byte a bounded number of times.
    static func clean(_ text: String) -> String {
        let bytes = Array(text.utf8)
        var output: [UInt8] = []
        output.reserveCapacity(bytes.count)
        var index = 0
        while index < bytes.count {
            let end = endOfToken(in: bytes, from: index)
            if end - index < shortest {
                output.append(bytes[index])
                index += 1
            } else {
                output += mark.utf8
                index = end
            }
        }
        return String(decoding: output, as: UTF8.self)
    }

    /// Where the token that begins at `start` ends; `start` where none begins.
    private static func endOfToken(in bytes: [UInt8], from start: Int) -> Int {
        let rest = bytes[start...]
        guard rest.starts(with: "eyJ".utf8) || follows(bearer, in: bytes, at: start) else { return start }
        return rest.firstIndex { !isTokenByte($0) } ?? bytes.count
    }

    private static let bearer = Array("bearer ".utf8)

    private static func follows(_ word: [UInt8], in bytes: [UInt8], at index: Int) -> Bool {
        index >= word.count && bytes[(index - word.count)..<index].elementsEqual(word) { $0 | 0x20 == $1 }
    }

    /// `b64token` of RFC 6750, 2.1, but for the padding.
    private static func isTokenByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: "-._~+/".utf8.contains(byte)
        }
    }
}
