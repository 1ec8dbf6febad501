import CZlib

/// Compresses the messages of one connection (RFC 7692, 7.2.1).
struct Deflater: ~Copyable {
    private let stream: UnsafeMutablePointer<z_stream>

    /// The window that zlib can keep to without a header; with 8 bits nothing is compressed.
    static let windowBits = 9...15

    /// zlib's fast levels: a request is JSON, which shrinks well at any level.
    private static let level: CInt = 3
    private static let memoryLevel: CInt = 8

    /// - Parameter windowBits: as negotiated.
    /// - Returns: `nil` outside ``windowBits``, or without memory; messages can be sent as they are then.
    static func make(windowBits: Int) -> Deflater? {
        guard Self.windowBits.contains(windowBits) else { return nil }
        let stream = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)
        stream.initialize(to: z_stream())
        guard czlib_deflate_init_raw(stream, level, CInt(windowBits), memoryLevel) == Z_OK else {
            stream.deallocate()
            return nil
        }
        return Deflater(stream: stream)
    }

    private init(stream: UnsafeMutablePointer<z_stream>) { self.stream = stream }

    deinit {
        deflateEnd(stream)
        stream.deallocate()
    }

    /// How many bytes ``compress(_:into:)`` may need for a message of that many.
    func bound(_ byteCount: Int) -> Int {
        // The bound is for a whole stream; a flush adds an empty block, and what was pending of the one before it.
        Int(deflateBound(stream, uLong(byteCount))) + 16
    }

    /// Compresses one message.
    ///
    /// - Parameters:
    ///   - message: not empty, less than 4 GiB.
    ///   - output: of at least ``bound(_:)`` bytes.
    /// - Returns: how many bytes were written, without the four that RFC 7692 takes away.
    mutating func compress(_ message: UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer) -> Int {
        let input = message.assumingMemoryBound(to: Bytef.self)
        stream.pointee.next_in = UnsafeMutablePointer(mutating: input.baseAddress)
        stream.pointee.avail_in = uInt(message.count)
        stream.pointee.next_out = output.assumingMemoryBound(to: Bytef.self).baseAddress
        stream.pointee.avail_out = uInt(output.count)
        let status = deflate(stream, Z_SYNC_FLUSH)
        stream.pointee.next_in = nil
        let written = output.count - Int(stream.pointee.avail_out)
        // With room to spare, zlib has neither a reason nor a right to stop early.
        precondition(status == Z_OK && stream.pointee.avail_in == 0 && written >= 4, "deflate stopped early")
        return written - 4
    }
}
