import ChappieCore

@testable import ChappieWebSocket

extension HandshakeCase {
    private static func with(_ lines: String...) -> String { head(good + lines) }

    static let wrongUpgrades: [HandshakeCase] = [
        .init("no upgrade", head([good[0], good[2], good[3]]), fails: .missingUpgrade),
        .init(
            "an upgrade to something else", head([good[0], "Upgrade: h2c", good[2], good[3]]), fails: .missingUpgrade),
        .init(
            "an upgrade to two things", head([good[0], "Upgrade: h2c, websocket", good[2], good[3]]),
            fails: .missingUpgrade),
        .init("no connection", head([good[0], good[1], good[3]]), fails: .missingConnection),
        .init(
            "another connection", head([good[0], good[1], "Connection: upgraded", good[3]]), fails: .missingConnection),
        .init("no accept", head([good[0], good[1], good[2]]), fails: .wrongAccept),
        .init("an accept in another case", head(good.map { $0.replacing("s3p", with: "S3P") }), fails: .wrongAccept),
        .init("another accept", head([good[0], good[1], good[2], "Sec-WebSocket-Accept: x"]), fails: .wrongAccept),
        .init("two accepts", with(good[3]), fails: .wrongAccept),
        .init(
            "a subprotocol that was not offered", with("Sec-WebSocket-Protocol: a"), fails: .unofferedSubprotocol),
        .init(
            "another subprotocol", with("Sec-WebSocket-Protocol: A"), offers: "a", fails: .unofferedSubprotocol),
        .init(
            "two subprotocols", with("Sec-WebSocket-Protocol: a", "Sec-WebSocket-Protocol: b"), offers: "a, b",
            fails: .unofferedSubprotocol),
        .init(
            "compression that was not offered", with("Sec-WebSocket-Extensions: permessage-deflate"), compression: .off,
            fails: .unofferedExtension),
        .init(
            "a larger window than the one we asked for",
            with("Sec-WebSocket-Extensions: permessage-deflate; server_max_window_bits=11"),
            compression: WebSocketCompression(serverMaxWindowBits: 10), fails: .unofferedExtension),
        .init(
            "a window that we asked for, left out", with("Sec-WebSocket-Extensions: permessage-deflate"),
            compression: WebSocketCompression(serverMaxWindowBits: 10), fails: .unofferedExtension),
        .init(
            "a takeover that we asked against, left out", with("Sec-WebSocket-Extensions: permessage-deflate"),
            compression: WebSocketCompression(serverNoContextTakeover: true), fails: .unofferedExtension),
    ]

    static let wrongExtensions: [HandshakeCase] = [
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
    ].map { HandshakeCase($0, with("Sec-WebSocket-Extensions: \($0)"), fails: .unofferedExtension) }

    static let wrongHeads: [HandshakeCase] = [
        "SSH-2.0-OpenSSH\r\n\r\n", "\r\n\r\n", "HTTP/1.1\r\n\r\n", "HTTP/1.1 1O1 x\r\n\r\n", "HTTP/1.1 1010 x\r\n\r\n",
        "HTTP/1.1 099 x\r\n\r\n", "HTTP/1.1 600 x\r\n\r\n", "HTTP/2 200 x\r\n\r\n", "http/1.1 200 x\r\n\r\n",
        "HTTP/1.1  200 x\r\n\r\n", "HTTP/1.1 200 a\0b\r\n\r\n",
    ].map { HandshakeCase($0.debugDescription, $0, fails: .invalidHead("its status line can't be understood")) }

    static let wrongFields: [HandshakeCase] = [
        "no colon", ": no name", "a name: x", "name : x", "na\u{E9}me: x", "name: a\0b", "name: a\rb", "name: a\u{7F}b",
        "first: a\r\n folded: b", "first: a\r\n\tfolded",
    ].map {
        HandshakeCase(
            $0.debugDescription, with($0), fails: .invalidHead("one of its header fields can't be understood"))
    }

    static let oldHTTP = HandshakeCase(
        "an upgrade in HTTP/1.0", head(["HTTP/1.0 101 x"] + good.dropFirst()),
        fails: .invalidHead("its status line can't be understood"))
}
