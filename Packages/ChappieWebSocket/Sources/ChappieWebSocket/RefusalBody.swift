@_spi(ChappieInternals) import ChappieCurl
import HTTPTypes

/// The body of an answer other than 101 without its framing (RFC 9112, 6.3 and 7.1), up to a limit: it says why the server
/// refused, and no one reads a page of a megabyte for that.
struct RefusalBody: Sendable {
    /// After this many bytes the body counts as complete, and the connection is closed.
    static let limitBytes = 64 << 10
    /// A chunk's size with its extensions, which are skipped.
    private static let maximumSizeLineBytes = 1024

    private enum Framing { case counted, chunked, untilClose }

    private let framing: Framing
    /// The bytes left of the chunk, or of a counted body.
    private var missing = 0
    /// The line end behind a chunk has not come.
    private var owesLineEnd = false
    /// The beginning of a line of a chunked body.
    private var line: [UInt8] = []
    private var taken = 0
    private(set) var isComplete = false

    /// - Throws: `.invalidBody` when the lengths in the head can't be understood or contradict each other.
    init(_ head: ResponseHead) throws(WebSocketHandshakeError) {
        let fields = head.headerFields
        let lengths = Set(
            fields[values: .contentLength].flatMap { $0.split(separator: ",", omittingEmptySubsequences: false) }
                .map { String($0.filter { $0 != " " && $0 != "\t" }) })
        if head.status.code == 204 || head.status.code == 304 {
            framing = .counted
            isComplete = true
        } else if !fields[values: .transferEncoding].isEmpty {
            // Any other last coding ends with the connection (RFC 9112, 6.3).
            framing = HeaderList.tokens(fields[values: .transferEncoding]).last == "chunked" ? .chunked : .untilClose
        } else if let length = lengths.first {
            guard lengths.count == 1, length.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let count = Int(length)
            else { throw .invalidBody }
            framing = .counted
            missing = count
            isComplete = count == 0
        } else {
            framing = .untilClose
        }
    }

    /// Takes bytes in any chunking and gives those of the body; what comes behind its end is dropped.
    ///
    /// - Throws: `.invalidBody`.
    mutating func receivedBytes(_ bytes: some Sequence<UInt8>) throws(WebSocketHandshakeError) -> [UInt8] {
        var body: [UInt8] = []
        for byte in bytes where !isComplete {
            if framing == .untilClose || missing > 0 {
                body.append(byte)
                taken += 1
                missing = max(0, missing - 1)
                if framing == .chunked, missing == 0 { owesLineEnd = true }
                isComplete = taken == Self.limitBytes || framing == .counted && missing == 0
            } else if byte != 0x0A {
                let mayBelong = owesLineEnd ? line.isEmpty && byte == 0x0D : line.count < Self.maximumSizeLineBytes
                guard mayBelong else { throw .invalidBody }
                line.append(byte)
            } else {
                if line.last == 0x0D { line.removeLast() }
                try endLine()
                line = []
            }
        }
        return body
    }

    /// The line behind a chunk is empty; one before it gives its size in hexadecimal digits (RFC 9112, 7.1.1). The chunk of
    /// size 0 is the last; trailers say nothing here.
    private mutating func endLine() throws(WebSocketHandshakeError) {
        if owesLineEnd {
            owesLineEnd = false
            return
        }
        let digits =
            String(decoding: line.prefix { $0 != UInt8(ascii: ";") }, as: UTF8.self)
            .split(whereSeparator: { $0 == " " || $0 == "\t" }).first ?? ""
        guard digits.utf8.count <= 15, digits.allSatisfy(\.isHexDigit), let size = Int(digits, radix: 16) else {
            throw .invalidBody
        }
        missing = size
        isComplete = size == 0
    }

    /// The connection has ended.
    ///
    /// - Throws: `.connectionClosed` when more was announced.
    mutating func connectionClosed() throws(WebSocketHandshakeError) {
        guard isComplete || framing == .untilClose else { throw .connectionClosed }
        isComplete = true
    }
}
