import HTTPTypes

/// Takes the framing from the body of an HTTP/1.1 response (RFC 9112, 6.3 and 7.1). Holds no body; that is bounded by
/// whoever keeps it.
struct ResponseBodyDecoder: Sendable {
    private enum State: Sendable {
        /// That many bytes are to come. → complete.
        case counted(UInt64)
        /// → complete when the connection ends.
        case untilClose
        /// The line of digits before a chunk, with what has come of it. → chunk, trailer.
        case chunkSize([UInt8])
        /// That many bytes of a chunk are to come. → chunkEnd.
        case chunk(UInt64)
        /// The line end behind a chunk. → chunkSize.
        case chunkEnd(sawReturn: Bool)
        /// Lines behind the last chunk; how long the present one is, and how many bytes there were. → complete.
        case trailer(lineBytes: Int, bytes: Int)
        case complete
    }

    private var state: State

    /// A chunk's size with its extensions, which nobody uses.
    private static let maximumSizeLineBytes = 1024
    private static let maximumTrailerBytes = 16 << 10

    /// - Throws: `.invalidBody` when the lengths in the head can't be understood or contradict each other.
    init(_ head: ResponseHead) throws(WebSocketHandshakeError) {
        let codings = HeaderList.tokens(head.headerFields[values: .transferEncoding])
        let lengths = Set(
            head.headerFields[values: .contentLength]
                .flatMap { $0.split(separator: ",", omittingEmptySubsequences: false) }
                .map { String($0.filter { $0 != " " && $0 != "\t" }) })
        if head.status.code == 204 || head.status.code == 304 {
            state = .complete
        } else if !head.headerFields[values: .transferEncoding].isEmpty {
            // Any other last coding ends with the connection (RFC 9112, 6.3).
            state = codings.last == "chunked" ? .chunkSize([]) : .untilClose
        } else if lengths.isEmpty {
            state = .untilClose
        } else {
            guard lengths.count == 1, let length = lengths.first,
                length.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
                let count = UInt64(length)
            else { throw .invalidBody }
            state = count == 0 ? .complete : .counted(count)
        }
    }

    /// Nothing more is to come.
    var isComplete: Bool {
        if case .complete = state { true } else { false }
    }

    /// Takes bytes in any chunking and gives those of the body; what comes behind the end is dropped.
    ///
    /// - Throws: `.invalidBody`.
    mutating func receivedBytes(_ bytes: UnsafeRawBufferPointer) throws(WebSocketHandshakeError) -> [UInt8] {
        var body: [UInt8] = []
        var rest = bytes[...]
        while !rest.isEmpty, !isComplete {
            switch state {
            case .counted(let missing):
                let left = Self.take(missing, from: &rest, into: &body)
                state = left == 0 ? .complete : .counted(left)
            case .untilClose:
                body.append(contentsOf: rest)
                rest = rest.suffix(0)
            case .chunk(let missing):
                let left = Self.take(missing, from: &rest, into: &body)
                state = left == 0 ? .chunkEnd(sawReturn: false) : .chunk(left)
            case .chunkSize, .chunkEnd, .trailer, .complete:
                state = try next(rest.removeFirst())
            }
        }
        return body
    }

    /// The connection has ended.
    ///
    /// - Throws: `.connectionClosed` when more was announced.
    mutating func connectionClosed() throws(WebSocketHandshakeError) {
        switch state {
        case .complete: return
        case .untilClose: state = .complete
        default: throw .connectionClosed
        }
    }

    private static func take(
        _ missing: UInt64, from rest: inout Slice<UnsafeRawBufferPointer>, into body: inout [UInt8]
    ) -> UInt64 {
        let piece = rest.prefix(Int(min(missing, UInt64(rest.count))))
        body.append(contentsOf: piece)
        rest = rest.dropFirst(piece.count)
        return missing - UInt64(piece.count)
    }

    /// The state after one byte of the lines around chunks.
    private func next(_ byte: UInt8) throws(WebSocketHandshakeError) -> State {
        switch (state, byte) {
        case (.chunkSize(let line), 0x0A):
            let size = try Self.chunkSize(line)
            return size == 0 ? .trailer(lineBytes: 0, bytes: 0) : .chunk(size)
        case (.chunkSize(let line), _):
            guard line.count < Self.maximumSizeLineBytes else { throw .invalidBody }
            return .chunkSize(line + [byte])
        case (.chunkEnd(sawReturn: false), 0x0D): return .chunkEnd(sawReturn: true)
        case (.chunkEnd, 0x0A): return .chunkSize([])
        case (.trailer(lineBytes: 0, _), 0x0A): return .complete
        case (.trailer(_, let bytes), 0x0A): return .trailer(lineBytes: 0, bytes: bytes + 1)
        case (.trailer(let lineBytes, let bytes), _):
            guard bytes < Self.maximumTrailerBytes else { throw .invalidBody }
            return .trailer(lineBytes: byte == 0x0D ? lineBytes : lineBytes + 1, bytes: bytes + 1)
        default: throw .invalidBody
        }
    }

    /// Hexadecimal digits; extensions behind a semicolon are skipped (RFC 9112, 7.1.1).
    private static func chunkSize(_ line: [UInt8]) throws(WebSocketHandshakeError) -> UInt64 {
        var digits = line.prefix { $0 != UInt8(ascii: ";") }
        while let last = digits.last, last == 0x0D || last == 0x20 || last == 0x09 { digits.removeLast() }
        guard !digits.isEmpty, digits.count <= 15, digits.allSatisfy({ Unicode.Scalar($0).properties.isASCIIHexDigit }),
            let size = UInt64(String(decoding: digits, as: UTF8.self), radix: 16)
        else { throw .invalidBody }
        return size
    }
}
