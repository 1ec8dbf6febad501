@_spi(ChappieInternals) import ChappieCore
import HTTPTypes
import TestFixtures
import Testing

@testable import ChappieWebSocket

/// The result of an answer to the opening handshake, which is the same for every chunking.
private struct HandshakeRun: Hashable {
    var answer: WebSocketHandshake.Answer?
    /// The bytes after the head of an accepted handshake.
    var behind: [UInt8] = []
    var error: String?

    /// "the sample nonce" of RFC 6455, 1.3, and the answer to it.
    static let nonce: UInt128 = 0x7468_6520_7361_6D70_6C65_206E_6F6E_6365
    static let good = [
        "HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade",
        "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=",
    ]

    static func handshake(
        _ headerFields: HTTPFields = [:], offersCompression: Bool = true
    ) throws(WebSocketError) -> WebSocketHandshake {
        try WebSocketHandshake(
            target: "/chat?a=b", authority: "server.example.com", headerFields: headerFields,
            offersCompression: offersCompression, nonce: nonce)
    }

    static func head(_ lines: [String]) -> String { lines.map { $0 + "\r\n" }.joined() + "\r\n" }

    init(_ chunks: [[UInt8]], _ headerFields: HTTPFields = [:], offersCompression: Bool = true) {
        do throws(WebSocketError) {
            var handshake = try Self.handshake(headerFields, offersCompression: offersCompression)
            for chunk in chunks {
                try chunk.withUnsafeBufferPointer { bytes throws(WebSocketError) in
                    var rest = UnsafeRawBufferPointer(bytes)
                    if answer == nil { answer = try handshake.receivedBytes(&rest) }
                    if case .opened? = answer { behind += rest }
                }
            }
            answer = answer ?? handshake.refusedSoFar
        } catch {
            self.error = error.reason
        }
    }

    /// The one run of every chunking.
    static func ofEveryChunking(
        _ text: String, _ headerFields: HTTPFields = [:], offersCompression: Bool = true
    ) -> HandshakeRun {
        let bytes = Array(text.utf8)
        let whole = HandshakeRun([bytes], headerFields, offersCompression: offersCompression)
        forEachChunking(bytes) { chunks, label in
            let run = HandshakeRun(chunks, headerFields, offersCompression: offersCompression)
            #expect(run == whole, "\(text.debugDescription), \(label)")
        }
        return whole
    }

    var fields: HTTPFields? { if case .opened(let fields, _)? = answer { fields } else { nil } }
}

@Suite(.byItself) struct HandshakeTests {
    private static let good = HandshakeRun.good
    private static let goodFields: HTTPFields = [
        .upgrade: "websocket", .connection: "Upgrade", .secWebSocketAccept: "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=",
    ]

    // MARK: The request

    @Test func writesTheRequestOfRFC6455() throws {
        let handshake = try HandshakeRun.handshake()
        #expect(
            String(decoding: handshake.requestBytes, as: UTF8.self) == """
                GET /chat?a=b HTTP/1.1\r
                Host: server.example.com\r
                Connection: Upgrade\r
                Upgrade: websocket\r
                Sec-WebSocket-Version: 13\r
                Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r
                Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r
                \r

                """)
    }

    @Test func `the handshake includes the caller's fields and keeps its own`() throws {
        var fields: HTTPFields = [
            .authorization: "Bearer t", .secWebSocketProtocol: "chat,superchat", .connection: "close",
            .upgrade: "h2c", .secWebSocketKey: "x", .secWebSocketVersion: "8", .secWebSocketExtensions: "x-y",
            .contentLength: "5", .transferEncoding: "chunked",
        ]
        fields.append(HTTPField(name: try #require(HTTPField.Name("hOSt")), value: "elsewhere"))
        let handshake = try HandshakeRun.handshake(fields, offersCompression: false)
        #expect(
            String(decoding: handshake.requestBytes, as: UTF8.self) == """
                GET /chat?a=b HTTP/1.1\r
                Host: server.example.com\r
                Connection: Upgrade\r
                Upgrade: websocket\r
                Sec-WebSocket-Version: 13\r
                Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r
                Authorization: Bearer t\r
                Sec-WebSocket-Protocol: chat, superchat\r
                \r

                """)
    }

    @Test(
        "addresses that would break the head",
        arguments: [
            ("", "host"), ("chat", "host"), ("/a b", "host"), ("/a\r\nx: y", "host"), ("/é", "host"), ("/", ""),
            ("/", "host\r\nx: y"), ("/", "ho st"), ("/\u{7F}", "host"), ("/\0", "host"),
        ])
    func refusesAddressesThatBreakTheHead(_ target: String, _ authority: String) throws {
        let error = try #require(throws: WebSocketError.self) {
            _ = try WebSocketHandshake(target: target, authority: authority, nonce: 0)
        }
        #expect(error.code == .invalidURL)
    }

    // MARK: Answers that open the connection

    @Test("frames behind the head", arguments: ["", "\u{1}\u{5}Hello", "\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"])
    func leavesTheFramesBehindTheHead(_ behind: String) {
        let run = HandshakeRun.ofEveryChunking(HandshakeRun.head(Self.good) + behind)
        #expect(run.answer == .opened(Self.goodFields, nil))
        #expect(run.behind == Array(behind.utf8))
    }

    @Test(
        "answers that open the connection",
        arguments: [
            [
                "HTTP/1.1 101 ok", "uPGRADE: WebSocket", "CONNECTION: uPgRaDe",
                "sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=",
            ],
            ["HTTP/1.1 101 "] + good[1...], ["HTTP/1.1 101"] + good[1...],
            [good[0], good[1], "Connection: keep-alive , Upgrade", good[3]],
            [good[0], good[1], "Connection: x", "Connection: upgrade", good[3]],
            [good[0], "Upgrade:   websocket  ", "Connection:Upgrade", good[3]],
            good + ["X-Codex-Turn-State: abc", "Set-Cookie: a=b", "Empty:"],
            ["HTTP/1.1 100 Continue", "", "HTTP/1.1 103 Early Hints", "Location: /a", ""] + good,
            good + ["Sec-WebSocket-Protocol: b"], good + ["Sec-WebSocket-Extensions: , ,"],
        ])
    func accepts(_ lines: [String]) {
        let run = HandshakeRun.ofEveryChunking(HandshakeRun.head(lines), [.secWebSocketProtocol: "a, b"])
        #expect(run.fields?[.secWebSocketAccept] != nil, "\(run)")
        #expect(run.fields?[.location] == nil)
    }

    @Test(
        "choices of permessage-deflate",
        arguments: [
            ("permessage-deflate", DeflateParameters()), ("PerMessage-Deflate", DeflateParameters()),
            ("permessage-deflate;server_no_context_takeover", DeflateParameters(serverNoContextTakeover: true)),
            ("permessage-deflate ; client_no_context_takeover", DeflateParameters(clientNoContextTakeover: true)),
            ("permessage-deflate; server_max_window_bits=8", DeflateParameters(serverMaxWindowBits: 8)),
            ("permessage-deflate; client_max_window_bits=\"10\"", DeflateParameters(clientMaxWindowBits: 10)),
            (
                "permessage-deflate; server_max_window_bits = 15; client_max_window_bits=9; client_no_context_takeover; "
                    + "server_no_context_takeover",
                DeflateParameters(
                    serverNoContextTakeover: true, clientNoContextTakeover: true, serverMaxWindowBits: 15,
                    clientMaxWindowBits: 9)
            ),
        ])
    func negotiates(_ choice: String, _ parameters: DeflateParameters) {
        let run = HandshakeRun.ofEveryChunking(HandshakeRun.head(Self.good + ["Sec-WebSocket-Extensions: \(choice)"]))
        guard case .opened(_, let negotiated)? = run.answer else {
            Issue.record("\(run)")
            return
        }
        #expect(negotiated == parameters)
    }

    // MARK: Answers that are refused

    @Test(
        "101 for something else",
        arguments: [
            ([0, 2, 3], [], "it switched protocols, but not to WebSocket"),
            ([0, 2, 3], ["Upgrade: h2c"], "it switched protocols, but not to WebSocket"),
            ([0, 2, 3], ["Upgrade: h2c, websocket"], "it switched protocols, but not to WebSocket"),
            ([0, 1, 3], [], "it switched protocols without saying so for this connection"),
            ([0, 1, 3], ["Connection: upgraded"], "it switched protocols without saying so for this connection"),
            ([0, 1, 2], [], "it did not prove that it understood the WebSocket handshake"),
            (
                [0, 1, 2], ["Sec-WebSocket-Accept: S3pPLMBiTxaQ9kYGzzhZRbK+xOo="],
                "it did not prove that it understood the WebSocket handshake"
            ),
            ([0, 1, 2, 3, 3], [], "it did not prove that it understood the WebSocket handshake"),
            (
                [0, 1, 2, 3], ["Sec-WebSocket-Protocol: A"],
                "it chose a WebSocket subprotocol that was not offered"
            ),
            (
                [0, 1, 2, 3], ["Sec-WebSocket-Protocol: a", "Sec-WebSocket-Protocol: b"],
                "it chose a WebSocket subprotocol that was not offered"
            ),
        ])
    func refusesWrongUpgrades(_ kept: [Int], _ others: [String], _ reason: String) {
        let text = HandshakeRun.head(kept.map { Self.good[$0] } + others)
        #expect(HandshakeRun.ofEveryChunking(text, [.secWebSocketProtocol: "a, b"]).error == reason)
    }

    @Test(
        "extensions that were not offered or make no sense",
        arguments: [
            "x-webkit-deflate-frame", "permessage-deflate, permessage-deflate", "permessage-deflate, x", "permessage",
            "permessage-deflate; client_max_window_bits", "permessage-deflate; server_max_window_bits",
            "permessage-deflate; server_max_window_bits=7", "permessage-deflate; server_max_window_bits=16",
            "permessage-deflate; server_max_window_bits=08", "permessage-deflate; server_max_window_bits=+9",
            "permessage-deflate; server_max_window_bits=\"\"", "permessage-deflate; server_max_window_bits=",
            "permessage-deflate; server_max_window_bits=99999999999999999999",
            "permessage-deflate; server_no_context_takeover=1", "permessage-deflate; client_no_context_takeover=true",
            "permessage-deflate; client_no_context_takeover; client_no_context_takeover", "permessage-deflate; unknown",
            "permessage-deflate;", "permessage-deflate; ;", "permessage-deflate client_no_context_takeover", ";", "=",
            "permessage-deflate; client_max_window_bits=\"1", "permessage-deflate; client_max_window_bits=\"1\\",
        ])
    func refusesWrongExtensions(_ choice: String) {
        let run = HandshakeRun.ofEveryChunking(HandshakeRun.head(Self.good + ["Sec-WebSocket-Extensions: \(choice)"]))
        #expect(run.error == "it chose a WebSocket extension that was not offered")
    }

    @Test func refusesCompressionThatWasNotOffered() {
        let text = HandshakeRun.head(Self.good + ["Sec-WebSocket-Extensions: permessage-deflate"])
        let run = HandshakeRun.ofEveryChunking(text, offersCompression: false)
        #expect(run.error == "it chose a WebSocket extension that was not offered")
    }

    @Test(
        "status lines that are none",
        arguments: [
            "SSH-2.0-OpenSSH", "", "HTTP/1.1", "HTTP/1.1 1O1 x", "HTTP/1.1 1010 x", "HTTP/1.1 099 x", "HTTP/1.1 600 x",
            "HTTP/2 200 x", "http/1.1 200 x", "HTTP/1.1  200 x", "HTTP/1.1 200 a\0b", "HTTP/1.0 101 x",
        ])
    func refusesWrongStatusLines(_ line: String) {
        let run = HandshakeRun.ofEveryChunking(HandshakeRun.head([line] + Self.good[1...]))
        #expect(run.error == "its status line can't be understood")
    }

    @Test(
        "header fields that are none",
        arguments: [
            "no colon", ": no name", "a name: x", "name : x", "na\u{E9}me: x", "name: a\0b", "name: a\rb",
            "name: a\u{7F}b", "first: a\r\n folded: b", "first: a\r\n\tfolded",
        ])
    func refusesWrongFields(_ field: String) {
        let run = HandshakeRun.ofEveryChunking(HandshakeRun.head(Self.good + [field]))
        #expect(run.error == "one of its header fields can't be understood")
    }

    @Test func waitsForTheEndOfTheHead() {
        let head = Array(HandshakeRun.head(Self.good).utf8)
        for end in 0..<head.count {
            let run = HandshakeRun([Array(head[..<end])])
            #expect(run.answer == nil && run.error == nil, "\(end)")
        }
    }

    @Test("a head has at most 64 KiB", arguments: [0, 1])
    func aHeadHasABound(_ excess: Int) throws {
        let rest = HandshakeRun.head(Self.good).utf8.count + "X: \r\n".utf8.count
        let filler = String(repeating: "x", count: WebSocketHandshake.maximumHeadBytes - rest + excess)
        let head = Array(HandshakeRun.head(Self.good + ["X: \(filler)"]).utf8)
        let pieces = stride(from: 0, to: head.count, by: 1000).map { Array(head[$0..<min($0 + 1000, head.count)]) }
        for run in [HandshakeRun([head]), HandshakeRun(pieces)] {
            #expect(run.error == (excess == 0 ? nil : "its response head is over 65536 bytes"))
            #expect((run.answer == nil) == (excess > 0))
        }
    }

    // MARK: Other answers come with their bodies

    @Test(
        "bodies of refusals",
        arguments: [
            (401, "Content-Length: 5\r\nX: y\r\n\r\nhello", "hello"),
            (429, "Content-Length: 7\r\n\r\nhello", "hello"), (426, "Content-Length: 2\r\n\r\nhello", "he"),
            (200, "Content-Length: 0\r\n\r\n", ""), (204, "\r\n", ""), (304, "Content-Length: 5\r\n\r\n", ""),
            (
                503, "Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\nA;x=y\r\nlo, world!\r\n0\r\nT: u\r\n\r\n",
                "hello, world!"
            ),
            (200, "Transfer-Encoding: Chunked\n\n2\nhi\n0\n\n", "hi"),
            (200, "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n", "hi"),
            (200, "Content-Length: 99\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", "hi"),
            (404, "\r\nhello", "hello"), (200, "Transfer-Encoding: chunked, gzip\r\n\r\nhi", "hi"),
            // Framed wrongly: what came until then.
            (500, "Content-Length: -1\r\n\r\nhello", ""), (500, "Content-Length: 5x\r\n\r\nhello", "hello"),
            (500, "Content-Length: 18446744073709551616\r\n\r\nhello", "hello"),
            (500, "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\nx\r\n", "hi"),
            (500, "Transfer-Encoding: chunked\r\n\r\n-1\r\nhello", ""),
            (500, "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nhello", ""),
        ])
    func deliversRefusals(_ status: Int, _ rest: String, _ body: String) {
        let run = HandshakeRun.ofEveryChunking("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 \(status) No\r\n\(rest)")
        guard case .refused(let head, let content)? = run.answer else {
            Issue.record("\(run)")
            return
        }
        #expect(head.status.code == status)
        #expect(content == Array(body.utf8))
    }

    @Test("a whole body is not waited for any longer", arguments: [true, false])
    func knowsWhenABodyIsWhole(_ isWhole: Bool) throws {
        for answer in ["Content-Length: 5\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"] {
            var handshake = try HandshakeRun.handshake()
            let bytes = Array("HTTP/1.1 500 x\r\n\(answer)".utf8).dropLast(isWhole ? 0 : 3)
            try bytes.withUnsafeBufferPointer { bytes throws(WebSocketError) in
                var rest = UnsafeRawBufferPointer(bytes)
                #expect((try handshake.receivedBytes(&rest) != nil) == isWhole, "\(answer)")
            }
        }
    }

    // MARK: SHA-1

    @Test(
        "published vectors (FIPS 180), and messages around the size of a block",
        arguments: [
            ("", "da39a3ee5e6b4b0d3255bfef95601890afd80709"), ("abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
            (
                "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                "84983e441c3bd26ebaae4aa1f95129e5e54670f1"
            ),
            (String(repeating: "a", count: 55), "c1c8bbdc22796e28c0e15163d20899b65621d65a"),
            (String(repeating: "a", count: 56), "c2db330f6083854c99d4b5bfb6e8f29f201be699"),
            (String(repeating: "a", count: 64), "0098ba824b5c16427bd7a1122a5a442a25ec644d"),
            (String(repeating: "a", count: 1000), "291e9a6c66994949b57ba5e650361e98fc36b1ba"),
        ])
    func digests(_ message: String, _ digest: String) {
        #expect(SHA1.digest(Array(message.utf8)) == hex(digest))
    }
}
