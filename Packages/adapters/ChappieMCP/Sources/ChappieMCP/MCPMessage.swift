import ChappieAuth
@_spi(ChappieInternals) import ChappieCore

/// Functions that read and make parts of the protocol's messages.
enum MCPMessage {
    static var clientInfo: ChappieJSON { ["name": "chappie", "version": .string(ChappieVersion.current)] }

    /// The members that each request contains instead of a handshake.
    static var statement: ChappieJSONObject {
        [
            "io.modelcontextprotocol/protocolVersion": .string(MCPSession.statelessVersion),
            "io.modelcontextprotocol/clientInfo": clientInfo, "io.modelcontextprotocol/clientCapabilities": [:],
        ]
    }

    static func notification(_ method: String, _ parameters: ChappieJSON? = nil) -> ChappieJSON {
        var message: ChappieJSONObject = ["jsonrpc": "2.0", "method": .string(method)]
        message["params"] = parameters
        return .object(message)
    }

    /// Returns whether a value is a message. Some servers omit the version.
    static func isMessage(_ value: ChappieJSON) -> Bool {
        if let version = value["jsonrpc"] { return version.string == "2.0" }
        return number(value["id"]) != nil && (value["result"]?.object != nil || value["error"]?.object != nil)
    }

    /// Returns the number of a request in an answer. Some servers return it as text.
    static func number(_ id: ChappieJSON?) -> Int? { id?.int ?? id?.string.flatMap(Int.init) }

    /// Returns the features that the server declares. A server that declares none is asked for tools.
    static func offers(_ answer: ChappieJSON) -> Set<MCPOffer> {
        let declared = MCPOffer.allCases.filter { answer["capabilities"]?[$0.rawValue]?.object != nil }
        return declared.isEmpty ? [.tools] : Set(declared)
    }

    /// Returns the addresses of the pages that an error asks the user to open (revision 2025-11-25, "Elicitation").
    static func addresses(_ error: ChappieJSON) -> [String] {
        guard error["code"]?.int == needsVisit else { return [] }
        return addresses(in: error["data"]?["elicitations"]?.array ?? [])
    }

    /// Returns the addresses of elicitations.
    static func addresses(in elicitations: [ChappieJSON]) -> [String] {
        elicitations.prefix(4).compactMap { entry in
            guard let address = UntrustedText.token(entry["url"]?.string, limit: 2000), let url = URL(string: address),
                ["https", "http"].contains(url.scheme?.lowercased()), url.host() != nil
            else { return nil }
            return address
        }
    }

    /// The error of a server whose user must first open a page.
    private static let needsVisit = -32042
}

/// A server's report about a call that is under way.
struct MCPProgress: Sendable, Hashable {
    /// The report on one line, cleaned for display.
    let line: String

    /// Reads the parameters of `notifications/progress`.
    init(_ parameters: ChappieJSON) {
        let count = [parameters["progress"], parameters["total"]].compactMap { number in
            UntrustedText.token(number?.serialized(), limit: 12)
        }
        let message = UntrustedText.message(parameters["message"]?.string, limit: 120) ?? ""
        line = [count.joined(separator: " of "), message].filter { !$0.isEmpty }.joined(separator: ", ")
    }
}

extension MCPSession {
    /// The limits for a server. Each comment names a server that would exceed the limit.
    struct Limits: Sendable {
        /// The largest number of bytes in a line. An image in Base64 has a few MiB.
        var line = 16 << 20
        /// The largest number of consecutive lines that are not messages. A program that prints its log, or that is not
        /// a server, would exceed it.
        var garbage = 100
        /// The largest number of bytes without an expected answer. A server in a loop would exceed it.
        var unasked = 64 << 20
        /// The largest number of messages without an expected answer. A server that sends nothing but pings would exceed
        /// it.
        var unaskedMessages = 50_000
        /// The largest number of pages in a list. A server that invents a cursor for each page would exceed it.
        var pages = 100
        /// The largest number of entries in a list. A server with more tools than a model can choose from would exceed
        /// it.
        var entries = 1000
        /// The largest number of bytes that the server has not read yet. A server that is called, or sends pings, and
        /// never reads would exceed it.
        var unread = 32 << 20
    }
}

/// The header fields that repeat parts of a message (revision 2026-07-28, "Streamable HTTP").
enum MCPHeader {
    /// Returns `text` as a field's value. Text that a field cannot carry is sent as Base64 between two marks.
    static func value(_ text: String) -> String {
        let isPlain = text.utf8.allSatisfy { (0x20...0x7E).contains($0) } && text.first != " " && text.last != " "
        guard !isPlain || (text.hasPrefix("=?base64?") && text.hasSuffix("?=")) else { return text }
        return "=?base64?\(Data(Array(text.utf8)).base64EncodedString())?="
    }
}
