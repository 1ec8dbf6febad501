/// The scenarios that come with the simulator, written as any other would be.
enum BuiltInScenarios {
    /// The JSON of each, by name.
    static let texts: [String: String] = {
        var texts: [String: String] = [:]
        var (match, settings) = ("", "")
        for line in table.split(separator: "\n") {
            let cells = line.split(separator: " | ", omittingEmptySubsequences: false).map(\.trimmed)
            if cells.count < 4 {
                (match, settings) = (cells[0].dropFirst(2).trimmed, cells.count > 1 ? cells[1] : "")
                continue
            }
            let which = ["all": "", "once": ",\"nth\":1", "twice": ",\"to\":2"][cells[1]]
            let rest =
                which.map { "\(settings)\"rules\":[{\"match\":{\(match)\($0)},\"effect\":{\(cells[3])}}]" } ?? cells[3]
            texts[cells[0]] = "{\"name\":\"\(cells[0])\",\"description\":\"\(cells[2])\",\(rest)}"
        }
        return texts
    }()

    /// After a line with a match, and perhaps settings, one line for each scenario with a rule of that match: its name,
    /// how often it applies, its description, and its effect. Where the second cell is empty the last one holds settings
    /// and rules.
    private static let table = #"""
        # "method":"POST","path":"/api/accounts/deviceauth/usercode"
        device-off | all | Device sign-in is switched off: 404. | "status":404,"body":{"detail":"Not Found"}
        device-interval-number | all | The poll interval is a number. | "device":{"interval":"number"}
        device-interval-absent | all | The poll interval is missing. | "device":{"interval":"absent"}
        device-interval-null | all | The poll interval is null. | "device":{"interval":"null"}
        device-usercode-alias | all | The code is called usercode. | "device":{"userCodeKey":"usercode"}
        device-start-500 | all | Starting a sign-in fails: 500. | "status":500
        device-start-html | all | A page of the network answers instead. | "body":"<!DOCTYPE html><title>Sign in to \#
        the network</title>","headers":{"content-type":"text/html"}
        # "method":"POST","path":"/api/accounts/deviceauth/token"
        device-pending-404 | all | A poll that is too early gets 404. | "device":{"pendingStatus":404}
        device-poll-400 | once | The first poll gets 400. | "status":400,"body":{"detail":"Bad Request"}
        device-poll-429 | once | The first poll gets 429. | "status":429,"body":{"detail":"Slow down"}
        device-poll-500 | once | The first poll gets 500. | "status":500
        # "method":"POST","path":"/backend-api/codex/responses"
        unauthorized-once | once | The first turn gets 401, the next is let in. | "unauthorized":true
        unauthorized-storm | all | Every turn gets 401. | "unauthorized":true
        usage-limit | all | 429: the usage limit is reached, for another hour. | "usageLimit":{"resetsInSeconds":3600}
        usage-not-included | all | 429: the plan does not include this. | "status":429,\#
        "body":{"error":{"type":"usage_not_included","message":"Not in your plan."}}
        rate-limit | all | 429 without Retry-After. | "status":429,"body":{"error":{"code":"rate_limit_exceeded"}}
        rate-limit-retry-after | twice | Two times 429 with Retry-After: 1. | "status":429,\#
        "headers":{"retry-after":"1"},"body":{"error":{"code":"rate_limit_exceeded"}}
        rate-limit-far-date | all | 429 with a Retry-After in the year 2037. | "status":429,\#
        "headers":{"retry-after":"Wed, 31 Dec 2037 23:59:59 GMT"}
        server-error-once | once | The first turn gets 500. | "status":500
        server-error-forever | all | Every turn gets 500. | "status":500,"body":{"detail":"Internal Server Error"}
        overloaded | all | 503: the model is at capacity. | "status":503,\#
        "body":{"error":{"code":"server_is_overloaded","message":"Overloaded."}}
        bad-request | all | 400 with an error object. | "status":400,"body":{"error":{"code":"invalid_prompt",\#
        "message":"Invalid prompt."}}
        blocked | all | 403 with a page that says blocked. | "status":403,"body":"Cloudflare: you have been blocked"
        redirect-elsewhere | all | 307 to another origin. | "status":307,\#
        "headers":{"location":"http://127.0.0.2:9/stolen"}
        html | all | A page instead of events. | "body":"<!DOCTYPE html><title>Sign in to the network</title>",\#
        "headers":{"content-type":"text/html"}
        not-json | all | 200 with JSON instead of events. | "body":{"ok":true}
        cut | once | The first answer ends in its middle. | "cut":{"afterEvents":8}
        cut-rst | once | The first answer is reset in its middle. | "cut":{"afterEvents":8,"with":"rst"}
        cut-forever | all | Every answer ends in its middle. | "cut":{"afterEvents":8}
        cut-clean | all | Every answer ends in its middle, as if it were whole. | "framing":"close",\#
        "cut":{"afterEvents":8}
        hang-up | all | The connection closes without an answer. | "cut":{"beforeHead":true}
        hang-up-rst | all | The connection is reset without an answer. | "cut":{"beforeHead":true,"with":"rst"}
        stall | all | Every answer falls silent in its middle. | "stall":{"afterEvents":8}
        stall-before-head | all | Nothing ever comes. | "stall":{"beforeHead":true}
        stall-before-body | all | A head comes, and nothing more. | "stall":{"afterBytes":0}
        slow-head | all | The head takes two seconds. | "delayBeforeHead":2
        slow-body | all | The first event takes two seconds. | "delayBeforeBody":2
        drip | all | One byte at a time. | "drip":{"bytes":1,"pause":0}
        drip-slow | all | Seven bytes every millisecond. | "drip":{"bytes":7,"pause":0.001}
        close-delimited | all | The end of the connection ends the answer. | "framing":"close"
        unknown-events | all | An unknown event and an unknown item. | \#
        "events":{"extra":[{"type":"response.hologram.delta","delta":{"x":1}},{"type":"response.output_item.done",\#
        "output_index":99,"item":{"id":"xy_1","type":"hologram_call","status":"completed","shape":[1,2,3]}}]}
        giant-event | all | An event of 8 MiB. | "events":{"giantBytes":8388608}
        too-giant-event | all | An event of 65 MiB. | "events":{"giantBytes":68157440}
        malformed-event | all | An event that is not JSON. | "events":{"extra":["{\"type\":"]}
        no-final-blank-line | all | The last event is not closed. | "events":{"omitFinalBlankLine":true}
        no-completed | all | The answer ends without an end event. | "events":{"ending":"none"}
        no-created | all | The answer starts without response.created. | "events":{"omitCreated":true}
        crlf | all | Lines end with CR LF. | "events":{"crlf":true}
        bom | all | The stream starts with a byte order mark. | "events":{"bom":true}
        comments | all | Comments between the events, and [DONE]. | "events":{"comments":true,"addDone":true}
        bare-data | all | No event names, data over several lines. | "events":{"names":false,"splitData":true}
        completed-twice | all | The last event comes twice. | "events":{"repeatLast":true}
        failed | all | The response fails. | "events":{"ending":"failed"}
        failed-rate-limit | once | The first response fails: try again in 1.5 s. | "events":{"ending":"failed",\#
        "failure":{"code":"rate_limit_exceeded","message":"Rate limit reached. Please try again in 1.5s."}}
        failed-context-length | all | The response fails: the conversation is too long. | \#
        "events":{"ending":"failed","failure":{"code":"context_length_exceeded","message":"Too long."}}
        incomplete | all | The response is incomplete: max_output_tokens. | "events":{"ending":"incomplete"}
        incomplete-content-filter | all | The response is incomplete: content_filter. | \#
        "events":{"ending":"incomplete","incompleteReason":"content_filter"}
        # "method":"GET","path":"/backend-api/codex/responses"
        ws-426 | all | WebSocket is refused: 426. | "status":426
        ws-200 | all | WebSocket is answered with 200. | "status":200,"body":{"ok":true}
        ws-403 | all | WebSocket is refused: 403. | "status":403,"body":{"detail":"Forbidden"}
        ws-404 | all | WebSocket is refused: 404. | "status":404,"body":{"detail":"Not Found"}
        ws-500 | all | WebSocket is refused: 500. | "status":500
        ws-503 | all | WebSocket is refused: 503. | "status":503
        ws-503-once | once | The first WebSocket is refused: 503. | "status":503
        ws-401 | all | WebSocket is refused: 401. | "unauthorized":true
        ws-401-once | once | The first WebSocket is refused: 401. | "unauthorized":true
        ws-usage-limit | all | WebSocket is refused: 429, the usage limit is reached. | \#
        "usageLimit":{"resetsInSeconds":3600}
        ws-hang | all | The handshake is never answered. | "stall":{"beforeHead":true}
        ws-hang-once | once | The first handshake is never answered. | "stall":{"beforeHead":true}
        ws-hang-up | all | The handshake ends in the middle of its answer. | "cut":{"afterBytes":40}
        ws-rst | all | The handshake is reset. | "cut":{"beforeHead":true,"with":"rst"}
        ws-rst-once | once | The first handshake is reset. | "cut":{"beforeHead":true,"with":"rst"}
        ws-slow | all | The handshake takes two seconds. | "delayBeforeHead":2
        ws-drip | all | The handshake's answer comes byte by byte. | "drip":{"bytes":1,"pause":0}
        ws-wrong-accept | all | The handshake proves nothing. | "headers":{"sec-websocket-accept":"KioqKioqKioqKioqKi\#
        oqKioqKio="}
        ws-no-accept | all | The handshake's proof is missing. | "headers":{"sec-websocket-accept":null}
        ws-no-deflate | all | Compression is not agreed to. | "handshake":{"deflate":false}
        ws-no-context | all | Compression starts afresh with every message. | \#
        "handshake":{"deflate":{"serverNoContextTakeover":true,"clientNoContextTakeover":true}}
        ws-small-windows | all | Compression with windows of 512 bytes. | \#
        "handshake":{"deflate":{"serverMaxWindowBits":9,"clientMaxWindowBits":9}}
        ws-unknown-extension | all | The server agrees to an extension that the client did not offer. | \#
        "headers":{"sec-websocket-extensions":"x-hologram; depth=3"}
        ws-unknown-subprotocol | all | The server chooses a subprotocol that the client did not offer. | \#
        "headers":{"sec-websocket-protocol":"hologram"}
        ws-connection-limit | once | The first connection's time is over after one turn. | \#
        "handshake":{"requestLimit":1}
        ws-connection-limit-at-once | once | The first connection's time is over before its first turn. | \#
        "handshake":{"requestLimit":0}
        ws-connection-limit-forever | all | The time of every connection is over before its first turn. | \#
        "handshake":{"requestLimit":0}
        ws-no-pongs | all | Pings are not answered. | "handshake":{"pongs":false,"pingInterval":0}
        ws-pings | all | A ping every 20 milliseconds. | "handshake":{"pingInterval":0.02}
        ws-idle-close | once | The first connection is closed after a second. | "handshake":{"close":{"code":1001,\#
        "after":1}}
        # "method":"PREWARM","path":"/backend-api/codex/responses"
        ws-prewarm-silent | all | Warming up is never answered. | "stall":{"beforeHead":true}
        ws-prewarm-error | all | Warming up gets an error message: 500. | "status":500
        ws-prewarm-close | all | Warming up is answered by a close: 1011. | "frames":{"close":{"code":1011,\#
        "afterEvents":0}}
        # "method":"POST","over":"websocket","path":"/backend-api/codex/responses"
        ws-previous-not-found | once | The first turn is told that the response before is not known. | "status":400,\#
        "body":{"error":{"code":"previous_response_not_found","message":"Not found."}}
        ws-error-500-once | once | The first turn gets an error message: 500. | "status":500
        ws-error-500 | all | Every turn gets an error message: 500. | "status":500
        ws-error-status-code | once | The first turn gets an error message whose status is called status_code. | \#
        "status":500,"frames":{"statusMember":"status_code"}
        ws-error-no-status | once | The first turn gets an error message without a status. | "status":500,\#
        "body":{"error":{"type":"server_error","message":"Something went wrong."}},"frames":{"statusMember":"none"}
        ws-error-401-once | once | The first turn gets an error message: 401. | "unauthorized":true
        ws-error-usage-limit | all | Every turn gets an error message: 429, the usage limit is reached. | \#
        "usageLimit":{"resetsInSeconds":3600}
        ws-error-retry-after | twice | Two times an error message: 429 with retry-after: 1. | "status":429,\#
        "headers":{"retry-after":"1"},"body":{"error":{"code":"rate_limit_exceeded"}}
        ws-close-1000 | once | The first answer is closed in its middle: 1000. | "frames":{"close":{"code":1000,\#
        "afterEvents":8}}
        ws-close-1001 | once | The first answer is closed in its middle: 1001. | "frames":{"close":{"code":1001,\#
        "afterEvents":8}}
        ws-close-1008 | all | Every answer is closed in its middle: 1008. | "frames":{"close":{"code":1008,\#
        "afterEvents":8}}
        ws-close-1011 | once | The first answer is closed in its middle: 1011. | "frames":{"close":{"code":1011,\#
        "afterEvents":8}}
        ws-close-instead | once | The first turn is answered by a close: 1011. | "frames":{"close":{"code":1011,\#
        "afterEvents":0}}
        ws-close-after | all | Every answer is followed by a close: 1000. | "frames":{"close":{"code":1000}}
        ws-close-empty | once | The first answer is closed in its middle, without a code. | \#
        "frames":{"close":{"afterEvents":8}}
        ws-cut | once | The first answer ends after eight pieces of text. | "cut":{"afterDeltas":8}
        ws-cut-rst | once | The first answer is reset after eight pieces of text. | "cut":{"afterDeltas":8,"with":"rst"}
        ws-cut-twice | twice | The first two answers end after eight pieces of text. | "cut":{"afterDeltas":8}
        ws-cut-forever | all | Every answer ends after eight pieces of text. | "cut":{"afterDeltas":8}
        ws-hang-up-message | once | The first turn's connection ends without an answer. | "cut":{"beforeHead":true}
        ws-stall | once | The first answer falls silent after response.created. | "stall":{"afterEvents":1}
        ws-stall-forever | all | Every answer falls silent after response.created. | "stall":{"afterEvents":1}
        ws-silent | once | The first turn is never answered. | "stall":{"beforeHead":true}
        ws-fragmented | all | Frames of seven bytes. | "frames":{"fragmentBytes":7}
        ws-fragmented-pings | all | Frames of seven bytes, and pings between them. | "frames":{"fragmentBytes":7,\#
        "pingsInside":true}
        ws-binary | once | The first answer has a binary message. | "frames":{"bytes":"8203 616263"}
        ws-invalid-utf8 | once | The first answer has a message that is not UTF-8. | "frames":{"bytes":"8103 22ff22"}
        ws-reserved-bit | once | The first answer has a frame with a reserved bit. | "frames":{"bytes":"a102 7b7d"}
        ws-reserved-opcode | once | The first answer has a frame of an unknown kind. | "frames":{"bytes":"8302 7b7d"}
        ws-masked | once | The first answer has a masked frame. | "frames":{"bytes":"8182 00000000 7b7d"}
        ws-long-ping | once | The first answer has a ping of 126 bytes. | \#
        "frames":{"bytes":"897e007e0000000000000000000000000000000000000000000000000000000000000000000000000000000000\#
        0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\#
        0000000000000000000000000000000000000000000000000000000000000"}
        ws-bad-json | all | Messages that are no events. | "frames":{"bytes":"8108 7b2274797065223a 8105 5b312c325d \#
        8105 68656c6c6f"}
        ws-text-after | all | A message follows the end of every response. | \#
        "frames":{"after":[{"type":"response.output_text.delta","delta":" too late"}]}
        ws-giant-frame | once | The first answer has a frame of 17 MiB. | "events":{"giantBytes":17825792},\#
        "frames":{"compress":false}
        ws-giant-message | once | The first answer has a message of 70 MiB in frames of 8 MiB. | \#
        "events":{"giantBytes":73400320},"frames":{"compress":false,"fragmentBytes":8388608}
        ws-bomb | once | The first answer has a message of 70 MiB, compressed. | "events":{"giantBytes":73400320}
        # "method":"POST","path":"/oauth/token","bodyContains":"refresh_token" | \#
        "settings":{"firstAccessTokenLifetime":60},
        refresh-expired | all | Every refresh is refused: the refresh token has expired. | "refresh":"expired"
        refresh-reused | all | Every refresh is refused: the refresh token was used. | "refresh":"reused"
        refresh-invalidated | all | Every refresh is refused: the refresh token was revoked. | "refresh":"invalidated"
        refresh-500 | all | Every refresh fails: 500. | "status":500
        # none
        short-tokens |  | The first access token lives for 60 seconds: clients refresh once. | \#
        "settings":{"firstAccessTokenLifetime":60}
        usage-near-limit |  | 85 percent of the short window and 96 of the long are used. | \#
        "settings":{"primaryUsedPercent":85,"secondaryUsedPercent":96}
        ws-dead |  | The first connection goes dead after response.created: no events, no pings, no pongs. | \#
        "rules":[{"match":{"method":"GET","path":"/backend-api/codex/responses","nth":1},\#
        "effect":{"handshake":{"pongs":false,"pingInterval":0}}},{"match":{"method":"POST",\#
        "path":"/backend-api/codex/responses","over":"websocket","nth":1},"effect":{"stall":{"afterEvents":1}}}]
        diverge |  | The first answer ends after eight pieces of text, and all later ones go on with other words \#
        after four. | "rules":[{"match":{"method":"POST","path":"/backend-api/codex/responses","nth":1},\#
        "effect":{"cut":{"afterDeltas":8}}},{"match":{"method":"POST","path":"/backend-api/codex/responses"},\#
        "effect":{"diverge":{"afterPieces":4}}}]
        """#
}
