/// What the server asks of permessage-deflate beyond what was offered.
struct DeflateWish: Sendable, Hashable {
    var serverNoContextTakeover = false
    var clientNoContextTakeover = false
    /// 9 to 15.
    var serverMaxWindowBits: Int?
    /// 8 to 15; without effect on a client that doesn't offer the parameter.
    var clientMaxWindowBits: Int?
}
