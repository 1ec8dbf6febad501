@_spi(ChappieInternals) import ChappieCore

/// The parameters of permessage-deflate (RFC 7692, 7.1).
package struct DeflateTerms: Sendable, Hashable {
    /// The window for the server's messages, as a power of two.
    package var serverMaxWindowBits: UInt8 = 15
    /// The window for the client's messages, as a power of two.
    package var clientMaxWindowBits: UInt8 = 15
    /// Whether the server starts every message with an empty window.
    package var serverNoContextTakeover = false
    /// Whether the client starts every message with an empty window.
    package var clientNoContextTakeover = false

    package init(
        serverMaxWindowBits: UInt8 = 15, clientMaxWindowBits: UInt8 = 15, serverNoContextTakeover: Bool = false,
        clientNoContextTakeover: Bool = false
    ) {
        self.serverMaxWindowBits = serverMaxWindowBits
        self.clientMaxWindowBits = clientMaxWindowBits
        self.serverNoContextTakeover = serverNoContextTakeover
        self.clientNoContextTakeover = clientNoContextTakeover
    }

    /// Returns the terms of the first offer that can be accepted, or `nil` if there is none.
    ///
    /// - Parameters:
    ///   - offers: the values of `Sec-WebSocket-Extensions`, joined by commas.
    ///   - wish: the server's requirements in addition to the offer.
    static func accepting(_ offers: String, wish: DeflateWish) -> DeflateTerms? {
        offers.split(separator: ",").lazy.compactMap { offer in
            guard let (offered, offersClientBits) = read(offer) else { return nil }
            var terms = offered
            terms.serverNoContextTakeover = terms.serverNoContextTakeover || wish.serverNoContextTakeover == true
            terms.clientNoContextTakeover = terms.clientNoContextTakeover || wish.clientNoContextTakeover == true
            terms.serverMaxWindowBits = min(max(wish.serverMaxWindowBits ?? 15, 9), terms.serverMaxWindowBits)
            // Only a client that offered the parameter may receive it (RFC 7692, 7.1.2.2).
            let clientBits = offersClientBits ? wish.clientMaxWindowBits ?? 15 : 15
            terms.clientMaxWindowBits = min(max(clientBits, 8), terms.clientMaxWindowBits)
            return terms
        }.first
    }

    /// Returns the terms of an offer, or `nil` for another extension and for invalid parameters.
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
            // 8 is valid, but zlib can't write it.
            case ("server_max_window_bits", let bits?) where (9...15).contains(bits): terms.serverMaxWindowBits = bits
            default: return nil
            }
        }
        return (terms, seen.contains("client_max_window_bits"))
    }

    /// The terms as the value of `Sec-WebSocket-Extensions`.
    var words: String {
        var words = ["permessage-deflate"]
        if serverNoContextTakeover { words.append("server_no_context_takeover") }
        if clientNoContextTakeover { words.append("client_no_context_takeover") }
        if serverMaxWindowBits < 15 { words.append("server_max_window_bits=\(serverMaxWindowBits)") }
        if clientMaxWindowBits < 15 { words.append("client_max_window_bits=\(clientMaxWindowBits)") }
        return words.joined(separator: "; ")
    }
}
