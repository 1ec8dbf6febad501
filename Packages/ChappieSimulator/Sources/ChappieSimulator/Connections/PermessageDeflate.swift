import CZlib

/// Parameters of permessage-deflate (RFC 7692, 7.1).
struct DeflateTerms: Sendable, Hashable {
    /// The window of what the server sends, as a power of two.
    var serverMaxWindowBits: UInt8 = 15
    /// The window of what the client sends.
    var clientMaxWindowBits: UInt8 = 15
    /// The server starts every message with an empty window.
    var serverNoContextTakeover = false
    /// The client does.
    var clientNoContextTakeover = false

    /// The first offer that can be accepted, accepted; `nil` when there is none.
    ///
    /// - Parameters:
    ///   - offers: the values of `Sec-WebSocket-Extensions`, joined by commas.
    ///   - wish: what the server wants beyond what was offered.
    static func accepting(_ offers: String, wish: DeflateWish) -> DeflateTerms? {
        offers.split(separator: ",").lazy.compactMap { offer in
            guard let (offered, offersClientBits) = read(offer) else { return nil }
            var terms = offered
            terms.serverNoContextTakeover = terms.serverNoContextTakeover || wish.serverNoContextTakeover == true
            terms.clientNoContextTakeover = terms.clientNoContextTakeover || wish.clientNoContextTakeover == true
            terms.serverMaxWindowBits = min(max(wish.serverMaxWindowBits ?? 15, 9), terms.serverMaxWindowBits)
            // Only a client that offered the parameter may be given it (RFC 7692, 7.1.2.2).
            let clientBits = offersClientBits ? wish.clientMaxWindowBits ?? 15 : 15
            terms.clientMaxWindowBits = min(max(clientBits, 8), terms.clientMaxWindowBits)
            return terms
        }.first
    }

    /// - Returns: `nil` for another extension and for parameters that are not in order.
    private static func read(_ offer: Substring) -> (terms: DeflateTerms, offersClientBits: Bool)? {
        let words = offer.split(separator: ";", omittingEmptySubsequences: false).map(\.trimmed)
        guard words.first?.lowercased() == "permessage-deflate" else { return nil }
        var seen: Set<String> = []
        var terms = DeflateTerms()
        for word in words.dropFirst() {
            let halves = word.split(separator: "=", maxSplits: 1).map(\.trimmed)
            guard let name = halves.first?.lowercased(), seen.insert(name).inserted else { return nil }
            let bits = halves.count > 1 ? UInt8(halves[1].filter { $0 != "\"" }) ?? 0 : nil
            switch (name, bits) {
            case ("server_no_context_takeover", nil): terms.serverNoContextTakeover = true
            case ("client_no_context_takeover", nil): terms.clientNoContextTakeover = true
            case ("client_max_window_bits", nil): break
            case ("client_max_window_bits", let bits?) where (8...15).contains(bits): terms.clientMaxWindowBits = bits
            // 8 is in order, but zlib can't write it.
            case ("server_max_window_bits", let bits?) where (9...15).contains(bits): terms.serverMaxWindowBits = bits
            default: return nil
            }
        }
        return (terms, seen.contains("client_max_window_bits"))
    }

    /// The answer in `Sec-WebSocket-Extensions`.
    var words: String {
        var words = ["permessage-deflate"]
        if serverNoContextTakeover { words.append("server_no_context_takeover") }
        if clientNoContextTakeover { words.append("client_no_context_takeover") }
        if serverMaxWindowBits < 15 { words.append("server_max_window_bits=\(serverMaxWindowBits)") }
        if clientMaxWindowBits < 15 { words.append("client_max_window_bits=\(clientMaxWindowBits)") }
        return words.joined(separator: "; ")
    }
}

/// Compresses and decompresses the messages of one connection (RFC 7692, 7.2).
///
/// Each direction takes its memory with its first message: an idle connection costs nothing.
final class PermessageDeflate {
    enum Failure: Error { case malformed, tooLarge }

    /// One direction: zlib holds on to the address of its state.
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

    /// Enough for every stretch of text, and an eighth of the library's default.
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
        // An empty message is one empty block (7.2.3.6); the library would say that there is nothing to do.
        guard !payload.isEmpty else { return [0] }
        let compressed = try Self.run(payload, through: output.state, with: deflate, limit: .max)
        if terms.serverNoContextTakeover { deflateReset(output.state) }
        return compressed.suffix(4).elementsEqual(Self.tail) ? compressed.dropLast(4) : compressed
    }

    /// - Parameter limit: bytes; a message that grows past it is refused, not made.
    func decompress(_ payload: [UInt8], limit: Int) throws(Failure) -> [UInt8] {
        let message = try Self.run(payload + Self.tail, through: input.state, with: inflate, limit: limit)
        if terms.clientNoContextTakeover { inflateReset(input.state) }
        return message
    }

    /// Feeds all of `bytes` to the library, and gives what comes out.
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
                // A block that says it is the last one ends the window with it (7.2.3.5); the rest is a new stream.
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
