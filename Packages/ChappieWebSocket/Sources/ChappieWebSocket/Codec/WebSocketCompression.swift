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
