/// Parameters of permessage-deflate (RFC 7692, 7.1).
struct DeflateTerms: Sendable, Hashable {
    static let bitBounds = 8...15

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
            if let accepted = accepting(offer: offer, wish: wish) { return accepted }
        }
        return nil
    }

    private static func accepting(offer: Substring, wish: DeflateWish) -> (DeflateTerms, String)? {
        let words = offer.split(separator: ";", omittingEmptySubsequences: false).map(\.trimmed)
        guard words.first?.lowercased() == "permessage-deflate" else { return nil }
        var parameters: [String: String?] = [:]
        for word in words.dropFirst() {
            let halves = word.split(separator: "=", maxSplits: 1).map(\.trimmed)
            guard let name = halves.first?.lowercased(), parameters[name] == nil else { return nil }
            parameters[name] = .some(halves.count > 1 ? unquoted(halves[1]) : nil)
        }
        var terms = DeflateTerms()
        var answer = ["permessage-deflate"]
        var offersClientBits = false
        for (name, value) in parameters {
            switch (name, value) {
            case ("server_no_context_takeover", nil): terms.serverNoContextTakeover = true
            case ("client_no_context_takeover", nil): terms.clientNoContextTakeover = true
            case ("client_max_window_bits", nil): offersClientBits = true
            case ("client_max_window_bits", let value?):
                guard let bits = Int(value), bitBounds.contains(bits) else { return nil }
                offersClientBits = true
                terms.clientMaxWindowBits = bits
            case ("server_max_window_bits", let value?):
                // 8 is in order, but zlib can't write it.
                guard let bits = Int(value), (9...15).contains(bits) else { return nil }
                terms.serverMaxWindowBits = bits
            default: return nil
            }
        }
        terms.serverNoContextTakeover = terms.serverNoContextTakeover || wish.serverNoContextTakeover
        terms.clientNoContextTakeover = terms.clientNoContextTakeover || wish.clientNoContextTakeover
        if let bits = wish.serverMaxWindowBits { terms.serverMaxWindowBits = min(bits, terms.serverMaxWindowBits) }
        if let bits = wish.clientMaxWindowBits, offersClientBits {
            terms.clientMaxWindowBits = min(bits, terms.clientMaxWindowBits)
        }
        if terms.serverNoContextTakeover { answer.append("server_no_context_takeover") }
        if terms.clientNoContextTakeover { answer.append("client_no_context_takeover") }
        if terms.serverMaxWindowBits < 15 { answer.append("server_max_window_bits=\(terms.serverMaxWindowBits)") }
        // Only a client that offered the parameter may be given it (RFC 7692, 7.1.2.2).
        if terms.clientMaxWindowBits < 15 { answer.append("client_max_window_bits=\(terms.clientMaxWindowBits)") }
        return (terms, answer.joined(separator: "; "))
    }

    private static func unquoted(_ value: String) -> String {
        value.count >= 2 && value.hasPrefix("\"") && value.hasSuffix("\"")
            ? String(value.dropFirst().dropLast()) : value
    }
}
