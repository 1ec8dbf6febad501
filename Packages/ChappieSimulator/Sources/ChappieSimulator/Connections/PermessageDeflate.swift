import CZlib

/// Parameters of permessage-deflate (RFC 7692, 7.1).
struct DeflateTerms: Sendable, Hashable {
    /// The window of what the server sends, as a power of two.
    var serverMaxWindowBits = 15
    /// The window of what the client sends.
    var clientMaxWindowBits = 15
    /// The server starts every message with an empty window.
    var serverNoContextTakeover = false
    /// The client does.
    var clientNoContextTakeover = false

    /// The first offer that can be accepted, accepted; `nil` when there is none.
    ///
    /// - Parameters:
    ///   - offers: the values of `Sec-WebSocket-Extensions`, joined by commas.
    ///   - wish: what the server wants beyond what was offered.
    static func accepting(_ offers: String, wish: DeflateWish) -> (terms: DeflateTerms, answer: String)? {
        for offer in offers.split(separator: ",").prefix(32) {
            guard let (offered, offersClientBits) = read(offer) else { continue }
            var terms = offered
            terms.serverNoContextTakeover = terms.serverNoContextTakeover || wish.serverNoContextTakeover == true
            terms.clientNoContextTakeover = terms.clientNoContextTakeover || wish.clientNoContextTakeover == true
            terms.serverMaxWindowBits = min(wish.serverMaxWindowBits ?? 15, terms.serverMaxWindowBits)
            // Only a client that offered the parameter may be given it (RFC 7692, 7.1.2.2).
            if offersClientBits {
                terms.clientMaxWindowBits = min(wish.clientMaxWindowBits ?? 15, terms.clientMaxWindowBits)
            }
            return (terms, terms.words)
        }
        return nil
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
            let value = halves.count > 1 ? halves[1].filter { $0 != "\"" } : nil
            switch (name, value) {
            case ("server_no_context_takeover", nil): terms.serverNoContextTakeover = true
            case ("client_no_context_takeover", nil): terms.clientNoContextTakeover = true
            case ("client_max_window_bits", nil): break
            case ("client_max_window_bits", let value?):
                guard let bits = Int(value), (8...15).contains(bits) else { return nil }
                terms.clientMaxWindowBits = bits
            case ("server_max_window_bits", let value?):
                // 8 is in order, but zlib can't write it.
                guard let bits = Int(value), (9...15).contains(bits) else { return nil }
                terms.serverMaxWindowBits = bits
            default: return nil
            }
        }
        return (terms, seen.contains("client_max_window_bits"))
    }

    private var words: String {
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
    enum Failure: Error, Sendable, Hashable { case malformed, tooLarge }

    /// Enough for every stretch of text, and an eighth of the library's default.
    private static let memoryLevel: Int32 = 5
    /// The end of every message, which neither side sends.
    private static let tail: [UInt8] = [0, 0, 0xFF, 0xFF]

    private let terms: DeflateTerms
    private var output: UnsafeMutablePointer<z_stream>?
    private var input: UnsafeMutablePointer<z_stream>?

    init(_ terms: DeflateTerms) { self.terms = terms }

    deinit {
        if let output {
            deflateEnd(output)
            output.deallocate()
        }
        if let input {
            inflateEnd(input)
            input.deallocate()
        }
    }

    /// - Returns: `nil` when there is no memory for it.
    func compress(_ payload: [UInt8]) -> [UInt8]? {
        // An empty message is one empty block (7.2.3.6); the library would say that there is nothing to do.
        guard !payload.isEmpty else { return [0] }
        let bits = Int32(terms.serverMaxWindowBits)
        output = output ?? Self.open { czlib_deflate_init_raw($0, Z_BEST_SPEED, bits, Self.memoryLevel) }
        guard let output else { return nil }
        var compressed: [UInt8] = []
        _ = Self.run(payload, through: output, with: deflate) { bytes in
            compressed.append(contentsOf: bytes)
            return true
        }
        if terms.serverNoContextTakeover { deflateReset(output) }
        if compressed.suffix(4).elementsEqual(Self.tail) { compressed.removeLast(4) }
        return compressed
    }

    /// - Parameter limit: bytes; a message that grows past it is refused, not made.
    func decompress(_ payload: [UInt8], limit: Int) throws(Failure) -> [UInt8] {
        let bits = Int32(terms.clientMaxWindowBits)
        input = input ?? Self.open { czlib_inflate_init_raw($0, bits) }
        guard let input else { throw .malformed }
        var message: [UInt8] = []
        var isTooLarge = false
        let isWhole = Self.run(payload + Self.tail, through: input, with: inflate) { bytes in
            isTooLarge = message.count + bytes.count > limit
            if !isTooLarge { message.append(contentsOf: bytes) }
            return !isTooLarge
        }
        if isTooLarge { throw .tooLarge }
        guard isWhole else { throw .malformed }
        if terms.clientNoContextTakeover { inflateReset(input) }
        return message
    }

    private static func open(
        _ prepare: (UnsafeMutablePointer<z_stream>) -> Int32
    ) -> UnsafeMutablePointer<z_stream>? {
        let stream = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)
        stream.initialize(to: z_stream())
        if prepare(stream) == Z_OK { return stream }
        stream.deallocate()
        return nil
    }

    /// Feeds all of `bytes` to the library, piece by piece.
    ///
    /// - Parameter take: takes what comes out, and says whether to go on.
    /// - Returns: whether the library took it all.
    private static func run(
        _ bytes: [UInt8], through stream: UnsafeMutablePointer<z_stream>,
        with step: (UnsafeMutablePointer<z_stream>, Int32) -> Int32, take: (ArraySlice<UInt8>) -> Bool
    ) -> Bool {
        var chunk = [UInt8](repeating: 0, count: min(max(bytes.count, 1024) + 256, 64 * 1024))
        return bytes.withUnsafeBufferPointer { source in
            stream.pointee.next_in = UnsafeMutablePointer(mutating: source.baseAddress)
            stream.pointee.avail_in = uInt(source.count)
            defer { stream.pointee.next_in = nil }
            while true {
                var status = Z_OK
                let produced = chunk.withUnsafeMutableBufferPointer { target in
                    stream.pointee.next_out = target.baseAddress
                    stream.pointee.avail_out = uInt(target.count)
                    status = step(stream, Z_SYNC_FLUSH)
                    return target.count - Int(stream.pointee.avail_out)
                }
                guard take(chunk[..<produced]) else { return false }
                switch status {
                // A block that says it is the last one ends the window with it (7.2.3.5); the rest is a new stream.
                case Z_STREAM_END: inflateReset(stream)
                case Z_OK, Z_BUF_ERROR: break
                default: return false
                }
                if stream.pointee.avail_in == 0, stream.pointee.avail_out > 0 { return true }
                if status == Z_BUF_ERROR { return false }
            }
        }
    }
}
