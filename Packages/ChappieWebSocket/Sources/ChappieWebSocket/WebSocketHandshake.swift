import ChappieCore
@_spi(ChappieInternals) import ChappieCurl
import FoundationEssentials
import HTTPTypes

/// The client's opening handshake (RFC 6455, 4.1), from the request to the answer.
///
/// Linear: each step consumes the handshake and gives what comes next, so that nothing can be read after the answer.
///
/// ```swift
/// let handshake = try WebSocketHandshake(target: "/chat", authority: "example.org", nonce: .random(in: .min ... .max))
/// // send handshake.requestBytes, then for whatever arrives:
/// switch try handshake.receivedBytes(bytes) {
/// case .needsMore(let waiting): …
/// case .opened(let upgrade): …
/// case .refused(let head, let rest): …
/// }
/// ```
struct WebSocketHandshake: ~Copyable {
    enum Progress: ~Copyable {
        /// The answer is not whole yet.
        case needsMore(WebSocketHandshake)
        /// The server switched protocols.
        case opened(WebSocketUpgrade)
        /// It answered with another status; what came behind the head begins its body.
        case refused(ResponseHead, rest: [UInt8])
    }

    /// Over all heads of the answer together.
    static let maximumHeadBytes = 64 << 10

    /// The request to send to the server, once.
    let requestBytes: [UInt8]
    private let expectedAccept: String
    private let subprotocols: [String]
    private let compression: WebSocketCompression
    private var parser = ResponseHeadParser(byteLimit: Self.maximumHeadBytes, isStrict: true)
    /// The beginning of a line of the answer.
    private var line: [UInt8] = []

    /// - Parameters:
    ///   - target: path and query, in origin form, percent-encoded.
    ///   - authority: host, and port where it is not the scheme's own.
    ///   - headerFields: sent as given, but for the handshake's own (`Host`, `Connection`, `Upgrade`,
    ///     `Sec-WebSocket-…`) and those that announce a body, which are left out. Subprotocols are offered by
    ///     `Sec-WebSocket-Protocol`, in order of preference.
    ///   - nonce: unpredictable, and another one for each handshake.
    /// - Throws: `.invalidRequest` when target or authority can't stand in a request line or a field.
    init(
        target: String, authority: String, headerFields: HTTPFields = [:],
        compression: WebSocketCompression = .permessageDeflate, nonce: UInt128
    ) throws(WebSocketHandshakeError) {
        guard target.utf8.first == UInt8(ascii: "/"), !authority.isEmpty,
            (target + authority).utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        else { throw .invalidRequest }
        let key = withUnsafeBytes(of: nonce.bigEndian) { Data($0) }.base64EncodedString()
        subprotocols = headerFields[values: .secWebSocketProtocol].flatMap { $0.split(separator: ",") }.map {
            String($0.filter { $0 != " " && $0 != "\t" })
        }
        self.compression = compression
        expectedAccept = Self.accept(for: key)

        var fields = HTTPFields()
        fields[.connection] = "Upgrade"
        fields[.upgrade] = "websocket"
        fields[.secWebSocketVersion] = "13"
        fields[.secWebSocketKey] = key
        for field in headerFields where !Self.isReserved(field.name) { fields.append(field) }
        if !subprotocols.isEmpty { fields[.secWebSocketProtocol] = subprotocols.joined(separator: ", ") }
        if let offer = compression.offer { fields[.secWebSocketExtensions] = offer }
        requestBytes = Self.request(target: target, authority: authority, fields: fields)
    }

    /// Takes bytes from the server, in any chunking.
    ///
    /// - Throws: an answer that is no HTTP, or a 101 that RFC 6455, 4.1 forbids to accept. An answer with another status
    ///   is no error.
    consuming func receivedBytes(_ bytes: UnsafeRawBufferPointer) throws(WebSocketHandshakeError) -> Progress {
        for (index, byte) in bytes.enumerated() {
            line.append(byte)
            guard byte == 0x0A || line.count > Self.maximumHeadBytes else { continue }
            let outcome = parser.receivedLine(line)
            line.removeAll(keepingCapacity: true)
            switch outcome {
            case .more: continue
            case .failed(let clause): throw .invalidHead(clause)
            case .complete(let head):
                let rest = Array(bytes[(index + 1)...])
                return head.status.code == 101 ? .opened(try upgrade(head, leftover: rest)) : .refused(head, rest: rest)
            }
        }
        return .needsMore(self)
    }

    /// The connection has ended before the answer was whole.
    consuming func connectionClosed() -> WebSocketHandshakeError { .connectionClosed }

    // MARK: The answer

    private func upgrade(
        _ head: ResponseHead, leftover: [UInt8]
    ) throws(WebSocketHandshakeError) -> WebSocketUpgrade {
        let fields = head.headerFields
        guard HeaderList.tokens(fields[values: .upgrade]) == ["websocket"] else { throw .missingUpgrade }
        guard HeaderList.tokens(fields[values: .connection]).contains("upgrade") else { throw .missingConnection }
        guard fields[values: .secWebSocketAccept] == [expectedAccept] else { throw .wrongAccept }
        let chosen = fields[values: .secWebSocketProtocol]
        guard chosen.isEmpty || chosen.count == 1 && subprotocols.contains(chosen[0]) else {
            throw .unofferedSubprotocol
        }
        let parameters = try DeflateParameters.negotiated(fields[values: .secWebSocketExtensions], offered: compression)
        return WebSocketUpgrade(
            headerFields: fields, subprotocol: chosen.first, compression: parameters, leftover: leftover)
    }

    /// The answer that proves that a server has understood a key (RFC 6455, 4.2.2, 5.4).
    static func accept(for key: String) -> String {
        Data(SHA1.digest(Array((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").utf8))).base64EncodedString()
    }

    // MARK: The request

    /// The handshake's own fields, and those that would announce a body.
    private static func isReserved(_ name: HTTPField.Name) -> Bool {
        switch name {
        case .connection, .upgrade, .contentLength, .transferEncoding: true
        default: name.canonicalName == "host" || name.canonicalName.hasPrefix("sec-websocket-")
        }
    }

    private static func request(target: String, authority: String, fields: HTTPFields) -> [UInt8] {
        var bytes = Array("GET \(target) HTTP/1.1\r\nHost: \(authority)\r\n".utf8)
        for field in fields {
            bytes += field.name.rawName.utf8
            bytes += ": ".utf8
            field.withUnsafeBytesOfValue { bytes += $0 }
            bytes += "\r\n".utf8
        }
        return bytes + Array("\r\n".utf8)
    }
}

/// A handshake that the server has accepted.
struct WebSocketUpgrade: Sendable, Hashable {
    /// Those of the 101 answer.
    let headerFields: HTTPFields
    /// The server's choice among those offered; `nil` when it chose none.
    let subprotocol: String?
    /// `nil`: no compression.
    let compression: DeflateParameters?
    /// The bytes behind the head: the first frames. To be given to the codec first.
    let leftover: [UInt8]
}
