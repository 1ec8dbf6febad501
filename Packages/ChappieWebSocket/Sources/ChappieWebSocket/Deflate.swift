import CZlib
import ChappieCore

/// Decompresses the messages of one connection (RFC 7692, 7.2.2).
final class Inflater {
    private let stream: UnsafeMutablePointer<z_stream>
    private let buffer: UnsafeMutableRawBufferPointer
    /// The last block said that it was the final one, and nothing has come after it.
    private var streamEnded = false
    /// Whether anything of the present message has come.
    private var isInsideMessage = false

    /// A message's size is checked each time so much has come out.
    static let bufferBytes = 16 << 10

    /// - Parameter windowBits: 8 to 15, which is taken as 9 at least, as zlib's deflate does. A connection takes the largest,
    ///   whatever was negotiated: with a smaller one, zlib's verdict on a peer that reaches back too far would depend on how
    ///   the bytes were cut.
    init(windowBits: Int = 15) throws(WebSocketError) {
        stream = .allocate(capacity: 1)
        stream.initialize(to: z_stream())
        buffer = .allocate(byteCount: Self.bufferBytes, alignment: 16)
        guard czlib_inflate_init_raw(stream, CInt(max(windowBits, 9))) == Z_OK else { throw Self.outOfMemory }
    }

    deinit {
        inflateEnd(stream)
        stream.deallocate()
        buffer.deallocate()
    }

    /// Decompresses a piece of a message to the end of `output`, where everything stands that came out before an error.
    ///
    /// - Parameters:
    ///   - endsMessage: this was its last piece.
    ///   - limit: the size of `output` at most.
    func decompress(
        _ piece: UnsafeRawBufferPointer, endsMessage: Bool, into output: inout [UInt8], limit: Int
    ) throws(WebSocketError) {
        if !piece.isEmpty {
            isInsideMessage = true
            try decompress(piece, into: &output, limit: limit)
        }
        guard endsMessage else { return }
        // A message without a byte is an empty one, and one that ended in a final block has no place for the tail.
        if isInsideMessage, !streamEnded {
            // The bytes that RFC 7692, 7.2.1 takes from the end of every message: 00 00 FF FF.
            try withUnsafeBytes(of: UInt32(0xFFFF).bigEndian) { tail throws(WebSocketError) in
                try decompress(tail, into: &output, limit: limit)
            }
            // Bits left over, or the middle of a block: the sender's message ended elsewhere.
            guard stream.pointee.data_type & 0x80 != 0, stream.pointee.data_type & 0x07 == 0 else { throw Self.invalid }
        }
        isInsideMessage = false
    }

    private func decompress(
        _ bytes: UnsafeRawBufferPointer, into output: inout [UInt8], limit: Int
    ) throws(WebSocketError) {
        // zlib only reads from there; its declaration lacks the const.
        stream.pointee.next_in = UnsafeMutablePointer(mutating: bytes.assumingMemoryBound(to: Bytef.self).baseAddress)
        stream.pointee.avail_in = uInt(bytes.count)
        defer { stream.pointee.next_in = nil }
        repeat {
            if streamEnded {
                // RFC 7692, 7.2.3.4: what follows a final block may still refer to what was before it.
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
            // Nothing more to be had from these bytes.
            case Z_BUF_ERROR: return
            case Z_MEM_ERROR: throw Self.outOfMemory
            default: throw Self.invalid
            }
            // A full buffer may hide more output, but nothing hides behind the end of a stream.
        } while stream.pointee.avail_in > 0 || stream.pointee.avail_out == 0 && !streamEnded
    }

    /// No deflate stream, or one that reaches beyond the negotiated window.
    private static let invalid = WebSocketError.violation(
        "the server sent a message that can't be decompressed", closeCode: 1007)
    private static let outOfMemory = WebSocketError(
        code: .unavailable, closeCode: 1011, reason: "there is no memory to decompress a message")
}

/// Compresses the messages of one connection (RFC 7692, 7.2.1).
final class Deflater {
    private let stream: UnsafeMutablePointer<z_stream>

    /// - Parameter windowBits: as negotiated.
    /// - Returns: `nil` for a window of 8 bits, to which zlib can't keep without a header, or without memory; messages can
    ///   be sent as they are then.
    init?(windowBits: Int) {
        stream = .allocate(capacity: 1)
        stream.initialize(to: z_stream())
        // Level 3 is one of zlib's fast ones: a request is JSON, which shrinks well at any level.
        guard windowBits >= 9, czlib_deflate_init_raw(stream, 3, CInt(windowBits), 8) == Z_OK else { return nil }
    }

    deinit {
        deflateEnd(stream)
        stream.deallocate()
    }

    /// Compresses one message, not empty, less than 4 GiB; without the four bytes that RFC 7692 takes away.
    func compress(_ message: UnsafeRawBufferPointer) -> [UInt8] {
        // The bound is for a whole stream; a flush adds an empty block, and what was pending of the one before it.
        let bound = Int(deflateBound(stream, uLong(message.count))) + 16
        return [UInt8](unsafeUninitializedCapacity: bound) { output, count in
            stream.pointee.next_in = UnsafeMutablePointer(
                mutating: message.assumingMemoryBound(to: Bytef.self).baseAddress)
            stream.pointee.avail_in = uInt(message.count)
            stream.pointee.next_out = output.baseAddress
            stream.pointee.avail_out = uInt(bound)
            let status = deflate(stream, Z_SYNC_FLUSH)
            stream.pointee.next_in = nil
            count = bound - Int(stream.pointee.avail_out) - 4
            // With room to spare, zlib has neither a reason nor a right to stop early.
            precondition(status == Z_OK && stream.pointee.avail_in == 0 && count >= 0, "deflate stopped early")
        }
    }
}
