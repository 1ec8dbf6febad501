/// Whether messages may travel compressed (permessage-deflate, RFC 7692), and what we ask of the server.
///
/// The server has the last word: without its consent nothing is compressed.
public struct WebSocketCompression: Sendable, Hashable {
    /// `false`: the extension is not offered, and a server that uses it all the same is refused.
    public let isOffered: Bool
    /// Asks the server to compress each message by itself (RFC 7692, 7.1.1.1): less memory here, larger messages.
    public let serverNoContextTakeover: Bool
    /// Tells the server that we compress each message by itself (RFC 7692, 7.1.1.2): our 256 KiB of state are given back
    /// between messages.
    public let clientNoContextTakeover: Bool
    /// The largest window that the server may use, as a power of two, 8 to 15; `nil` leaves it to the server.
    public let serverMaxWindowBits: Int?

    /// Offers the extension as most clients do: with our own window left to the server's choice.
    ///
    /// - Parameter serverMaxWindowBits: 8 to 15; values outside are moved to the bound.
    public init(
        serverNoContextTakeover: Bool = false, clientNoContextTakeover: Bool = false, serverMaxWindowBits: Int? = nil
    ) {
        self.init(
            isOffered: true, serverNoContextTakeover: serverNoContextTakeover,
            clientNoContextTakeover: clientNoContextTakeover,
            serverMaxWindowBits: serverMaxWindowBits.map { min(max($0, 8), 15) })
    }

    private init(
        isOffered: Bool, serverNoContextTakeover: Bool, clientNoContextTakeover: Bool, serverMaxWindowBits: Int?
    ) {
        self.isOffered = isOffered
        self.serverNoContextTakeover = serverNoContextTakeover
        self.clientNoContextTakeover = clientNoContextTakeover
        self.serverMaxWindowBits = serverMaxWindowBits
    }

    /// `permessage-deflate; client_max_window_bits`.
    public static let permessageDeflate = WebSocketCompression()

    /// Every message travels as it is.
    public static let off = WebSocketCompression(
        isOffered: false, serverNoContextTakeover: false, clientNoContextTakeover: false, serverMaxWindowBits: nil)
}

/// The parameters that both sides agreed on for permessage-deflate (RFC 7692, 7.1).
struct DeflateParameters: Sendable, Hashable {
    /// The server compresses each message by itself.
    var serverNoContextTakeover = false
    /// We compress each message by itself.
    var clientNoContextTakeover = false
    /// The largest window of the server, as a power of two, 8 to 15.
    var serverMaxWindowBits = 15
    /// The largest window of ours, as a power of two, 8 to 15.
    var clientMaxWindowBits = 15
}

extension WebSocketCompression {
    /// The value of our `Sec-WebSocket-Extensions`; `nil` offers none.
    var offer: String? {
        guard isOffered else { return nil }
        var offer = "permessage-deflate; client_max_window_bits"
        if serverNoContextTakeover { offer += "; server_no_context_takeover" }
        if clientNoContextTakeover { offer += "; client_no_context_takeover" }
        if let serverMaxWindowBits { offer += "; server_max_window_bits=\(serverMaxWindowBits)" }
        return offer
    }
}

extension DeflateParameters {
    /// Reads the server's choice of extensions.
    ///
    /// - Parameters:
    ///   - values: every `Sec-WebSocket-Extensions` of its answer.
    ///   - compression: what was offered.
    /// - Returns: `nil` when it chose none.
    /// - Throws: `.unofferedExtension`, also for parameters that RFC 7692, 7.1 forbids it.
    static func negotiated(
        _ values: [String], offered compression: WebSocketCompression
    ) throws(WebSocketHandshakeError) -> DeflateParameters? {
        guard let members = HeaderList.members(values) else { throw .unofferedExtension }
        guard let member = members.first else { return nil }
        guard members.count == 1, compression.isOffered, member.name.lowercased() == "permessage-deflate" else {
            throw .unofferedExtension
        }
        var parameters = DeflateParameters()
        // Whether we do is ours to say, whatever the server repeats (RFC 7692, 7.1.1.2).
        parameters.clientNoContextTakeover = compression.clientNoContextTakeover
        var seen: Set<String> = []
        for parameter in member.parameters {
            guard seen.insert(parameter.name).inserted else { throw .unofferedExtension }
            switch (parameter.name, parameter.value) {
            case ("server_no_context_takeover", nil): parameters.serverNoContextTakeover = true
            case ("client_no_context_takeover", nil): parameters.clientNoContextTakeover = true
            case ("server_max_window_bits", let value?):
                parameters.serverMaxWindowBits = try windowBits(value, atMost: compression.serverMaxWindowBits ?? 15)
            case ("client_max_window_bits", let value?):
                parameters.clientMaxWindowBits = try windowBits(value, atMost: 15)
            default: throw .unofferedExtension
            }
        }
        // An offer of these two is accepted by repeating it, or not at all (RFC 7692, 7.1.1.1 and 7.1.2.1).
        guard parameters.serverNoContextTakeover || !compression.serverNoContextTakeover,
            seen.contains("server_max_window_bits") || compression.serverMaxWindowBits == nil
        else { throw .unofferedExtension }
        return parameters
    }

    /// Decimal, without leading zeros, 8 to 15.
    private static func windowBits(_ value: String, atMost limit: Int) throws(WebSocketHandshakeError) -> Int {
        for bits in 8...15 where bits <= limit && value == String(bits) { return bits }
        throw .unofferedExtension
    }
}
