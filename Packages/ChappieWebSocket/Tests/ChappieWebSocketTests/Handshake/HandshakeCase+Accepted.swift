import ChappieCore

@testable import ChappieWebSocket

extension HandshakeCase {
    static let accepted: [HandshakeCase] = [
        .init("the example of RFC 6455, 1.3"),
        .init("frames behind the head", behind: WireBytes.hex("81 05 48 65 6c 6c 6f")),
        .init("frames that look like a head", behind: Array("\r\n\r\nHTTP/1.1 200 OK\r\n\r\n".utf8)),
        .init(
            "names and tokens in any case",
            lines: [
                "HTTP/1.1 101 ok", "uPGRADE: WebSocket", "CONNECTION: uPgRaDe",
                "sec-websocket-accept: \(HandshakeRun.accept)",
            ]),
        .init("an empty reason", lines: ["HTTP/1.1 101 "] + good.dropFirst()),
        .init("no reason", lines: ["HTTP/1.1 101"] + good.dropFirst()),
        .init(
            "upgrade among other connection options",
            lines: [good[0], good[1], "Connection: keep-alive , Upgrade", good[3]]),
        .init(
            "connection options in two fields",
            lines: [good[0], good[1], "Connection: x", "Connection: upgrade", good[3]]),
        .init("space around values", lines: [good[0], "Upgrade:   websocket  ", "Connection:Upgrade", good[3]]),
        .init("other fields", lines: good + ["X-Codex-Turn-State: abc", "Set-Cookie: a=b", "Empty:"]),
        .init(
            "informational heads first",
            lines: ["HTTP/1.1 100 Continue", "", "HTTP/1.1 103 Early Hints", "Link: </a>", ""] + good),
        .init("an offered subprotocol", lines: good + ["Sec-WebSocket-Protocol: b"], offers: "a, b", subprotocol: "b"),
        .init("no choice of subprotocol", offers: "a, b"),
        .init("an empty list of extensions", lines: good + ["Sec-WebSocket-Extensions: , ,"]),
    ]

    static let negotiated: [HandshakeCase] = [
        ("permessage-deflate", DeflateParameters()),
        ("PerMessage-Deflate", DeflateParameters()),
        ("permessage-deflate;server_no_context_takeover", DeflateParameters(serverNoContextTakeover: true)),
        ("permessage-deflate ; client_no_context_takeover", DeflateParameters(clientNoContextTakeover: true)),
        ("permessage-deflate; server_max_window_bits=8", DeflateParameters(serverMaxWindowBits: 8)),
        ("permessage-deflate; client_max_window_bits=\"10\"", DeflateParameters(clientMaxWindowBits: 10)),
        ("permessage-deflate; client_max_window_bits=\"1\\5\"", DeflateParameters(clientMaxWindowBits: 15)),
        (
            """
            permessage-deflate; server_max_window_bits=15; client_max_window_bits=9; client_no_context_takeover; \
            server_no_context_takeover
            """,
            DeflateParameters(
                serverNoContextTakeover: true, clientNoContextTakeover: true, serverMaxWindowBits: 15,
                clientMaxWindowBits: 9)
        ),
    ].map { value, parameters in
        HandshakeCase(value, lines: good + ["Sec-WebSocket-Extensions: \(value)"], negotiated: parameters)
    }

    static let negotiatedWithWishes: [HandshakeCase] = [
        .init(
            "a smaller window than the one we asked for",
            lines: good + ["Sec-WebSocket-Extensions: permessage-deflate; server_max_window_bits=9"],
            compression: WebSocketCompression(serverMaxWindowBits: 10),
            negotiated: DeflateParameters(serverMaxWindowBits: 9)),
        .init(
            "our own promise holds although the server doesn't repeat it",
            lines: good + ["Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover"],
            compression: WebSocketCompression(serverNoContextTakeover: true, clientNoContextTakeover: true),
            negotiated: DeflateParameters(serverNoContextTakeover: true, clientNoContextTakeover: true)),
        .init("no compression although it was offered", compression: WebSocketCompression(serverMaxWindowBits: 9)),
    ]
}
