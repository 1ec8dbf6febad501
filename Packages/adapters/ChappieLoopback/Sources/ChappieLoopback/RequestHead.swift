/// The head of a request as it arrives, up to and including its empty line (RFC 9112, 2.1).
struct RequestHead {
    enum Progress: Hashable { case unfinished, whole, tooLong }

    private let limit: Int
    private(set) var bytes: [UInt8] = []
    /// The number of bytes in the current line without carriage returns. A line feed without a carriage return also
    /// ends a line (RFC 9112, 2.2).
    private var lineCount = 0

    /// Creates an empty head.
    ///
    /// - Parameter limit: The maximum number of bytes in a head.
    init(limit: Int) { self.limit = limit }

    /// Takes the bytes up to the end of the head. Bytes that follow it are discarded, because a redirect has no body.
    mutating func received(_ piece: some Sequence<UInt8>) -> Progress {
        for byte in piece {
            guard bytes.count < limit else { return .tooLong }
            bytes.append(byte)
            switch byte {
            case UInt8(ascii: "\n") where lineCount == 0: return .whole
            case UInt8(ascii: "\n"): lineCount = 0
            case UInt8(ascii: "\r"): break
            default: lineCount += 1
            }
        }
        return .unfinished
    }
}
