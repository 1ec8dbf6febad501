/// The scenarios that come with the simulator, written as any other would be. `SCENARIOS.md` says what each does.
enum BuiltInScenarios {
    /// The JSON of each, by name.
    static let texts: [String: String] = {
        var texts: [String: String] = [:]
        var (match, settings) = ("", "")
        for line in table.split(separator: "\n") {
            let cells = line.split(separator: " | ", omittingEmptySubsequences: false).map(String.init)
            guard cells.count == 3 else {
                (match, settings) = (String(cells[0].dropFirst(2)), cells.count > 1 ? cells[1] : "")
                continue
            }
            let which = ["all": "", "once": ",\"nth\":1", "twice": ",\"to\":2"][cells[1]]
            let rest = which.map { "\(settings)\"rules\":[{\"match\":{\(match)\($0)},\"effect\":{\(cells[2])}}]" }
            texts[cells[0]] = "{\"name\":\"\(cells[0])\",\(rest ?? cells[2])}"
        }
        return texts
    }()

    /// After a line with a match, and perhaps settings, one line for each scenario with a rule of that match: its name,
    /// how often it applies, and its effect. Where the second cell is empty the last one holds settings and rules.
    private static let table = #"""
        # "method":"POST","path":"/api/accounts/deviceauth/usercode"
        device-off | all | "status":404,"body":{"detail":"Not Found"}
        device-interval-number | all | "device":{"interval":"number"}
        device-interval-absent | all | "device":{"interval":"absent"}
        device-interval-null | all | "device":{"interval":"null"}
        device-usercode-alias | all | "device":{"userCodeKey":"usercode"}
        device-start-500 | all | "status":500
        device-start-html | all | "body":"<!DOCTYPE html><title>Network</title>","headers":{"content-type":"text/html"}
        # "method":"POST","path":"/api/accounts/deviceauth/token"
        device-pending-404 | all | "device":{"pendingStatus":404}
        device-poll-400 | once | "status":400,"body":{"detail":"Bad Request"}
        device-poll-429 | once | "status":429,"body":{"detail":"Slow down"}
        device-poll-500 | once | "status":500
        # "method":"POST","path":"/backend-api/codex/responses"
        unauthorized-once | once | "unauthorized":true
        unauthorized-storm | all | "unauthorized":true
        usage-limit | all | "usageLimit":{}
        usage-not-included | all | "status":429,"body":{"error":{"type":"usage_not_included","message":"Not in your \#
        plan."}}
        rate-limit | all | "status":429,"body":{"error":{"code":"rate_limit_exceeded"}}
        rate-limit-retry-after | twice | "status":429,"headers":{"retry-after":"1"},\#
        "body":{"error":{"code":"rate_limit_exceeded"}}
        rate-limit-far-date | all | "status":429,"headers":{"retry-after":"Wed, 31 Dec 2037 23:59:59 GMT"}
        server-error-once | once | "status":500
        server-error-forever | all | "status":500,"body":{"detail":"Internal Server Error"}
        overloaded | all | "status":503,"body":{"error":{"code":"server_is_overloaded","message":"Overloaded."}}
        bad-request | all | "status":400,"body":{"error":{"code":"invalid_prompt","message":"Invalid prompt."}}
        blocked | all | "status":403,"body":"Cloudflare: you have been blocked"
        redirect-elsewhere | all | "status":307,"headers":{"location":"http://127.0.0.2:9/stolen"}
        html | all | "body":"<!DOCTYPE html><title>Network</title>","headers":{"content-type":"text/html"}
        not-json | all | "body":{"ok":true}
        cut | once | "cut":{"afterDeltas":2}
        cut-rst | once | "cut":{"afterDeltas":2,"with":"rst"}
        cut-forever | all | "cut":{"afterDeltas":2}
        cut-clean | all | "framing":"close","cut":{"afterDeltas":2}
        hang-up | all | "cut":{"beforeHead":true}
        hang-up-rst | all | "cut":{"beforeHead":true,"with":"rst"}
        stall | all | "stall":{"afterDeltas":2}
        stall-before-head | all | "stall":{"beforeHead":true}
        stall-before-body | all | "stall":{"afterBytes":0}
        slow-head | all | "delayBeforeHead":2
        slow-body | all | "delayBeforeBody":2
        drip | all | "drip":{"bytes":1,"pause":0}
        drip-slow | all | "drip":{"bytes":7,"pause":0.001}
        close-delimited | all | "framing":"close"
        unknown-events | all | "events":{"extra":[{"type":"response.hologram"},{"type":"response.output_item.done",\#
        "output_index":99,"item":{"id":"xy_1","type":"hologram_call","shape":[1,2,3]}}]}
        giant-event | all | "events":{"giantBytes":8388608}
        too-giant-event | all | "events":{"giantBytes":68157440}
        malformed-event | all | "events":{"extra":["{\"type\":"]}
        no-final-blank-line | all | "events":{"omitFinalBlankLine":true}
        no-completed | all | "events":{"ending":"none"}
        no-created | all | "events":{"omitCreated":true}
        crlf | all | "events":{"crlf":true}
        bom | all | "events":{"bom":true}
        comments | all | "events":{"comments":true,"addDone":true}
        bare-data | all | "events":{"names":false,"splitData":true}
        completed-twice | all | "events":{"repeatLast":true}
        failed | all | "events":{"ending":"failed"}
        failed-rate-limit | once | "events":{"ending":"failed","failure":{"code":"rate_limit_exceeded",\#
        "message":"Please try again in 1.5s."}}
        failed-context-length | all | "events":{"ending":"failed","failure":{"code":"context_length_exceeded",\#
        "message":"Too long."}}
        incomplete | all | "events":{"ending":"incomplete"}
        incomplete-content-filter | all | "events":{"ending":"incomplete","incompleteReason":"content_filter"}
        commentary | all | "commentary":"Let me think about that."
        goes-on | once | "events":{"endTurn":false}
        goes-on-forever | all | "events":{"endTurn":false}
        # "method":"GET","path":"/backend-api/codex/responses"
        ws-426 | all | "status":426
        ws-200 | all | "status":200,"body":{"ok":true}
        ws-403 | all | "status":403,"body":{"detail":"Forbidden"}
        ws-404 | all | "status":404,"body":{"detail":"Not Found"}
        ws-500 | all | "status":500
        ws-503 | all | "status":503
        ws-503-once | once | "status":503
        ws-401 | all | "unauthorized":true
        ws-401-once | once | "unauthorized":true
        ws-usage-limit | all | "usageLimit":{}
        ws-hang | all | "stall":{"beforeHead":true}
        ws-hang-once | once | "stall":{"beforeHead":true}
        ws-hang-up | all | "cut":{"afterBytes":40}
        ws-rst | all | "cut":{"beforeHead":true,"with":"rst"}
        ws-rst-once | once | "cut":{"beforeHead":true,"with":"rst"}
        ws-slow | all | "delayBeforeHead":2
        ws-drip | all | "drip":{"bytes":1,"pause":0}
        ws-wrong-accept | all | "headers":{"sec-websocket-accept":"KioqKioqKioqKioqKioqKioqKio="}
        ws-no-accept | all | "headers":{"sec-websocket-accept":null}
        ws-no-deflate | all | "handshake":{"deflate":false}
        ws-no-context | all | "handshake":{"deflate":{"serverNoContextTakeover":true,"clientNoContextTakeover":true}}
        ws-small-windows | all | "handshake":{"deflate":{"serverMaxWindowBits":9,"clientMaxWindowBits":9}}
        ws-unknown-extension | all | "headers":{"sec-websocket-extensions":"x-hologram; depth=3"}
        ws-unknown-subprotocol | all | "headers":{"sec-websocket-protocol":"hologram"}
        ws-connection-limit | once | "handshake":{"requestLimit":1}
        ws-connection-limit-at-once | once | "handshake":{"requestLimit":0}
        ws-connection-limit-forever | all | "handshake":{"requestLimit":0}
        ws-no-pongs | all | "handshake":{"pongs":false,"pingInterval":0}
        ws-pings | all | "handshake":{"pingInterval":0.02}
        ws-idle-close | once | "handshake":{"close":{"code":1001,"after":1}}
        # "method":"PREWARM","path":"/backend-api/codex/responses"
        ws-prewarm-silent | all | "stall":{"beforeHead":true}
        ws-prewarm-error | all | "status":500
        ws-prewarm-close | all | "frames":{"close":{"code":1011,"afterEvents":0}}
        # "method":"POST","over":"websocket","path":"/backend-api/codex/responses"
        ws-previous-not-found | once | "status":400,"body":{"error":{"code":"previous_response_not_found",\#
        "message":"Not found."}}
        ws-error-500-once | once | "status":500
        ws-error-500 | all | "status":500
        ws-error-status-code | once | "status":500,"frames":{"statusMember":"status_code"}
        ws-error-no-status | once | "status":500,"body":{"error":{"type":"server_error"}},\#
        "frames":{"statusMember":"none"}
        ws-error-401-once | once | "unauthorized":true
        ws-error-usage-limit | all | "usageLimit":{}
        ws-error-retry-after | twice | "status":429,"headers":{"retry-after":"1"},\#
        "body":{"error":{"code":"rate_limit_exceeded"}}
        ws-close-1000 | once | "frames":{"close":{"code":1000,"afterEvents":8}}
        ws-close-1001 | once | "frames":{"close":{"code":1001,"afterEvents":8}}
        ws-close-1008 | all | "frames":{"close":{"code":1008,"afterEvents":8}}
        ws-close-1011 | once | "frames":{"close":{"code":1011,"afterEvents":8}}
        ws-close-instead | once | "frames":{"close":{"code":1011,"afterEvents":0}}
        ws-close-after | all | "frames":{"close":{"code":1000}}
        ws-close-empty | once | "frames":{"close":{"afterEvents":8}}
        ws-cut | once | "cut":{"afterDeltas":8}
        ws-cut-rst | once | "cut":{"afterDeltas":8,"with":"rst"}
        ws-cut-twice | twice | "cut":{"afterDeltas":8}
        ws-cut-forever | all | "cut":{"afterDeltas":8}
        ws-hang-up-message | once | "cut":{"beforeHead":true}
        ws-stall | once | "stall":{"afterEvents":1}
        ws-stall-forever | all | "stall":{"afterEvents":1}
        ws-silent | once | "stall":{"beforeHead":true}
        ws-fragmented | all | "frames":{"fragmentBytes":7}
        ws-fragmented-pings | all | "frames":{"fragmentBytes":7,"pingsInside":true}
        ws-binary | once | "frames":{"bytes":"8203 616263"}
        ws-invalid-utf8 | once | "frames":{"bytes":"8103 22ff22"}
        ws-reserved-bit | once | "frames":{"bytes":"a102 7b7d"}
        ws-reserved-opcode | once | "frames":{"bytes":"8302 7b7d"}
        ws-masked | once | "frames":{"bytes":"8182 00000000 7b7d"}
        ws-long-ping | once | "frames":{"bytes":"897e007e"}
        ws-bad-json | all | "frames":{"bytes":"8108 7b2274797065223a 8105 5b312c325d 8105 68656c6c6f"}
        ws-text-after | all | "frames":{"after":[{"type":"response.output_text.delta","delta":" too late"}]}
        ws-giant-frame | once | "events":{"giantBytes":17825792},"frames":{"compress":false}
        ws-giant-message | once | "events":{"giantBytes":73400320},"frames":{"compress":false,"fragmentBytes":8388608}
        ws-bomb | once | "events":{"giantBytes":73400320}
        # "method":"POST","path":"/oauth/token","bodyContains":"refresh_token" | \#
        "settings":{"firstAccessTokenLifetime":60},
        refresh-expired | all | "refresh":"expired"
        refresh-reused | all | "refresh":"reused"
        refresh-invalidated | all | "refresh":"invalidated"
        refresh-500 | all | "status":500
        # none
        lenient |  | "settings":{"lenient":true}
        model-unsupported |  | "settings":{"modelRefusals":{"gpt-6.1-sol":"unsupported","gpt-5.5":"unsupported"}}
        model-newer-version |  | "settings":{"modelRefusals":{"gpt-6.1-sol":"newerVersion","gpt-5.5":"newerVersion"}}
        model-not-found |  | "settings":{"modelRefusals":{"gpt-6.1-sol":"notFound","gpt-5.5":"notFound"}}
        model-retired-but-listed |  | "settings":{"listsRetiredModels":true}
        older-events |  | "settings":{"olderEvents":true}
        short-tokens |  | "settings":{"firstAccessTokenLifetime":60}
        usage-near-limit |  | "settings":{"primaryUsedPercent":85,"secondaryUsedPercent":96}
        ws-dead |  | "rules":[{"match":{"method":"GET","path":"/backend-api/codex/responses","nth":1},\#
        "effect":{"handshake":{"pongs":false,"pingInterval":0}}},{"match":{"method":"POST",\#
        "path":"/backend-api/codex/responses","over":"websocket","nth":1},"effect":{"stall":{"afterEvents":1}}}]
        diverge |  | "rules":[{"match":{"method":"POST","path":"/backend-api/codex/responses","nth":1},\#
        "effect":{"cut":{"afterDeltas":8}}},{"match":{"method":"POST","path":"/backend-api/codex/responses"},\#
        "effect":{"diverge":{"afterPieces":4}}}]
        """#
}
