/// What both sides agreed on for permessage-deflate (RFC 7692, 7.1).
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
