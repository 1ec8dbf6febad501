/// The layout of a frame's header (RFC 6455, 5.2).
enum FrameHeader {
    static let finalBit: UInt8 = 0x80
    static let maskBit: UInt8 = 0x80

    /// Bytes of the whole header, masking key and all; `nil` until the second byte is there.
    static func size(of start: [UInt8]) -> Int? {
        guard start.count >= 2 else { return nil }
        let extended =
            switch start[1] & 0x7F {
            case 126: 2
            case 127: 8
            default: 0
            }
        return 2 + extended + (start[1] & maskBit == 0 ? 0 : 4)
    }

    /// The length a whole header announces; `nil` when it doesn't fit in an `Int`.
    static func payloadLength(in header: [UInt8]) -> Int? {
        switch header[1] & 0x7F {
        case 126: Int(header[2]) << 8 | Int(header[3])
        case 127: Int(exactly: header[2..<10].reduce(UInt64(0)) { $0 << 8 | UInt64($1) })
        case let short: Int(short)
        }
    }
}
