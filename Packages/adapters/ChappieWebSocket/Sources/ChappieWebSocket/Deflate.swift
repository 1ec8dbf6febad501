import CZlib
import ChappieCore

/// A decompressor for the messages of one connection (RFC 7692, 7.2.2).
final class Inflater {
    private let stream: UnsafeMutablePointer<z_stream>
    /// Whether the final block of the stream has ended and no byte has followed it.
    private var streamEnded = false
    /// Whether a byte of the current message has arrived.
    private var isInsideMessage = false

    /// The size of a message is checked after each output of this many bytes.
    static let bufferBytes = 16 << 10

    /// Creates a decompressor.
    ///
    /// - Parameter windowBits: The size of the window, 8 to 15. 8 is raised to 9, as in zlib's deflate. A connection
    ///   uses the largest window, whatever was negotiated. With a smaller one, zlib would reject a peer that refers
    ///   back too far only for some chunk boundaries.
    init(windowBits: Int = 15) throws(WebSocketError) {
        stream = .allocate(capacity: 1)
        stream.initialize(to: z_stream())
        guard czlib_inflate_init_raw(stream, CInt(max(windowBits, 9))) == Z_OK else { throw Self.outOfMemory }
    }

    deinit {
        inflateEnd(stream)
        stream.deallocate()
    }

    /// Decompresses a piece of a message and appends it to `output`. After an error, `output` contains all bytes that
    /// were decompressed before it.
    ///
    /// - Parameters:
    ///   - endsMessage: Whether this is the last piece of the message.
    ///   - limit: The maximum size of `output`.
    func decompress(
        _ piece: UnsafeRawBufferPointer, endsMessage: Bool, into output: inout [UInt8], limit: Int
    ) throws(WebSocketError) {
        if !piece.isEmpty {
            isInsideMessage = true
            try decompress(piece, into: &output, limit: limit)
        }
        guard endsMessage else { return }
        // A message without a byte is empty, and a message that ended in a final block must not be followed by the
        // tail.
        if isInsideMessage, !streamEnded {
            // RFC 7692, 7.2.1 removes these bytes from the end of every message: 00 00 FF FF.
            try withUnsafeBytes(of: UInt32(0xFFFF).bigEndian) { tail throws(WebSocketError) in
                try decompress(tail, into: &output, limit: limit)
            }
            // If bits remain, or a block is unfinished, the sender's message ended elsewhere.
            guard stream.pointee.data_type & 0x80 != 0, stream.pointee.data_type & 0x07 == 0 else { throw Self.invalid }
        }
        isInsideMessage = false
    }

    private func decompress(
        _ bytes: UnsafeRawBufferPointer, into output: inout [UInt8], limit: Int
    ) throws(WebSocketError) {
        // zlib only reads through this pointer, but its declaration lacks the const.
        stream.pointee.next_in = UnsafeMutablePointer(mutating: bytes.assumingMemoryBound(to: Bytef.self).baseAddress)
        stream.pointee.avail_in = uInt(bytes.count)
        // No connection keeps this buffer while it waits.
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.bufferBytes, alignment: 16)
        defer {
            stream.pointee.next_in = nil
            buffer.deallocate()
        }
        repeat {
            if streamEnded {
                // RFC 7692, 7.2.3.4: the data after a final block may still refer to the data before it.
                inflateResetKeep(stream)
                streamEnded = false
            }
            stream.pointee.next_out = buffer.assumingMemoryBound(to: Bytef.self).baseAddress
            stream.pointee.avail_out = uInt(buffer.count)
            let status = inflate(stream, Z_SYNC_FLUSH)
            let new = buffer[..<(buffer.count - Int(stream.pointee.avail_out))]
            let room = limit - output.count
            output += new.prefix(room)
            guard new.count <= room else { throw .tooLarge("the server sent a message", limit: limit) }
            switch status {
            case Z_OK: break
            case Z_STREAM_END: streamEnded = true
            // These bytes produce no more output.
            case Z_BUF_ERROR: return
            case Z_MEM_ERROR: throw Self.outOfMemory
            default: throw Self.invalid
            }
            // A full buffer may hide more output, but nothing follows the end of a stream.
        } while stream.pointee.avail_in > 0 || stream.pointee.avail_out == 0 && !streamEnded
    }

    /// The error for bytes that are not a deflate stream, or that refer beyond the negotiated window.
    private static let invalid = WebSocketError.violation(
        "the server sent a message that can't be decompressed", closeCode: 1007)
    private static let outOfMemory = WebSocketError(
        code: .unavailable, closeCode: 1011, reason: "not enough memory is left to decompress a message")
}

/// A compressor for the messages of one connection (RFC 7692, 7.2.1).
///
/// Between two messages it keeps only the bytes to which the next message may refer. zlib's state takes about 256 KB,
/// and a connection waits for its answer nearly all the time.
struct Deflater {
    private let windowBits: Int
    /// The last bytes that were compressed, at most one window.
    private var history: [UInt8] = []

    /// Creates a compressor. Returns `nil` for a window of 8 bits, which zlib doesn't support without a header. Messages
    /// can then be sent uncompressed.
    ///
    /// - Parameter windowBits: The negotiated size of the window.
    init?(windowBits: Int) {
        guard windowBits >= 9 else { return nil }
        self.windowBits = windowBits
    }

    /// Compresses one message, which must not be empty and must be shorter than 4 GiB. The result lacks the four bytes
    /// that RFC 7692 removes. Returns `nil` if no memory is left. The message can then be sent uncompressed.
    mutating func compress(_ message: UnsafeRawBufferPointer) -> [UInt8]? {
        var state = z_stream()
        let compressed = withUnsafeMutablePointer(to: &state) { stream -> [UInt8]? in
            // Level 3 of zlib is fast. A request is JSON, which shrinks well at any level.
            guard czlib_deflate_init_raw(stream, 3, CInt(windowBits), 8) == Z_OK else { return nil }
            defer { deflateEnd(stream) }
            deflateSetDictionary(stream, history, uInt(history.count))
            return Self.compress(message, with: stream)
        }
        guard compressed != nil else { return nil }
        let window = 1 << windowBits
        history = Array((history + message.suffix(window)).suffix(window))
        return compressed
    }

    private static func compress(
        _ message: UnsafeRawBufferPointer, with stream: UnsafeMutablePointer<z_stream>
    ) -> [UInt8] {
        // The bound is for an entire stream. A flush adds an empty block, and the pending rest of the block before it.
        let bound = Int(deflateBound(stream, uLong(message.count))) + 16
        return [UInt8](unsafeUninitializedCapacity: bound) { output, count in
            stream.pointee.next_in = UnsafeMutablePointer(
                mutating: message.assumingMemoryBound(to: Bytef.self).baseAddress)
            stream.pointee.avail_in = uInt(message.count)
            stream.pointee.next_out = output.baseAddress
            stream.pointee.avail_out = uInt(bound)
            let status = deflate(stream, Z_SYNC_FLUSH)
            count = bound - Int(stream.pointee.avail_out) - 4
            // The output has room to spare, so zlib must not stop early.
            precondition(status == Z_OK && stream.pointee.avail_in == 0 && count >= 0, "deflate stopped early")
        }
    }
}
