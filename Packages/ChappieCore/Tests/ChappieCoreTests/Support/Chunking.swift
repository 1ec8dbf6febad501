/// Every way a test cuts a stream into chunks.
enum Chunking {
    /// The bytes in chunks of `size`; the last one may be shorter.
    static func chunks(of bytes: [UInt8], size: Int) -> [[UInt8]] {
        stride(from: 0, to: bytes.count, by: size).map { Array(bytes[$0..<min($0 + size, bytes.count)]) }
    }

    /// Calls `body` with the bytes at every chunk size, then cut in two at every point (both ends included, so that
    /// empty chunks occur), each with a label for messages.
    static func forEach(_ bytes: [UInt8], _ body: (_ chunks: [[UInt8]], _ label: String) -> Void) {
        if bytes.isEmpty { body([], "no chunk") }
        for size in 1...max(bytes.count, 1) { body(chunks(of: bytes, size: size), "chunks of \(size)") }
        for cut in 0...bytes.count { body([Array(bytes[..<cut]), Array(bytes[cut...])], "cut at \(cut)") }
    }
}
