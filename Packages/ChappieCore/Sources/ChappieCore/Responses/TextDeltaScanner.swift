/// Reads `response.output_text.delta`, the event of which there are thousands, without building a JSON tree.
///
/// It accepts only what it fully understands (a flat object of plain members) and leaves everything else to the real
/// parser, so that both always agree: measured at about a tenth of the parser's cost.
enum TextDeltaScanner {
    struct Delta: Equatable {
        var text: String
        var itemID: String?
    }

    /// - Returns: `nil` when the payload is another event, or not simple enough.
    static func scan(_ bytes: UnsafeBufferPointer<UInt8>) -> Delta? {
        var position = 0
        guard take(UInt8(ascii: "{"), bytes, &position) else { return nil }
        var isDelta = false
        var text: String?
        var itemID: String?
        repeat {
            guard let key = plainString(bytes, &position), take(UInt8(ascii: ":"), bytes, &position) else {
                return nil
            }
            if ByteScanner.equal(key, "type") {
                guard let type = plainString(bytes, &position), ByteScanner.equal(type, "response.output_text.delta")
                else {
                    return nil
                }
                isDelta = true
            } else if ByteScanner.equal(key, "delta") {
                guard isDelta, let (string, end) = JSONStringScanner.scan(bytes, from: position) else { return nil }
                text = string
                position = end
            } else if ByteScanner.equal(key, "item_id") {
                guard let id = plainString(bytes, &position) else { return nil }
                itemID = String(decoding: id, as: UTF8.self)
            } else if !skipPlainValue(bytes, &position) {
                return nil
            }
        } while take(UInt8(ascii: ","), bytes, &position)
        guard isDelta, let text, take(UInt8(ascii: "}"), bytes, &position), position == bytes.count else { return nil }
        return Delta(text: text, itemID: itemID)
    }

    private static func take(_ byte: UInt8, _ bytes: UnsafeBufferPointer<UInt8>, _ position: inout Int) -> Bool {
        skipSpace(bytes, &position)
        guard position < bytes.count, bytes[position] == byte else { return false }
        position += 1
        skipSpace(bytes, &position)
        return true
    }

    private static func skipSpace(_ bytes: UnsafeBufferPointer<UInt8>, _ position: inout Int) {
        while position < bytes.count, bytes[position] == 0x20 { position += 1 }
    }

    /// A string of printable ASCII without escapes.
    private static func plainString(
        _ bytes: UnsafeBufferPointer<UInt8>, _ position: inout Int
    ) -> UnsafeBufferPointer<UInt8>? {
        guard position < bytes.count, bytes[position] == UInt8(ascii: "\"") else { return nil }
        let start = position + 1
        let end = ByteScanner.endOfPlainText(bytes, from: start)
        guard end < bytes.count, bytes[end] == UInt8(ascii: "\"") else { return nil }
        position = end + 1
        return UnsafeBufferPointer(rebasing: bytes[start..<end])
    }

    /// A plain string, a natural number, `[]`, or `null`: what the other members of a delta are.
    private static func skipPlainValue(_ bytes: UnsafeBufferPointer<UInt8>, _ position: inout Int) -> Bool {
        guard position < bytes.count else { return false }
        switch bytes[position] {
        case UInt8(ascii: "\""): return plainString(bytes, &position) != nil
        case UInt8(ascii: "0"):
            position += 1
            return position < bytes.count && !isNumberPart(bytes[position])
        case UInt8(ascii: "1")...UInt8(ascii: "9"):
            while position < bytes.count, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(bytes[position]) {
                position += 1
            }
            return position < bytes.count && !isNumberPart(bytes[position])
        case UInt8(ascii: "["):
            return take(UInt8(ascii: "["), bytes, &position) && take(UInt8(ascii: "]"), bytes, &position)
        case UInt8(ascii: "n"):
            guard bytes.count - position >= 4,
                ByteScanner.equal(UnsafeBufferPointer(rebasing: bytes[position..<(position + 4)]), "null")
            else { return false }
            position += 4
            return true
        default: return false
        }
    }

    private static func isNumberPart(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "e"), UInt8(ascii: "E"): true
        default: false
        }
    }
}
