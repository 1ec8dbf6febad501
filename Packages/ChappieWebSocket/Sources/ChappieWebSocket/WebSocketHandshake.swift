import ChappieCore
@_spi(ChappieInternals) import ChappieCurl
import FoundationEssentials
import HTTPTypes

/// The client's opening handshake (RFC 6455, 4.1), from the request to the answer.
///
/// ```swift
/// var handshake = try WebSocketHandshake(target: "/chat", authority: "example.org", nonce: .random(in: .min ... .max))
/// // send handshake.requestBytes, then for whatever arrives:
/// if let answer = try handshake.receivedBytes(&bytes) { … }
/// ```
struct WebSocketHandshake {
    enum Answer: Hashable {
        /// The server switched protocols.
        case opened(HTTPFields, DeflateParameters?)
        /// It answered with another status.
        case refused(ResponseHead, body: [UInt8])
    }

    /// Over all heads of the answer together.
    static let maximumHeadBytes = 64 << 10

    /// The request to send to the server, once.
    let requestBytes: [UInt8]
    private let expectedAccept: String
    private let subprotocols: [String]
    private let offersCompression: Bool
    private var parser = ResponseHeadParser(byteLimit: Self.maximumHeadBytes, isStrict: true)
    /// The beginning of a line of the answer.
    private var line: [UInt8] = []
    private var refusal: RefusalBody?

    /// - Parameters:
    ///   - target: path and query, in origin form, percent-encoded.
    ///   - authority: host, and port where it is not the scheme's own.
    ///   - headerFields: sent as given, but for the handshake's own (`Host`, `Connection`, `Upgrade`,
    ///     `Sec-WebSocket-…`) and those that announce a body, which are left out. Subprotocols are offered by
    ///     `Sec-WebSocket-Protocol`, in order of preference.
    ///   - nonce: unpredictable, and another one for each handshake.
    /// - Throws: when target or authority can't stand in a request line or a field.
    init(
        target: String, authority: String, headerFields: HTTPFields = [:], offersCompression: Bool = true,
        nonce: UInt128
    ) throws(WebSocketError) {
        guard target.utf8.first == UInt8(ascii: "/"), !authority.isEmpty,
            (target + authority).utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        else { throw WebSocketError(code: .invalidURL, reason: "the address can't stand in a request") }
        let key = withUnsafeBytes(of: nonce.bigEndian) { Data($0) }.base64EncodedString()
        expectedAccept = Self.accept(for: key)
        subprotocols = headerFields[values: .secWebSocketProtocol].flatMap { Self.members(of: $0) }
        self.offersCompression = offersCompression

        var fields = HTTPFields()
        fields[.connection] = "Upgrade"
        fields[.upgrade] = "websocket"
        fields[.secWebSocketVersion] = "13"
        fields[.secWebSocketKey] = key
        for field in headerFields where !Self.isReserved(field.name) { fields.append(field) }
        if !subprotocols.isEmpty { fields[.secWebSocketProtocol] = subprotocols.joined(separator: ", ") }
        if offersCompression { fields[.secWebSocketExtensions] = "permessage-deflate; client_max_window_bits" }
        var request = Array("GET \(target) HTTP/1.1\r\nHost: \(authority)\r\n".utf8)
        for field in fields {
            request += "\(field.name.rawName): ".utf8
            field.withUnsafeBytesOfValue { request += $0 }
            request += "\r\n".utf8
        }
        requestBytes = request + Array("\r\n".utf8)
    }

    /// The handshake's own fields, and those that would announce a body.
    private static func isReserved(_ name: HTTPField.Name) -> Bool {
        switch name {
        case .connection, .upgrade, .contentLength, .transferEncoding: true
        default: name.canonicalName == "host" || name.canonicalName.hasPrefix("sec-websocket-")
        }
    }

    /// Takes bytes from the server, in any chunking; what comes behind the head of an accepted handshake is left in `rest`.
    ///
    /// - Returns: `nil` while the answer is not whole.
    /// - Throws: an answer that is no HTTP, or a 101 that RFC 6455, 4.1 forbids to accept. An answer with another status
    ///   is no error.
    mutating func receivedBytes(_ rest: inout UnsafeRawBufferPointer) throws(WebSocketError) -> Answer? {
        while refusal == nil, !rest.isEmpty {
            let piece = rest.takePrefix((rest.firstIndex(of: 0x0A) ?? rest.count) + 1)
            line += piece
            guard line.last == 0x0A || line.count > Self.maximumHeadBytes else { return nil }
            let outcome = parser.receivedLine(line)
            line.removeAll(keepingCapacity: true)
            switch outcome {
            case .more: continue
            case .failed(let clause): throw .violation(clause)
            case .complete(let head) where head.status.code == 101: return try opened(head.headerFields)
            case .complete(let head): refusal = RefusalBody(head)
            }
        }
        refusal?.received(rest.takePrefix(rest.count))
        return refusal?.isComplete == true ? refusedSoFar : nil
    }

    /// A refusal whose head has come, with as much of its body as has: a body that breaks off does not change the answer.
    var refusedSoFar: Answer? { refusal.map { .refused($0.head, body: $0.content) } }

    private func opened(_ fields: HTTPFields) throws(WebSocketError) -> Answer {
        let upgrade = fields[values: .upgrade].flatMap { Self.members(of: $0.lowercased()) }
        guard upgrade == ["websocket"] else { throw .violation("it switched protocols, but not to WebSocket") }
        guard fields[values: .connection].flatMap({ Self.members(of: $0.lowercased()) }).contains("upgrade") else {
            throw .violation("it switched protocols without saying so for this connection")
        }
        guard fields[values: .secWebSocketAccept] == [expectedAccept] else {
            throw .violation("it did not prove that it understood the WebSocket handshake")
        }
        let chosen = fields[values: .secWebSocketProtocol]
        guard chosen.isEmpty || chosen.count == 1 && subprotocols.contains(chosen[0]) else {
            throw .violation("it chose a WebSocket subprotocol that was not offered")
        }
        let extensions = fields[values: .secWebSocketExtensions].flatMap { Self.members(of: $0) }
        guard let member = extensions.first else { return .opened(fields, nil) }
        guard offersCompression, extensions.count == 1, let parameters = DeflateParameters(member) else {
            throw .violation("it chose a WebSocket extension that was not offered")
        }
        return .opened(fields, parameters)
    }

    /// The answer that proves that a server has understood a key (RFC 6455, 4.2.2, 5.4).
    static func accept(for key: String) -> String {
        Data(SHA1.digest(Array((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").utf8))).base64EncodedString()
    }

    /// The members of a list (RFC 9110, 5.6.1), empty ones left out.
    private static func members(of list: String) -> [String] {
        list.split(separator: ",").map(trimmed).filter { !$0.isEmpty }
    }
}

/// `text` without the spaces and tabs around it.
private func trimmed(_ text: Substring) -> String {
    let isSpace: (Character) -> Bool = { $0 == " " || $0 == "\t" }
    return String(text.drop(while: isSpace).reversed().drop(while: isSpace).reversed())
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

extension DeflateParameters {
    /// Reads the server's choice, such as `permessage-deflate; client_max_window_bits=12`; `nil` when it is another
    /// extension, or has parameters that RFC 7692, 7.1 forbids.
    init?(_ choice: String) {
        self.init()
        let parts = choice.split(separator: ";", omittingEmptySubsequences: false).map(trimmed)
        guard parts[0].lowercased() == "permessage-deflate" else { return nil }
        var seen: Set<String> = []
        for part in parts.dropFirst() {
            let words = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(trimmed)
            guard seen.insert(words[0]).inserted else { return nil }
            // Decimal, without leading zeros, perhaps in quotes.
            let bits = words.count == 2 ? (8...15).first { [String($0), "\"\($0)\""].contains(words[1]) } : nil
            switch (words[0], words.count, bits) {
            case ("server_no_context_takeover", 1, _): serverNoContextTakeover = true
            case ("client_no_context_takeover", 1, _): clientNoContextTakeover = true
            case ("server_max_window_bits", _, let bits?): serverMaxWindowBits = bits
            case ("client_max_window_bits", _, let bits?): clientMaxWindowBits = bits
            default: return nil
            }
        }
    }
}

/// The body of an answer other than 101 (RFC 9112, 6.3 and 7.1), up to a limit: it says why the server refused, and no one
/// reads a page of a megabyte for that. One that is framed wrongly ends where it is.
private struct RefusalBody {
    static let limitBytes = 64 << 10

    private enum Framing { case counted(Int), chunked, untilClose }

    let head: ResponseHead
    private let framing: Framing
    private var bytes: [UInt8] = []
    /// Without the framing.
    private(set) var content: [UInt8] = []
    private(set) var isComplete = false

    init(_ head: ResponseHead) {
        self.head = head
        let coding = head.headerFields[.transferEncoding]?.lowercased()
        if head.status.code == 204 || head.status.code == 304 {
            framing = .counted(0)
        } else if let coding {
            // Any other last coding ends with the connection (RFC 9112, 6.3).
            framing = coding.hasSuffix("chunked") ? .chunked : .untilClose
        } else {
            framing = head.headerFields[.contentLength].flatMap { Int($0) }.map { .counted(max($0, 0)) } ?? .untilClose
        }
    }

    mutating func received(_ piece: UnsafeRawBufferPointer) {
        bytes += piece.prefix(Self.limitBytes - bytes.count)
        switch framing {
        case .untilClose: content = bytes
        case .counted(let count):
            content = Array(bytes.prefix(count))
            isComplete = content.count == count
        case .chunked: readChunks()
        }
        isComplete = isComplete || bytes.count == Self.limitBytes
    }

    /// Each chunk is a line with its size in hexadecimal digits, the bytes, and a line end; the one of size 0 is the last.
    private mutating func readChunks() {
        content = []
        var rest = bytes[...]
        while let lineEnd = rest.firstIndex(of: 0x0A) {
            let digits = rest.prefix { Character(Unicode.Scalar($0)).isHexDigit }
            guard let size = Int(String(decoding: digits, as: UTF8.self), radix: 16), size > 0 else {
                isComplete = true
                return
            }
            rest = rest[(lineEnd + 1)...]
            content += rest.prefix(size)
            rest = rest.dropFirst(size).drop { $0 == 0x0D }.dropFirst()
        }
    }
}
