import CZlib

/// Decompresses the messages of one connection (RFC 7692, 7.2.2). Takes its memory with the first message.
final class MessageInflater {
    enum Failure: Error, Sendable, Hashable { case malformed, tooLarge }

    private let terms: DeflateTerms
    private var stream: UnsafeMutablePointer<z_stream>?

    init(_ terms: DeflateTerms) { self.terms = terms }

    deinit {
        guard let stream else { return }
        inflateEnd(stream)
        stream.deallocate()
    }

    /// - Parameter limit: bytes; a message that grows past it is refused, not made.
    func decompress(_ payload: [UInt8], limit: Int) throws(Failure) -> [UInt8] {
        guard let stream = openedStream() else { throw .malformed }
        var output: [UInt8] = []
        let failure = (payload + [0, 0, 0xFF, 0xFF]).withUnsafeBufferPointer { source in
            inflateAll(source, stream: stream, into: &output, limit: limit)
        }
        if let failure { throw failure }
        if terms.clientNoContextTakeover { inflateReset(stream) }
        return output
    }

    private func inflateAll(
        _ source: UnsafeBufferPointer<UInt8>, stream: UnsafeMutablePointer<z_stream>, into output: inout [UInt8],
        limit: Int
    ) -> Failure? {
        var chunk = [UInt8](repeating: 0, count: 32 * 1024)
        stream.pointee.next_in = UnsafeMutablePointer(mutating: source.baseAddress)
        stream.pointee.avail_in = uInt(source.count)
        defer { stream.pointee.next_in = nil }
        while true {
            var status = Z_OK
            let produced = chunk.withUnsafeMutableBufferPointer { target in
                stream.pointee.next_out = target.baseAddress
                stream.pointee.avail_out = uInt(target.count)
                status = inflate(stream, Z_SYNC_FLUSH)
                return target.count - Int(stream.pointee.avail_out)
            }
            if output.count + produced > limit { return .tooLarge }
            output.append(contentsOf: chunk[..<produced])
            switch status {
            // A block that says it is the last one ends the window with it (7.2.3.5); the rest is a stream of its own.
            case Z_STREAM_END: inflateReset(stream)
            case Z_OK, Z_BUF_ERROR: break
            default: return .malformed
            }
            if stream.pointee.avail_in == 0, stream.pointee.avail_out > 0 { return nil }
            if status == Z_BUF_ERROR { return .malformed }
        }
    }

    private func openedStream() -> UnsafeMutablePointer<z_stream>? {
        if let stream { return stream }
        let fresh = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)
        fresh.initialize(to: z_stream())
        guard czlib_inflate_init_raw(fresh, Int32(terms.clientMaxWindowBits)) == Z_OK else {
            fresh.deallocate()
            return nil
        }
        stream = fresh
        return fresh
    }
}
