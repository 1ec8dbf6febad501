/// Bytes as a test writes them down, and every way to cut them.
enum WireBytes {
    /// Hexadecimal digits; everything else is decoration.
    static func hex(_ text: String) -> [UInt8] {
        let digits = text.compactMap(\.hexDigitValue).map(UInt8.init)
        precondition(digits.count.isMultiple(of: 2), "half a byte in \(text)")
        return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
    }

    /// Calls `body` with the bytes whole, byte by byte, and cut in two at every point.
    static func forEachChunking(_ bytes: [UInt8], _ body: (_ chunks: [[UInt8]], _ label: String) throws -> Void)
        rethrows
    {
        try body([bytes], "whole")
        try body(bytes.map { [$0] }, "byte by byte")
        for cut in 0...bytes.count { try body([Array(bytes[..<cut]), Array(bytes[cut...])], "cut at \(cut)") }
    }
}
