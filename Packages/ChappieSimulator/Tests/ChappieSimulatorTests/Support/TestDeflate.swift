import CZlib

/// Both directions of permessage-deflate as a client does them, with the windows kept from message to message.
final class TestDeflate {
    private let out = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)
    private let into = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)
    private let resetsOut: Bool
    private let resetsIn: Bool

    init(outBits: Int32 = 15, inBits: Int32 = 15, resetsOut: Bool = false, resetsIn: Bool = false) {
        self.resetsOut = resetsOut
        self.resetsIn = resetsIn
        out.initialize(to: z_stream())
        into.initialize(to: z_stream())
        _ = czlib_deflate_init_raw(out, 6, outBits, 8)
        _ = czlib_inflate_init_raw(into, inBits)
    }

    deinit {
        deflateEnd(out)
        inflateEnd(into)
        out.deallocate()
        into.deallocate()
    }

    func compress(_ bytes: [UInt8]) -> [UInt8] {
        let output = run(bytes, out) { deflate($0, Z_SYNC_FLUSH) } ?? []
        if resetsOut { deflateReset(out) }
        return output.dropLast(4)
    }

    /// `nil` when it is not what a window like this can read.
    func decompress(_ bytes: [UInt8]) -> [UInt8]? {
        let output = run(bytes + [0, 0, 0xFF, 0xFF], into) { inflate($0, Z_SYNC_FLUSH) }
        if resetsIn { inflateReset(into) }
        return output
    }

    private func run(
        _ bytes: [UInt8], _ stream: UnsafeMutablePointer<z_stream>, _ step: (UnsafeMutablePointer<z_stream>) -> Int32
    ) -> [UInt8]? {
        var output: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        var source = bytes
        return source.withUnsafeMutableBufferPointer { source in
            stream.pointee.next_in = source.baseAddress
            stream.pointee.avail_in = uInt(source.count)
            repeat {
                let (status, produced) = chunk.withUnsafeMutableBufferPointer { target in
                    stream.pointee.next_out = target.baseAddress
                    stream.pointee.avail_out = uInt(target.count)
                    let status = step(stream)
                    return (status, target.count - Int(stream.pointee.avail_out))
                }
                guard status == Z_OK || status == Z_BUF_ERROR else { return nil }
                output += chunk[..<produced]
            } while stream.pointee.avail_out == 0
            return output
        }
    }
}
