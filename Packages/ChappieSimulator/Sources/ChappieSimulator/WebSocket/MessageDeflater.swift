import CZlib

/// Compresses the messages of one connection (RFC 7692, 7.2.1).
///
/// Takes its memory with the first message: a connection that has sent nothing costs nothing.
final class MessageDeflater {
    private let terms: DeflateTerms
    private var stream: UnsafeMutablePointer<z_stream>?
    /// Enough for every stretch of text, and an eighth of what the library would take.
    private static let memoryLevel: Int32 = 5

    init(_ terms: DeflateTerms) { self.terms = terms }

    deinit {
        guard let stream else { return }
        deflateEnd(stream)
        stream.deallocate()
    }

    /// The payload without the four bytes that every message ends with; `nil` when there is no memory for it.
    func compress(_ payload: [UInt8]) -> [UInt8]? {
        // An empty message is one empty block (7.2.3.6); the library would say that there is nothing to do.
        guard !payload.isEmpty else { return [0] }
        guard let stream = openedStream() else { return nil }
        var output: [UInt8] = []
        output.reserveCapacity(payload.count / 2 + 64)
        var chunk = [UInt8](repeating: 0, count: min(payload.count + 256, 64 * 1024))
        payload.withUnsafeBufferPointer { source in
            stream.pointee.next_in = UnsafeMutablePointer(mutating: source.baseAddress)
            stream.pointee.avail_in = uInt(source.count)
            repeat {
                let produced = chunk.withUnsafeMutableBufferPointer { target in
                    stream.pointee.next_out = target.baseAddress
                    stream.pointee.avail_out = uInt(target.count)
                    deflate(stream, Z_SYNC_FLUSH)
                    return target.count - Int(stream.pointee.avail_out)
                }
                output.append(contentsOf: chunk[..<produced])
            } while stream.pointee.avail_out == 0
            stream.pointee.next_in = nil
        }
        if terms.serverNoContextTakeover { deflateReset(stream) }
        if output.suffix(4).elementsEqual([0, 0, 0xFF, 0xFF]) { output.removeLast(4) }
        return output
    }

    private func openedStream() -> UnsafeMutablePointer<z_stream>? {
        if let stream { return stream }
        let fresh = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)
        fresh.initialize(to: z_stream())
        let bits = Int32(terms.serverMaxWindowBits)
        guard czlib_deflate_init_raw(fresh, Z_BEST_SPEED, bits, Self.memoryLevel) == Z_OK else {
            fresh.deallocate()
            return nil
        }
        stream = fresh
        return fresh
    }
}
