/// A decoder for an event stream (WHATWG HTML, 9.2.6 "Interpreting an event stream") from chunks of any size.
///
/// The decoder delivers only `data`, because the Responses API repeats everything else in it. The id and the pause that
/// a client needs to continue a stream are properties. Lines end in CR, LF or CRLF.
/// A byte order mark at the start is dropped. The `data` lines of an event are joined by line feeds. The decoder
/// deviates from the standard in one point. If the closing blank line of an event is missing at the end of the stream,
/// the event is delivered, because some servers omit it. Decoding takes linear time and keeps at most one event in
/// memory.
@_spi(ChappieInternals) public struct ServerSentEventDecoder: Sendable {
    /// Takes the data of one event, which is valid only during the call.
    public typealias Delivery = (UnsafeBufferPointer<UInt8>) -> Void

    /// The id of the last event, or `nil` if no event had one.
    public private(set) var lastEventID: String?
    /// The pause before the stream may be continued, in milliseconds, or `nil` if the server has not named one.
    public private(set) var retry: Int?
    private let limit: Int
    /// The id of the event that is not complete yet.
    private var pendingID: String?
    /// Whether the next line is the first, which may begin with a byte order mark.
    private var isFirstLine = true
    /// The bytes of a line whose end has not been received.
    private var pendingLine: [UInt8] = []
    /// Whether the last line ended in CR, so that an LF right after it belongs to the same line end.
    private var skipsLineFeed = false
    private var data: [UInt8] = []
    private var hasData = false
    private var hasFailed = false

    /// The number of bytes by which a line may exceed the limit, for a byte order mark, the name of a field, its colon
    /// and its space.
    private static let lineAllowance = 11
    /// The number of bytes of a line that is not `data` that are read.
    private static let positionLimit = 512
    /// The size of the largest buffer that is kept. A larger one is released after the event that needed it.
    private static let keptCapacity = 1 << 20

    /// Creates a decoder.
    ///
    /// - Parameter maximumEventBytes: The limit for the data of one event, including the line feeds between its lines.
    ///   Any other line may be 11 bytes longer. At least 1.
    public init(maximumEventBytes: Int) {
        // The upper bound leaves room for sums.
        limit = min(max(maximumEventBytes, 1), .max / 2)
    }

    /// Takes the next bytes and delivers the events that they complete.
    ///
    /// - Throws: ``ResponsesStreamError/eventTooLarge(limitBytes:)``. Every later call throws it again.
    public mutating func receivedBytes(_ bytes: [UInt8], deliver: Delivery) throws(ResponsesStreamError) {
        guard !hasFailed else { throw tooLarge() }
        try bytes.withUnsafeBufferPointer { bytes throws(ResponsesStreamError) in try readLines(bytes, deliver) }
    }

    /// Ends the stream, and delivers an event whose blank line is missing, if there is one.
    public mutating func connectionClosed(deliver: Delivery) throws(ResponsesStreamError) {
        guard !hasFailed else { throw tooLarge() }
        if !pendingLine.isEmpty { try readPendingLine(deliver) }
        dispatch(deliver)
    }

    // MARK: Bytes to lines

    private mutating func readLines(
        _ bytes: UnsafeBufferPointer<UInt8>, _ deliver: Delivery
    ) throws(ResponsesStreamError) {
        // An empty chunk must not look like the byte after a CR.
        guard let first = bytes.first else { return }
        var position = skipsLineFeed && first == UInt8(ascii: "\n") ? 1 : 0
        skipsLineFeed = false
        while position < bytes.count {
            let end = ByteScanner.endOfLine(bytes, from: position)
            let piece = UnsafeBufferPointer(rebasing: bytes[position..<end])
            guard pendingLine.count + piece.count <= limit + Self.lineAllowance else { throw tooLarge() }
            if end == bytes.count {
                pendingLine.append(contentsOf: piece)
            } else if pendingLine.isEmpty {
                try readLine(piece, deliver)
            } else {
                pendingLine.append(contentsOf: piece)
                try readPendingLine(deliver)
            }
            position = end + 1
            guard end < bytes.count, bytes[end] == UInt8(ascii: "\r") else { continue }
            if position == bytes.count {
                skipsLineFeed = true
            } else if bytes[position] == UInt8(ascii: "\n") {
                position += 1
            }
        }
    }

    private mutating func readPendingLine(_ deliver: Delivery) throws(ResponsesStreamError) {
        let line = pendingLine
        pendingLine = []
        try line.withUnsafeBufferPointer { line throws(ResponsesStreamError) in try readLine(line, deliver) }
    }

    // MARK: Lines to events

    private mutating func readLine(
        _ line: UnsafeBufferPointer<UInt8>, _ deliver: Delivery
    ) throws(ResponsesStreamError) {
        var line = line[...]
        if isFirstLine, line.starts(with: [0xEF, 0xBB, 0xBF]) { line = line.dropFirst(3) }
        isFirstLine = false
        if line.isEmpty { return dispatch(deliver) }
        guard ByteScanner.equal(UnsafeBufferPointer(rebasing: line.prefix(4)), "data") else {
            // Most other lines name the type of an event.
            guard line.first == UInt8(ascii: "i") || line.first == UInt8(ascii: "r") else { return }
            return readPosition(String(decoding: line.prefix(Self.positionLimit), as: UTF8.self))
        }
        var value = line.dropFirst(4)
        if let colon = value.popFirst() {
            guard colon == UInt8(ascii: ":") else { return }
            if value.first == UInt8(ascii: " ") { value.removeFirst() }
        }
        guard data.count + value.count < limit + (hasData ? 0 : 1) else { throw tooLarge() }
        if hasData { data.append(UInt8(ascii: "\n")) }
        data.append(contentsOf: value)
        hasData = true
    }

    /// Reads a line that names the event's id or the pause. Comments and other fields are not used here.
    private mutating func readPosition(_ line: String) {
        let field = line.prefix { $0 != ":" }
        guard field == "id" || field == "retry" else { return }
        let value = line.dropFirst(field.count + 1).trimmed
        if field == "id" { pendingID = value } else { retry = Int(value) ?? retry }
    }

    private mutating func dispatch(_ deliver: Delivery) {
        lastEventID = pendingID ?? lastEventID
        guard hasData else { return }
        hasData = false
        data.withUnsafeBufferPointer(deliver)
        data.removeAll(keepingCapacity: data.capacity <= Self.keptCapacity)
    }

    private mutating func tooLarge() -> ResponsesStreamError {
        hasFailed = true
        pendingLine = []
        data = []
        return .eventTooLarge(limitBytes: limit)
    }
}

/// The error of a Responses stream that ended or failed before its terminal event.
public enum ResponsesStreamError: Error, Sendable, Hashable {
    /// The stream ended before `response.completed`, `.failed` or `.incomplete`. `eventsReceived` is the number of
    /// events before the end.
    case endedEarly(eventsReceived: Int)
    /// One event exceeds the limit.
    case eventTooLarge(limitBytes: Int)
}

extension ResponsesStreamError: ChappieError {
    public var errorDescription: String? {
        switch self {
        case .endedEarly(0): "The server closed the stream before it sent anything."
        case .endedEarly: "The server closed the stream before the answer was complete."
        case .eventTooLarge(let limit): "The server sent a single event of more than \(limit) bytes."
        }
    }
}
