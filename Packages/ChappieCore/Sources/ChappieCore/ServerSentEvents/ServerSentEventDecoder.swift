/// One event of an event stream (WHATWG HTML, 9.2).
public struct ServerSentEvent: Sendable, Hashable {
    /// The `event` field; `message` when there was none.
    public var type: String
    /// The `data` fields, joined by line feeds; bytes that are not UTF-8 show as U+FFFD.
    public var data: String
    /// The last `id` field seen so far in the stream; empty when there was none.
    public var lastEventID: String

    /// An event with the given fields.
    public init(type: String = "message", data: String, lastEventID: String = "") {
        self.type = type
        self.data = data
        self.lastEventID = lastEventID
    }
}

/// An event stream that can't be decoded any further.
public enum ServerSentEventError: Error, Sendable, Hashable {
    /// One event, or one line, is over the limit.
    case eventTooLarge(limitBytes: Int)
}

extension ServerSentEventError: LocalizedError {
    public var errorDescription: String? {
        switch self {
        case .eventTooLarge(let limit): "The server sent a single event of more than \(limit) bytes."
        }
    }
}

/// Decodes an event stream (WHATWG HTML, 9.2.6 "Interpreting an event stream") from bytes in any chunking.
///
/// Lines end in CR, LF or CRLF; a byte order mark at the start and comments are dropped; `data` lines are joined. One
/// departure from the standard: an event whose closing blank line is missing at the end of the stream is delivered,
/// because servers do leave it out. Linear in time; keeps at most one event in memory.
///
/// ```swift
/// var decoder = ServerSentEventDecoder()
/// let events = try decoder.receivedBytes(Array("data: hello\n\n".utf8))   // one event, "hello"
/// let last = try decoder.connectionClosed()                               // what was left without its blank line
/// ```
public struct ServerSentEventDecoder: Sendable {
    /// 64 MiB.
    public static let defaultMaximumEventBytes = 64 << 20

    private let limit: Int
    /// The first line may begin with a byte order mark.
    private var isFirstLine = true
    /// The beginning of a line whose end has not been received.
    private var pendingLine: [UInt8] = []
    /// The last line ended in CR, so that a LF right after it belongs to that ending.
    private var skipsLineFeed = false
    private var data: [UInt8] = []
    private var hasData = false
    private var type: [UInt8] = []
    private var lastEventID: [UInt8] = []
    private var failure: ServerSentEventError?

    private static let byteOrderMark: [UInt8] = [0xEF, 0xBB, 0xBF]
    /// Buffers larger than this are given back after the event that needed them.
    private static let keptCapacity = 1 << 20

    /// - Parameter maximumEventBytes: bound for the data of one event, line feeds between its lines included, and for
    ///   the value of every other field; comments and unknown fields may be 8 bytes longer as a whole line. At least 1.
    public init(maximumEventBytes: Int = ServerSentEventDecoder.defaultMaximumEventBytes) {
        // The upper end leaves room for sums.
        limit = min(max(maximumEventBytes, 1), .max / 2)
    }

    /// Takes the next bytes and gives the events that they complete.
    ///
    /// - Throws: ``ServerSentEventError/eventTooLarge(limitBytes:)``, again on every later call. Events that came whole
    ///   before the one that is too large are given first; the error is then thrown by the next call.
    public mutating func receivedBytes(_ bytes: [UInt8]) throws(ServerSentEventError) -> [ServerSentEvent] {
        var events: [ServerSentEvent] = []
        do { try receivedBytes(bytes) { events.append($0.event) } } catch {
            if events.isEmpty { throw error }
        }
        return events
    }

    /// Ends the stream and gives the event that was left without its blank line, if there is one.
    ///
    /// - Throws: ``ServerSentEventError/eventTooLarge(limitBytes:)``.
    public mutating func connectionClosed() throws(ServerSentEventError) -> [ServerSentEvent] {
        var events: [ServerSentEvent] = []
        try connectionClosed { events.append($0.event) }
        return events
    }

    // MARK: Without copies, for the decoders above

    /// An event while it is being delivered; valid only inside the closure it is passed to.
    struct Dispatched {
        let data: UnsafeBufferPointer<UInt8>
        fileprivate let type: [UInt8]
        fileprivate let lastEventID: [UInt8]

        fileprivate var event: ServerSentEvent {
            ServerSentEvent(
                type: type.isEmpty ? "message" : String(decoding: type, as: UTF8.self),
                data: String(decoding: data, as: UTF8.self),
                lastEventID: String(decoding: lastEventID, as: UTF8.self))
        }
    }

    mutating func receivedBytes(
        _ bytes: [UInt8], deliver: (Dispatched) -> Void
    ) throws(ServerSentEventError) {
        if let failure { throw failure }
        let failed = bytes.withUnsafeBufferPointer { readLines($0, deliver: deliver) }
        try fail(with: failed)
    }

    mutating func connectionClosed(deliver: (Dispatched) -> Void) throws(ServerSentEventError) {
        if let failure { throw failure }
        let line = pendingLine
        pendingLine = []
        var failed: ServerSentEventError?
        if !line.isEmpty { failed = line.withUnsafeBufferPointer { readLine($0, deliver: deliver) } }
        if failed == nil { dispatch(deliver) }
        try fail(with: failed)
    }

    private mutating func fail(with error: ServerSentEventError?) throws(ServerSentEventError) {
        guard let error else { return }
        failure = error
        pendingLine = []
        data = []
        throw error
    }

    // MARK: Bytes to lines

    /// - Returns: the error that ends decoding, or `nil`.
    private mutating func readLines(
        _ bytes: UnsafeBufferPointer<UInt8>, deliver: (Dispatched) -> Void
    ) -> ServerSentEventError? {
        // An empty chunk must not look like the byte after a CR.
        guard let base = bytes.baseAddress, !bytes.isEmpty else { return nil }
        var position = 0
        if skipsLineFeed {
            skipsLineFeed = false
            if bytes[0] == UInt8(ascii: "\n") { position = 1 }
        }
        // Where the next LF is, looked up once per LF: a stream of bare CRs must not scan its rest again for each line.
        var feed = -1
        while position < bytes.count {
            if feed < position {
                feed = ByteScanner.find(UInt8(ascii: "\n"), base, from: position, to: bytes.count) ?? bytes.count
            }
            let (end, next) = lineEnd(base, from: position, feed: feed, count: bytes.count)
            guard let end else {
                let tail = UnsafeBufferPointer(start: base + position, count: bytes.count - position)
                guard allowsLine(with: tail) else { return tooLarge }
                pendingLine.append(contentsOf: tail)
                return nil
            }
            let piece = UnsafeBufferPointer(start: base + position, count: end - position)
            if let error = readLineEnding(with: piece, deliver: deliver) { return error }
            position = next
        }
        return nil
    }

    /// Room for a field's name, its colon and its space in the bound for a line.
    private static let fieldAllowance = 8

    /// Whether the line is within its bound when `piece` follows what is pending; a byte order mark does not count.
    private func allowsLine(with piece: UnsafeBufferPointer<UInt8>) -> Bool {
        let hasMark =
            isFirstLine && (pendingLine.isEmpty ? Array(piece.prefix(3)) : pendingLine).starts(with: Self.byteOrderMark)
        return pendingLine.count + piece.count <= limit + Self.fieldAllowance + (hasMark ? 3 : 0)
    }

    private var tooLarge: ServerSentEventError { .eventTooLarge(limitBytes: limit) }

    /// The end of the line that begins at `from`, and where the next one begins; `feed` is the next LF, or `count`.
    private mutating func lineEnd(
        _ base: UnsafePointer<UInt8>, from: Int, feed: Int, count: Int
    ) -> (end: Int?, next: Int) {
        guard let carriage = ByteScanner.find(UInt8(ascii: "\r"), base, from: from, to: feed) else {
            return feed < count ? (feed, feed + 1) : (nil, count)
        }
        if carriage + 1 == count {
            skipsLineFeed = true
            return (carriage, count)
        }
        return (carriage, base[carriage + 1] == UInt8(ascii: "\n") ? carriage + 2 : carriage + 1)
    }

    private mutating func readLineEnding(
        with piece: UnsafeBufferPointer<UInt8>, deliver: (Dispatched) -> Void
    ) -> ServerSentEventError? {
        guard !pendingLine.isEmpty else { return readLine(piece, deliver: deliver) }
        guard allowsLine(with: piece) else { return tooLarge }
        var line: [UInt8] = []
        swap(&line, &pendingLine)
        line.append(contentsOf: piece)
        let error = line.withUnsafeBufferPointer { readLine($0, deliver: deliver) }
        if line.capacity <= Self.keptCapacity {
            line.removeAll(keepingCapacity: true)
            swap(&line, &pendingLine)
        }
        return error
    }

    // MARK: Lines to events

    private mutating func readLine(
        _ line: UnsafeBufferPointer<UInt8>, deliver: (Dispatched) -> Void
    ) -> ServerSentEventError? {
        var line = line
        if isFirstLine {
            isFirstLine = false
            if line.starts(with: Self.byteOrderMark) { line = UnsafeBufferPointer(rebasing: line.dropFirst(3)) }
        }
        guard let base = line.baseAddress, !line.isEmpty else {
            dispatch(deliver)
            return nil
        }
        // The same for a line that came in one chunk as for one that was put together.
        guard line.count <= limit + Self.fieldAllowance else { return tooLarge }
        let colon = ByteScanner.find(UInt8(ascii: ":"), base, from: 0, to: line.count) ?? line.count
        guard colon > 0 else { return nil }
        var valueStart = min(colon + 1, line.count)
        if valueStart < line.count, line[valueStart] == UInt8(ascii: " ") { valueStart += 1 }
        let name = UnsafeBufferPointer(rebasing: line[..<colon])
        let value = UnsafeBufferPointer(rebasing: line[valueStart...])
        if ByteScanner.equal(name, "data") {
            guard data.count + value.count < limit + (hasData ? 0 : 1) else { return tooLarge }
            if hasData { data.append(UInt8(ascii: "\n")) }
            data.append(contentsOf: value)
            hasData = true
        } else if ByteScanner.equal(name, "event") {
            guard value.count <= limit else { return tooLarge }
            type.removeAll(keepingCapacity: true)
            type.append(contentsOf: value)
        } else if ByteScanner.equal(name, "id"), !value.contains(0) {
            guard value.count <= limit else { return tooLarge }
            lastEventID = Array(value)
        }
        // `retry` and unknown fields: reconnecting is decided above, by policy.
        return nil
    }

    private mutating func dispatch(_ deliver: (Dispatched) -> Void) {
        guard hasData else { return giveBackType() }
        hasData = false
        data.withUnsafeBufferPointer { deliver(Dispatched(data: $0, type: type, lastEventID: lastEventID)) }
        if data.capacity > Self.keptCapacity { data = [] } else { data.removeAll(keepingCapacity: true) }
        giveBackType()
    }

    private mutating func giveBackType() {
        guard !type.isEmpty else { return }
        if type.capacity > Self.keptCapacity { type = [] } else { type.removeAll(keepingCapacity: true) }
    }
}
