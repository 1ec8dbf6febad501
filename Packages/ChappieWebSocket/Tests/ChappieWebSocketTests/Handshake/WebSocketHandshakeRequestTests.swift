import ChappieCore
import HTTPTypes
import TestFixtures
import Testing

@testable import ChappieWebSocket

@Suite(.byItself) struct WebSocketHandshakeRequestTests {
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

    @Test func putsTheCallersFieldsBetweenAndKeepsItsOwn() throws {
        var fields: HTTPFields = [
            .authorization: "Bearer t", .secWebSocketProtocol: "chat,superchat", .connection: "close",
            .upgrade: "h2c", .secWebSocketKey: "x", .secWebSocketVersion: "8", .secWebSocketExtensions: "x-y",
            .contentLength: "5", .transferEncoding: "chunked",
        ]
        fields.append(HTTPField(name: try #require(HTTPField.Name("hOSt")), value: "elsewhere"))
        let handshake = try HandshakeRun.handshake(headerFields: fields, compression: .off)
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

    @Test func offersWhatTheCompressionAsksFor() {
        #expect(WebSocketCompression.off.offer == nil)
        #expect(WebSocketCompression.permessageDeflate.offer == "permessage-deflate; client_max_window_bits")
        let all = WebSocketCompression(
            serverNoContextTakeover: true, clientNoContextTakeover: true, serverMaxWindowBits: 10)
        #expect(
            all.offer == """
                permessage-deflate; client_max_window_bits; server_no_context_takeover; client_no_context_takeover; \
                server_max_window_bits=10
                """)
        #expect(WebSocketCompression(serverMaxWindowBits: 99).serverMaxWindowBits == 15)
        #expect(WebSocketCompression(serverMaxWindowBits: 0).serverMaxWindowBits == 8)
    }

    @Test(
        "addresses that would break the head",
        arguments: [
            ("", "host"), ("chat", "host"), ("/a b", "host"), ("/a\r\nx: y", "host"), ("/é", "host"), ("/", ""),
            ("/", "host\r\nx: y"), ("/", "ho st"), ("/\u{7F}", "host"), ("/\0", "host"),
        ])
    func refusesAddressesThatBreakTheHead(_ target: String, _ authority: String) {
        #expect(throws: WebSocketHandshakeError.invalidRequest) {
            _ = try WebSocketHandshake(target: target, authority: authority, nonce: 0)
        }
    }
}
