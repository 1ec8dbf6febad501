import CZlib
import Testing

/// permessage-deflate by zlib alone, in one call and with as much room as it wants.
enum DeflateOracle {
    /// A server's message, compressed by itself.
    ///
    /// - Parameter isFinal: in a final block, with nothing behind it.
    static func message(_ payload: [UInt8], windowBits: Int = 15, isFinal: Bool = false) throws -> [UInt8] {
        var stream = z_stream()
        try #require(czlib_deflate_init_raw(&stream, 9, CInt(windowBits), 8) == Z_OK)
        defer { deflateEnd(&stream) }
        var input = payload
        var output = [UInt8](repeating: 0, count: payload.count + payload.count / 100 + 64)
        let written = input.withUnsafeMutableBufferPointer { input in
            output.withUnsafeMutableBufferPointer { output in
                stream.next_in = input.baseAddress
                stream.avail_in = uInt(input.count)
                stream.next_out = output.baseAddress
                stream.avail_out = uInt(output.count)
                _ = deflate(&stream, isFinal ? Z_FINISH : Z_SYNC_FLUSH)
                return output.count - Int(stream.avail_out)
            }
        }
        let message = output[..<written]
        guard !isFinal else { return Array(message) }
        try #require(message.suffix(4) == [0x00, 0x00, 0xFF, 0xFF])
        return Array(message.dropLast(4))
    }

    /// What messages of ours hold, all of one connection together; `nil` when they are no deflate stream.
    static func contents(of messages: [[UInt8]], windowBits: Int = 15, capacity: Int = 1 << 22) throws -> [UInt8]? {
        var stream = z_stream()
        try #require(czlib_inflate_init_raw(&stream, CInt(windowBits)) == Z_OK)
        defer { inflateEnd(&stream) }
        var input: [UInt8] = []
        for message in messages { input += message + [0x00, 0x00, 0xFF, 0xFF] }
        var output = [UInt8](repeating: 0, count: capacity)
        return input.withUnsafeMutableBufferPointer { input in
            output.withUnsafeMutableBufferPointer { output in
                stream.next_in = input.baseAddress
                stream.avail_in = uInt(input.count)
                stream.next_out = output.baseAddress
                stream.avail_out = uInt(output.count)
                let status = inflate(&stream, Z_SYNC_FLUSH)
                guard status == Z_OK || status == Z_BUF_ERROR, stream.avail_in == 0 else { return nil }
                return Array(output[..<(output.count - Int(stream.avail_out))])
            }
        }
    }
}
