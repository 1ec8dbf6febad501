extension BuiltInScenarios {
    private static func rule(_ match: String, _ effect: String) -> String {
        "{\"match\":{\"path\":\"/backend-api/codex/responses\",\(match)},\"effect\":{\(effect)}}"
    }

    private static func scenario(_ summary: String, _ rules: String...) -> String {
        "\"description\":\"\(summary)\",\"rules\":[\(rules.joined(separator: ","))]"
    }

    private static func upgrade(_ summary: String, _ effect: String, _ which: String = "") -> String {
        scenario(summary, rule("\"method\":\"GET\"" + which, effect))
    }

    private static func prewarm(_ summary: String, _ effect: String) -> String {
        scenario(summary, rule("\"method\":\"PREWARM\"", effect))
    }

    private static func message(_ summary: String, _ effect: String, _ which: String = "") -> String {
        scenario(summary, rule("\"method\":\"POST\",\"over\":\"websocket\"" + which, effect))
    }

    private static func close(_ code: Int, _ more: String = "") -> String {
        "\"frames\":{\"close\":{\"code\":\(code),\"reason\":\"as scripted\"\(more)}}"
    }

    private static let once = ",\"nth\":1"
    private static let twice = ",\"to\":2"

    static let handshakes: [String: String] = [
        "ws-426": upgrade("WebSocket is refused: 426.", #""status":426"#),
        "ws-200": upgrade("WebSocket is answered with 200.", #""status":200,"body":{"ok":true}"#),
        "ws-403": upgrade("WebSocket is refused: 403.", #""status":403,"body":{"detail":"Forbidden"}"#),
        "ws-404": upgrade("WebSocket is refused: 404.", #""status":404,"body":{"detail":"Not Found"}"#),
        "ws-500": upgrade("WebSocket is refused: 500.", #""status":500"#),
        "ws-503": upgrade("WebSocket is refused: 503.", #""status":503"#),
        "ws-503-once": upgrade("The first WebSocket is refused: 503.", #""status":503"#, once),
        "ws-401": upgrade("WebSocket is refused: 401.", #""unauthorized":true"#),
        "ws-401-once": upgrade("The first WebSocket is refused: 401.", #""unauthorized":true"#, once),
        "ws-usage-limit": upgrade(
            "WebSocket is refused: 429, the usage limit is reached.", #""usageLimit":{"resetsInSeconds":3600}"#),
        "ws-hang": upgrade("The handshake is never answered.", #""stall":{"beforeHead":true}"#),
        "ws-hang-once": upgrade("The first handshake is never answered.", #""stall":{"beforeHead":true}"#, once),
        "ws-hang-up": upgrade("The handshake ends in the middle of its answer.", #""cut":{"afterBytes":40}"#),
        "ws-rst": upgrade("The handshake is reset.", #""cut":{"beforeHead":true,"with":"rst"}"#),
        "ws-rst-once": upgrade("The first handshake is reset.", #""cut":{"beforeHead":true,"with":"rst"}"#, once),
        "ws-slow": upgrade("The handshake takes two seconds.", #""delayBeforeHead":2"#),
        "ws-drip": upgrade("The handshake's answer comes byte by byte.", #""drip":{"bytes":1,"pause":0}"#),
        "ws-wrong-accept": upgrade("The handshake proves nothing.", #""handshake":{"accept":"wrong"}"#),
        "ws-no-accept": upgrade("The handshake's proof is missing.", #""handshake":{"accept":"absent"}"#),
        "ws-no-deflate": upgrade("Compression is not agreed to.", #""handshake":{"deflate":false}"#),
        "ws-no-context": upgrade(
            "Compression starts afresh with every message.",
            #""handshake":{"deflate":{"serverNoContextTakeover":true,"clientNoContextTakeover":true}}"#),
        "ws-small-windows": upgrade(
            "Compression with windows of 512 bytes.",
            #""handshake":{"deflate":{"serverMaxWindowBits":9,"clientMaxWindowBits":9}}"#),
        "ws-unknown-extension": upgrade(
            "An extension is agreed to that nobody offered.", #""handshake":{"extensions":"x-hologram; depth=3"}"#),
        "ws-unknown-subprotocol": upgrade(
            "A subprotocol is chosen that nobody offered.", #""handshake":{"subprotocol":"hologram"}"#),
        "ws-connection-limit": upgrade(
            "The first connection's time is over after one turn.", #""handshake":{"requestLimit":1}"#, once),
        "ws-connection-limit-at-once": upgrade(
            "The first connection's time is over before its first turn.", #""handshake":{"requestLimit":0}"#, once),
        "ws-connection-limit-forever": upgrade(
            "The time of every connection is over before its first turn.", #""handshake":{"requestLimit":0}"#),
        "ws-no-pongs": upgrade("Pings are not answered.", #""handshake":{"pongs":false,"pingInterval":0}"#),
        "ws-pings": upgrade("A ping every 20 milliseconds.", #""handshake":{"pingInterval":0.02}"#),
        "ws-idle-close": upgrade(
            "The first connection is closed after a second.", #""handshake":{"close":{"code":1001,"after":1}}"#, once),
    ]

    static let messages: [String: String] = [
        "ws-previous-not-found": message(
            "The first turn is told that the response before is not known.", #""previousResponseNotFound":true"#, once),
        "ws-error-500-once": message("The first turn gets an error message: 500.", #""status":500"#, once),
        "ws-error-500": message("Every turn gets an error message: 500.", #""status":500"#),
        "ws-error-status-code": message(
            "The first turn gets an error message whose status is called status_code.",
            #""status":500,"frames":{"statusMember":"status_code"}"#, once),
        "ws-error-no-status": message(
            "The first turn gets an error message without a status.",
            #""status":500,"body":{"error":{"type":"server_error","message":"Something went wrong."}},"#
                + #""frames":{"statusMember":"none"}"#, once),
        "ws-error-401-once": message("The first turn gets an error message: 401.", #""unauthorized":true"#, once),
        "ws-error-usage-limit": message(
            "Every turn gets an error message: 429, the usage limit is reached.",
            #""usageLimit":{"resetsInSeconds":3600}"#),
        "ws-error-retry-after": message(
            "Two times an error message: 429 with retry-after: 1.",
            #""status":429,"headers":{"retry-after":"1"},"body":{"error":{"code":"rate_limit_exceeded"}}"#, twice),
        "ws-close-1000": message(
            "The first answer is closed in its middle: 1000.", close(1000, #","afterEvents":8"#), once),
        "ws-close-1001": message(
            "The first answer is closed in its middle: 1001.", close(1001, #","afterEvents":8"#), once),
        "ws-close-1008": message("Every answer is closed in its middle: 1008.", close(1008, #","afterEvents":8"#)),
        "ws-close-1011": message(
            "The first answer is closed in its middle: 1011.", close(1011, #","afterEvents":8"#), once),
        "ws-close-instead": message(
            "The first turn is answered by a close: 1011.", close(1011, #","afterEvents":0"#), once),
        "ws-close-after": message("Every answer is followed by a close: 1000.", close(1000)),
        "ws-close-empty": message(
            "The first answer is closed in its middle, without a code.",
            #""frames":{"close":{"afterEvents":8}}"#, once),
        "ws-cut": message("The first answer ends after eight pieces of text.", #""cut":{"afterDeltas":8}"#, once),
        "ws-cut-rst": message(
            "The first answer is reset after eight pieces of text.", #""cut":{"afterDeltas":8,"with":"rst"}"#, once),
        "ws-cut-twice": message(
            "The first two answers end after eight pieces of text.", #""cut":{"afterDeltas":8}"#, twice),
        "ws-cut-forever": message("Every answer ends after eight pieces of text.", #""cut":{"afterDeltas":8}"#),
        "ws-hang-up-message": message(
            "The first turn's connection ends without an answer.", #""cut":{"beforeHead":true}"#, once),
        "ws-stall": message(
            "The first answer falls silent after response.created.", #""stall":{"afterEvents":1}"#, once),
        "ws-stall-forever": message("Every answer falls silent after response.created.", #""stall":{"afterEvents":1}"#),
        "ws-dead": scenario(
            "The first connection goes dead after response.created: no events, no pings, no pongs.",
            rule("\"method\":\"GET\"" + once, #""handshake":{"pongs":false,"pingInterval":0}"#),
            rule("\"method\":\"POST\",\"over\":\"websocket\"" + once, #""stall":{"afterEvents":1}"#)),
        "ws-silent": message("The first turn is never answered.", #""stall":{"beforeHead":true}"#, once),
        "ws-prewarm-silent": prewarm("Warming up is never answered.", #""stall":{"beforeHead":true}"#),
        "ws-prewarm-error": prewarm("Warming up gets an error message: 500.", #""status":500"#),
        "ws-prewarm-close": prewarm("Warming up is answered by a close: 1011.", close(1011, #","afterEvents":0"#)),
        "ws-fragmented": message("Frames of seven bytes.", #""frames":{"fragmentBytes":7}"#),
        "ws-fragmented-pings": message(
            "Frames of seven bytes, and pings between them.", #""frames":{"fragmentBytes":7,"pingsInside":true}"#),
        "ws-binary": message("The first answer has a binary message.", #""frames":{"opcode":2}"#, once),
        "ws-invalid-utf8": message(
            "The first answer has a message that is not UTF-8.", #""frames":{"invalidUTF8":true}"#, once),
        "ws-reserved-bit": message(
            "The first answer has a frame with a reserved bit.", #""frames":{"reservedBits":2}"#, once),
        "ws-reserved-opcode": message(
            "The first answer has a frame of an unknown kind.", #""frames":{"opcode":3}"#, once),
        "ws-masked": message("The first answer has a masked frame.", #""frames":{"masked":true}"#, once),
        "ws-long-ping": message(
            "The first answer has a ping of 126 bytes.",
            "\"frames\":{\"bytes\":\"897e007e\(String(repeating: "00", count: 126))\"}", once),
        "ws-bad-json": message("Messages that are no events.", #""frames":{"texts":["{\"type\":","[1,2]","hello"]}"#),
        "ws-text-after": message(
            "A message follows the end of every response.",
            #""frames":{"after":[{"type":"response.output_text.delta","delta":" too late"}]}"#),
        "ws-giant-frame": message(
            "The first answer has a frame of 17 MiB.",
            #""events":{"giantBytes":17825792},"frames":{"compress":false}"#, once),
        "ws-giant-message": message(
            "The first answer has a message of 70 MiB in frames of 8 MiB.",
            #""events":{"giantBytes":73400320},"frames":{"compress":false,"fragmentBytes":8388608}"#, once),
        "ws-bomb": message(
            "The first answer has a message of 70 MiB, compressed.", #""events":{"giantBytes":73400320}"#, once),
        "diverge": scenario(
            "The first answer ends after eight pieces of text, and all later ones go on with other words after four.",
            rule("\"method\":\"POST\"" + once, #""cut":{"afterDeltas":8}"#),
            rule("\"method\":\"POST\"", #""diverge":{"afterPieces":4}"#)),
    ]
}
