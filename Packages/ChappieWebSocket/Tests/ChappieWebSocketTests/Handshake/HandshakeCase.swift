import ChappieCore
import HTTPTypes
import Testing

@testable import ChappieWebSocket

/// An answer to an opening handshake, and what it must come to in any chunking.
struct HandshakeCase: CustomTestStringConvertible {
    let name: String
    let input: [UInt8]
    var headerFields: HTTPFields = [:]
    var compression = WebSocketCompression.permessageDeflate
    let expected: HandshakeRun

    var testDescription: String { name }

    /// The lines of a good answer, without its end.
    static let good = [
        "HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade",
        "Sec-WebSocket-Accept: \(HandshakeRun.accept)",
    ]

    static func head(_ lines: [String]) -> String { lines.map { $0 + "\r\n" }.joined() + "\r\n" }

    /// An answer that is accepted.
    init(
        _ name: String, lines: [String] = good, behind: [UInt8] = [], offers subprotocols: String? = nil,
        compression: WebSocketCompression = .permessageDeflate, subprotocol: String? = nil,
        negotiated: DeflateParameters? = nil
    ) {
        self.name = name
        input = Array(Self.head(lines).utf8) + behind
        if let subprotocols { headerFields[.secWebSocketProtocol] = subprotocols }
        self.compression = compression
        var fields = HTTPFields()
        let last = lines.lastIndex { $0.hasPrefix("HTTP/") } ?? 0
        for line in lines[(last + 1)...] {
            let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false).map { String($0) }
            guard parts.count == 2, let field = HTTPField.Name(parts[0]) else { continue }
            fields.append(HTTPField(name: field, value: parts[1].filter { $0 != "\t" }.trimmed))
        }
        expected = .opened(
            WebSocketUpgrade(
                headerFields: fields, subprotocol: subprotocol, compression: negotiated, leftover: behind))
    }

    /// An answer that is an error.
    init(
        _ name: String, _ text: String, offers subprotocols: String? = nil,
        compression: WebSocketCompression = .permessageDeflate, fails error: WebSocketHandshakeError
    ) {
        self.name = name
        input = Array(text.utf8)
        if let subprotocols { headerFields[.secWebSocketProtocol] = subprotocols }
        self.compression = compression
        expected = .failed(error)
    }

    /// An answer with another status.
    init(
        _ name: String, _ text: String, status: HTTPResponse.Status, fields: HTTPFields, body: String,
        isComplete: Bool = true
    ) {
        self.name = name
        input = Array(text.utf8)
        expected = .refused(status, fields, body: Array(body.utf8), isComplete: isComplete)
    }
}

extension String {
    fileprivate var trimmed: String {
        String(drop { $0 == " " }.reversed().drop { $0 == " " }.reversed())
    }
}
