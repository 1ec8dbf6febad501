@_spi(ChappieInternals) import ChappieCore
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
        /// The server answered with another status.
        case refused(ResponseHead, body: [UInt8])
    }

    /// The limit for all heads of the answer together, in bytes.
    static let maximumHeadBytes = 64 << 10

    /// The request, which the caller sends once.
    let requestBytes: [UInt8]
    private let expectedAccept: String
    private let subprotocols: [String]
    private let offersCompression: Bool
    private var parser = ResponseHeadParser(byteLimit: Self.maximumHeadBytes, isStrict: true)
    /// The bytes so far of the current line of the answer.
    private var line: [UInt8] = []
    private var refusal: RefusalBody?

    /// Creates a handshake.
    ///
    /// - Parameters:
    ///   - target: The path and the query, in origin form, percent-encoded.
    ///   - authority: The host, with the port if it is not the scheme's default.
    ///   - headerFields: The header fields. They are sent unchanged, except for the handshake's own fields (`Host`,
    ///     `Connection`, `Upgrade`, `Sec-WebSocket-…`) and the fields that announce a body, which are omitted.
    ///     `Sec-WebSocket-Protocol` offers subprotocols, in order of preference.
    ///   - nonce: A number that must be unpredictable, and different for each handshake.
    /// - Throws: `.invalidURL` if the target or the authority contains characters that a request can't contain.
    init(
        target: String, authority: String, headerFields: HTTPFields = [:], offersCompression: Bool = true,
        nonce: UInt128
    ) throws(WebSocketError) {
        guard target.utf8.first == UInt8(ascii: "/"), !authority.isEmpty,
            (target + authority).utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        else { throw WebSocketError(code: .invalidURL, reason: "the address can't be sent in a request") }
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

    /// Returns whether a field belongs to the handshake itself, or would announce a body.
    private static func isReserved(_ name: HTTPField.Name) -> Bool {
        switch name {
        case .connection, .upgrade, .contentLength, .transferEncoding: true
        default: name.canonicalName == "host" || name.canonicalName.hasPrefix("sec-websocket-")
        }
    }

    /// Takes bytes from the server, in any chunking. The bytes after the head of an accepted handshake are left in
    /// `rest`.
    ///
    /// - Returns: The answer, or `nil` if it is not complete.
    /// - Throws: A violation if the answer is not HTTP, or is a 101 that RFC 6455, 4.1 forbids. An answer
    ///   with another status is not an error.
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

    /// A refusal whose head is complete, with the body so far. A body that is cut off does not change the answer.
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

    /// Returns the value that proves that a server has understood a key (RFC 6455, 4.2.2, 5.4).
    static func accept(for key: String) -> String {
        Data(SHA1.digest(Array((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").utf8))).base64EncodedString()
    }

    /// Returns the members of a list (RFC 9110, 5.6.1) without empty ones.
    private static func members(of list: String) -> [String] {
        list.split(separator: ",").map(trimmed).filter { !$0.isEmpty }
    }
}

/// Returns `text` without the spaces and tabs around it.
private func trimmed(_ text: Substring) -> String {
    let isSpace: (Character) -> Bool = { $0 == " " || $0 == "\t" }
    return String(text.drop(while: isSpace).reversed().drop(while: isSpace).reversed())
}

/// The parameters that both sides agreed on for permessage-deflate (RFC 7692, 7.1).
struct DeflateParameters: Sendable, Hashable {
    /// Whether the server compresses each message separately.
    var serverNoContextTakeover = false
    /// Whether the client compresses each message separately.
    var clientNoContextTakeover = false
    /// The server's largest window, as a power of two, 8 to 15.
    var serverMaxWindowBits = 15
    /// The client's largest window, as a power of two, 8 to 15.
    var clientMaxWindowBits = 15
}

extension DeflateParameters {
    /// Reads the server's choice, such as `permessage-deflate; client_max_window_bits=12`. Returns `nil` if it is
    /// another extension, or has parameters that RFC 7692, 7.1 forbids.
    init?(_ choice: String) {
        self.init()
        let parts = choice.split(separator: ";", omittingEmptySubsequences: false).map(trimmed)
        guard parts[0].lowercased() == "permessage-deflate" else { return nil }
        var seen: Set<String> = []
        for part in parts.dropFirst() {
            let words = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(trimmed)
            guard seen.insert(words[0]).inserted else { return nil }
            // The number is decimal, without leading zeros, and may be quoted.
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

/// The body of an answer other than 101 (RFC 9112, 6.3 and 7.1). It is limited, since it only explains the refusal. A
/// body whose framing is wrong ends there.
private struct RefusalBody {
    static let limitBytes = 64 << 10

    private enum Framing { case counted(Int), chunked, untilClose }

    let head: ResponseHead
    private let framing: Framing
    private var bytes: [UInt8] = []
    /// The body without its framing.
    private(set) var content: [UInt8] = []
    private(set) var isComplete = false

    init(_ head: ResponseHead) {
        self.head = head
        let coding = head.headerFields[.transferEncoding]?.lowercased()
        if head.status.code == 204 || head.status.code == 304 {
            framing = .counted(0)
        } else if let coding {
            // With any other last coding, the body ends with the connection (RFC 9112, 6.3).
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

    /// Reads the chunks. Each chunk is a line with its size in hexadecimal digits, its bytes, and a line end. The chunk
    /// of size 0 ends the body.
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
