import CZlib
import ChappieSimulator

/// A compressor and decompressor for the messages of one connection (RFC 7692, 7.2).
///
/// Each direction allocates its memory with its first message, so that an idle connection costs nothing.
final class PermessageDeflate {
    enum Failure: Error { case malformed, tooLarge }

    /// The stream of one direction. zlib keeps the address of its state.
    private final class Stream {
        let state = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)
        private let end: (UnsafeMutablePointer<z_stream>) -> Int32

        init(
            _ prepare: (UnsafeMutablePointer<z_stream>) -> Int32,
            end: @escaping (UnsafeMutablePointer<z_stream>) -> Int32
        ) {
            self.end = end
            state.initialize(to: z_stream())
            _ = prepare(state)
        }

        deinit {
            _ = end(state)
            state.deallocate()
        }
    }

    /// The memory level, which is enough for every stretch of text, and takes an eighth of the library's default.
    private static let memoryLevel: Int32 = 5
    /// The end of every message, which neither side sends.
    private static let tail: [UInt8] = [0, 0, 0xFF, 0xFF]

    private let terms: DeflateTerms
    private lazy var output = Stream(
        { [terms] in
            czlib_deflate_init_raw($0, Z_BEST_SPEED, Int32(terms.serverMaxWindowBits), Self.memoryLevel)
        }, end: deflateEnd)
    private lazy var input = Stream(
        { [terms] in czlib_inflate_init_raw($0, Int32(terms.clientMaxWindowBits)) }, end: inflateEnd)

    init(_ terms: DeflateTerms) { self.terms = terms }

    func compress(_ payload: [UInt8]) throws(Failure) -> [UInt8] {
        // An empty message is one empty block (7.2.3.6). The library would report that there is nothing to do.
        guard !payload.isEmpty else { return [0] }
        let compressed = try Self.run(payload, through: output.state, with: deflate, limit: .max)
        if terms.serverNoContextTakeover { deflateReset(output.state) }
        return compressed.suffix(4).elementsEqual(Self.tail) ? compressed.dropLast(4) : compressed
    }

    /// Returns the decompressed message.
    ///
    /// - Parameter limit: the largest size in bytes. A message that grows past it is refused during decompression.
    func decompress(_ payload: [UInt8], limit: Int) throws(Failure) -> [UInt8] {
        let message = try Self.run(payload + Self.tail, through: input.state, with: inflate, limit: limit)
        if terms.clientNoContextTakeover { inflateReset(input.state) }
        return message
    }

    /// Passes all of `bytes` to the library, and returns its output.
    private static func run(
        _ bytes: [UInt8], through stream: UnsafeMutablePointer<z_stream>,
        with step: (UnsafeMutablePointer<z_stream>, Int32) -> Int32, limit: Int
    ) throws(Failure) -> [UInt8] {
        var bytes = bytes
        var output: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: min(max(bytes.count, 1024) + 256, 64 * 1024))
        let failure = bytes.withUnsafeMutableBufferPointer { source -> Failure? in
            stream.pointee.next_in = source.baseAddress
            stream.pointee.avail_in = uInt(source.count)
            while true {
                var status = Z_OK
                let produced = chunk.withUnsafeMutableBufferPointer { target in
                    stream.pointee.next_out = target.baseAddress
                    stream.pointee.avail_out = uInt(target.count)
                    status = step(stream, Z_SYNC_FLUSH)
                    return target.count - Int(stream.pointee.avail_out)
                }
                if output.count + produced > limit { return .tooLarge }
                output += chunk[..<produced]
                switch status {
                // A block that is marked as the last one also ends the window (7.2.3.5). The rest is a new stream.
                case Z_STREAM_END: inflateReset(stream)
                case Z_OK, Z_BUF_ERROR: break
                default: return .malformed
                }
                if stream.pointee.avail_in == 0, stream.pointee.avail_out > 0 { return nil }
                if status == Z_BUF_ERROR { return .malformed }
            }
        }
        if let failure { throw failure }
        return output
    }
}
