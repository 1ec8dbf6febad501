/// Gathers the heads of a response, and what comes behind them.
struct ResponseHeadBuffer: Sendable {
    /// What has come and is not part of an earlier head.
    private var bytes: [UInt8] = []
    /// How far the search for an empty line has come, so that each byte is looked at once.
    private var searched = 0
    /// Where the present line begins.
    private var lineStart = 0
    /// The bytes of earlier heads.
    private var taken = 0
    private let limitBytes: Int

    init(limitBytes: Int) { self.limitBytes = limitBytes }

    /// Takes bytes and gives the next head that is whole.
    mutating func receivedBytes(_ more: UnsafeRawBufferPointer) throws(WebSocketHandshakeError) -> ResponseHead? {
        bytes.append(contentsOf: more)
        while searched < bytes.count, taken + searched < limitBytes {
            let byte = bytes[searched]
            searched += 1
            guard byte == 0x0A else { continue }
            let line = bytes[lineStart..<searched]
            // CRLF or LF alone ends the head, anywhere but at its start.
            let isEmpty = line.count == 1 || line.count == 2 && line.first == 0x0D
            guard isEmpty else {
                lineStart = searched
                continue
            }
            let head = try ResponseHead(parsing: bytes[..<lineStart])
            taken += searched
            bytes.removeFirst(searched)
            (searched, lineStart) = (0, 0)
            return head
        }
        guard taken + searched < limitBytes else { throw .headTooLarge(limitBytes: limitBytes) }
        return nil
    }

    /// What has come behind the last head.
    mutating func takeRest() -> [UInt8] {
        defer { bytes = [] }
        return bytes
    }
}
