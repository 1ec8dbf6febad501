import HTTPTypes

extension ResponseHead {
    /// `HTTPFields` traps at 65,535, and no honest server sends a tenth of this.
    static let fieldLimit = 1000

    /// Reads a head without its final empty line.
    ///
    /// Strict where leniency has been abused: no folded lines (RFC 9112, 5.2), no space before a colon (5.1), no control
    /// characters. A line may end in LF alone (2.2).
    init(parsing bytes: ArraySlice<UInt8>) throws(WebSocketHandshakeError) {
        var lines = bytes.split(separator: 0x0A, omittingEmptySubsequences: false).map { line in
            line.last == 0x0D ? line.dropLast() : line
        }
        status = try Self.status(lines.removeFirst())
        headerFields = [:]
        for line in lines where !line.isEmpty {
            guard headerFields.count < Self.fieldLimit else {
                throw .invalidHead("its response head has over \(Self.fieldLimit) fields")
            }
            headerFields.append(try Self.field(line))
        }
    }

    private static func status(_ line: ArraySlice<UInt8>) throws(WebSocketHandshakeError) -> HTTPResponse.Status {
        let parts = line.split(separator: 0x20, maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count >= 2, parts[0].elementsEqual("HTTP/1.1".utf8) || parts[0].elementsEqual("HTTP/1.0".utf8),
            parts[1].count == 3, parts[1].allSatisfy({ (0x30...0x39).contains($0) }), line.allSatisfy(isText)
        else { throw .invalidHead("its status line can't be understood") }
        let code = parts[1].reduce(0) { $0 * 10 + Int($1 - 0x30) }
        guard (100...599).contains(code) else { throw .invalidHead("its status line can't be understood") }
        guard code != 101 || parts[0].last == UInt8(ascii: "1") else {
            throw .invalidHead("it switched protocols in HTTP/1.0, which knows no such thing")
        }
        return HTTPResponse.Status(
            code: code, reasonPhrase: parts.count == 3 ? String(decoding: parts[2], as: UTF8.self) : "")
    }

    private static func field(_ line: ArraySlice<UInt8>) throws(WebSocketHandshakeError) -> HTTPField {
        guard let colon = line.firstIndex(of: UInt8(ascii: ":")),
            let name = HTTPField.Name(String(decoding: line[..<colon], as: UTF8.self)), line.allSatisfy(isText)
        else { throw .invalidHead("one of its header fields can't be understood") }
        var value = line[(colon + 1)...].drop(while: isSpace)
        while let last = value.last, isSpace(last) { value.removeLast() }
        return HTTPField(name: name, lenientValue: value)
    }

    private static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }

    private static func isText(_ byte: UInt8) -> Bool { byte >= 0x20 && byte != 0x7F || byte == 0x09 }
}
