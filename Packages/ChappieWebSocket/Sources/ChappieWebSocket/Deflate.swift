import CZlib

/// Decompresses the messages of one connection (RFC 7692, 7.2.2).
///
/// Output gathers in a fixed buffer of its own; the caller takes the buffer's content when it is full, so that the
/// size of what a message grows to is checked every 16 KiB.
struct Inflater: ~Copyable {
    private let stream: UnsafeMutablePointer<z_stream>
    private let buffer: UnsafeMutableRawBufferPointer
    /// How much of the buffer is filled.
    private var filled = 0
    /// The last block said that it was the final one, and nothing has come after it.
    private var streamEnded = false
    /// Whether anything of the present message has come.
    private var isInsideMessage = false

    static let bufferBytes = 16 << 10

    /// The bytes that RFC 7692, 7.2.1 takes from the end of every message.
    private static let tail: [UInt8] = [0x00, 0x00, 0xFF, 0xFF]

    /// - Parameter windowBits: as negotiated, 8 to 15. Peers whose deflate is zlib's use 9 when they are asked for 8.
    init(windowBits: Int) throws(WebSocketCodecError) {
        let stream = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)
        stream.initialize(to: z_stream())
        guard czlib_inflate_init_raw(stream, CInt(min(max(windowBits, 9), 15))) == Z_OK else {
            stream.deallocate()
            throw .outOfMemory
        }
        self.stream = stream
        buffer = .allocate(byteCount: Self.bufferBytes, alignment: 16)
    }

    deinit {
        inflateEnd(stream)
        stream.deallocate()
        buffer.deallocate()
    }

    /// Decompresses a piece of a message.
    ///
    /// - Parameters:
    ///   - endsMessage: this was its last piece.
    ///   - take: called each time the buffer is full; the bytes are valid inside.
    mutating func receivedBytes(
        _ bytes: UnsafeRawBufferPointer, endsMessage: Bool,
        take: (UnsafeRawBufferPointer) throws(WebSocketCodecError) -> Void
    ) throws(WebSocketCodecError) {
        if !bytes.isEmpty {
            isInsideMessage = true
            try inflateAll(bytes, take: take)
        }
        guard endsMessage else { return }
        // A message without a byte is an empty one, and one that ended in a final block has no place for the tail.
        if isInsideMessage, !streamEnded {
            try Self.tail.withUnsafeBufferPointer { bytes throws(WebSocketCodecError) in
                try inflateAll(UnsafeRawBufferPointer(bytes), take: take)
            }
            // Bits left over, or the middle of a block: the sender's message ended elsewhere.
            guard stream.pointee.data_type & 0x80 != 0, stream.pointee.data_type & 0x07 == 0 else {
                throw .invalidCompression
            }
        }
        isInsideMessage = false
    }

    /// Gives what the buffer holds and empties it.
    mutating func drain<Result>(
        _ body: (UnsafeRawBufferPointer) throws(WebSocketCodecError) -> Result
    ) throws(WebSocketCodecError) -> Result {
        let count = filled
        filled = 0
        return try body(UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(buffer)[..<count]))
    }

    private mutating func inflateAll(
        _ bytes: UnsafeRawBufferPointer, take: (UnsafeRawBufferPointer) throws(WebSocketCodecError) -> Void
    ) throws(WebSocketCodecError) {
        // zlib only reads from there; its declaration lacks the const.
        let input = bytes.assumingMemoryBound(to: Bytef.self)
        stream.pointee.next_in = UnsafeMutablePointer(mutating: input.baseAddress)
        // Frames are bounded far below 4 GiB.
        stream.pointee.avail_in = uInt(clamping: bytes.count)
        defer { stream.pointee.next_in = nil }
        repeat {
            if filled == buffer.count { try drain(take) }
            if streamEnded {
                // RFC 7692, 7.2.3.4: what follows a final block may still refer to what was before it.
                inflateResetKeep(stream)
                streamEnded = false
            }
            let free = UnsafeMutableRawBufferPointer(rebasing: buffer[filled...]).assumingMemoryBound(to: Bytef.self)
            stream.pointee.next_out = free.baseAddress
            stream.pointee.avail_out = uInt(free.count)
            let status = inflate(stream, Z_SYNC_FLUSH)
            filled = buffer.count - Int(stream.pointee.avail_out)
            switch status {
            case Z_OK: break
            case Z_STREAM_END: streamEnded = true
            // Nothing more to be had from these bytes.
            case Z_BUF_ERROR: return
            case Z_MEM_ERROR: throw .outOfMemory
            default: throw .invalidCompression
            }
            // A full buffer may hide more output, but nothing hides behind the end of a stream.
        } while stream.pointee.avail_in > 0 || filled == buffer.count && !streamEnded
    }
}

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
