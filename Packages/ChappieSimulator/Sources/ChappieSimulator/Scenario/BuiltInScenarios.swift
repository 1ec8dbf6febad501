/// The scenarios that come with the simulator, written as any other would be.
enum BuiltInScenarios {
    static var names: [String] { texts.keys.sorted() }
    static func text(of name: String) -> String? {
        texts[name].map { "{\"name\":\"\(name)\",\($0)}" }
    }

    private static let texts: [String: String] = signIn.merging(tokens) { $1 }.merging(statuses) { $1 }
        .merging(connections) { $1 }.merging(streams) { $1 }.merging(handshakes) { $1 }.merging(messages) { $1 }

    private static func rule(_ method: String, _ path: String, _ effect: String, _ which: String = "") -> String {
        "\"rules\":[{\"match\":{\"method\":\"\(method)\",\"path\":\"\(path)\"\(which)},\"effect\":{\(effect)}}]"
    }

    private static func turn(_ summary: String, _ effect: String, _ which: String = "") -> String {
        "\"description\":\"\(summary)\"," + rule("POST", "/backend-api/codex/responses", effect, which)
    }

    private static func start(_ summary: String, _ effect: String) -> String {
        "\"description\":\"\(summary)\"," + rule("POST", "/api/accounts/deviceauth/usercode", effect)
    }

    private static func poll(_ summary: String, _ effect: String, _ which: String = "") -> String {
        "\"description\":\"\(summary)\"," + rule("POST", "/api/accounts/deviceauth/token", effect, which)
    }

    private static func token(_ summary: String, _ effect: String, settings: String = "") -> String {
        "\"description\":\"\(summary)\"," + settings
            + rule("POST", "/oauth/token", effect, ",\"bodyContains\":\"refresh_token\"")
    }

    private static let once = ",\"nth\":1"
    private static let twice = ",\"to\":2"
    /// So short that every client refreshes before its first request; only the first, or some would refresh for ever.
    private static let shortTokens = "\"settings\":{\"firstAccessTokenLifetime\":60},"

    private static let signIn: [String: String] = [
        "device-off": start("Device sign-in is switched off: 404.", #""status":404,"body":{"detail":"Not Found"}"#),
        "device-interval-number": start("The poll interval is a number.", #""device":{"interval":"number"}"#),
        "device-interval-absent": start("The poll interval is missing.", #""device":{"interval":"absent"}"#),
        "device-interval-null": start("The poll interval is null.", #""device":{"interval":"null"}"#),
        "device-usercode-alias": start("The code is called usercode.", #""device":{"userCodeKey":"usercode"}"#),
        "device-start-500": start("Starting a sign-in fails: 500.", #""status":500"#),
        "device-start-html": start("A page of the network answers instead.", #""html":true"#),
        "device-pending-404": poll("A poll that is too early gets 404.", #""device":{"pendingStatus":404}"#),
        "device-poll-400": poll("The first poll gets 400.", #""status":400,"body":{"detail":"Bad Request"}"#, once),
        "device-poll-429": poll("The first poll gets 429.", #""status":429,"body":{"detail":"Slow down"}"#, once),
        "device-poll-500": poll("The first poll gets 500.", #""status":500"#, once),
    ]

    private static let tokens: [String: String] = [
        "short-tokens": "\"description\":\"The first access token lives for 60 seconds: clients refresh once.\","
            + shortTokens + "\"rules\":[]",
        "refresh-expired": token(
            "Every refresh is refused: the refresh token has expired.", #""refresh":"expired""#, settings: shortTokens),
        "refresh-reused": token(
            "Every refresh is refused: the refresh token was used.", #""refresh":"reused""#, settings: shortTokens),
        "refresh-invalidated": token(
            "Every refresh is refused: the refresh token was revoked.", #""refresh":"invalidated""#,
            settings: shortTokens),
        "refresh-500": token("Every refresh fails: 500.", #""status":500"#, settings: shortTokens),
        "unauthorized-once": turn("The first turn gets 401, the next is let in.", #""unauthorized":true"#, once),
        "unauthorized-storm": turn("Every turn gets 401.", #""unauthorized":true"#),
    ]

    private static let statuses: [String: String] = [
        "usage-limit": turn(
            "429: the usage limit is reached, for another hour.", #""usageLimit":{"resetsInSeconds":3600}"#),
        "usage-not-included": turn(
            "429: the plan does not include this.",
            #""status":429,"body":{"error":{"type":"usage_not_included","message":"Not in your plan."}}"#),
        "usage-near-limit": "\"description\":\"85 percent of the short window and 96 of the long are used.\","
            + #""settings":{"primaryUsedPercent":85,"secondaryUsedPercent":96},"rules":[]"#,
        "rate-limit": turn(
            "429 without Retry-After.", #""status":429,"body":{"error":{"code":"rate_limit_exceeded"}}"#),
        "rate-limit-retry-after": turn(
            "Two times 429 with Retry-After: 1.",
            #""status":429,"headers":{"retry-after":"1"},"body":{"error":{"code":"rate_limit_exceeded"}}"#, twice),
        "rate-limit-far-date": turn(
            "429 with a Retry-After in the year 2037.",
            #""status":429,"headers":{"retry-after":"Wed, 31 Dec 2037 23:59:59 GMT"}"#),
        "server-error-once": turn("The first turn gets 500.", #""status":500"#, once),
        "server-error-forever": turn(
            "Every turn gets 500.", #""status":500,"body":{"detail":"Internal Server Error"}"#),
        "overloaded": turn(
            "503: the model is at capacity.",
            #""status":503,"body":{"error":{"code":"server_is_overloaded","message":"Overloaded."}}"#),
        "bad-request": turn(
            "400 with an error object.",
            #""status":400,"body":{"error":{"code":"invalid_prompt","message":"Invalid prompt."}}"#),
        "blocked": turn(
            "403 with a page that says blocked.", #""status":403,"body":"Cloudflare: you have been blocked""#),
        "redirect-elsewhere": turn(
            "307 to another origin.", #""status":307,"headers":{"location":"http://127.0.0.2:9/stolen"}"#),
        "html": turn("A page instead of events.", #""html":true"#),
        "not-json": turn("200 with JSON instead of events.", #""body":{"ok":true}"#),
    ]

    private static let connections: [String: String] = [
        "cut": turn("The first answer ends in its middle.", #""cut":{"afterEvents":8}"#, once),
        "cut-rst": turn("The first answer is reset in its middle.", #""cut":{"afterEvents":8,"with":"rst"}"#, once),
        "cut-forever": turn("Every answer ends in its middle.", #""cut":{"afterEvents":8}"#),
        "cut-clean": turn(
            "Every answer ends in its middle, as if it were whole.", #""framing":"close","cut":{"afterEvents":8}"#),
        "hang-up": turn("The connection closes without an answer.", #""cut":{"beforeHead":true}"#),
        "hang-up-rst": turn("The connection is reset without an answer.", #""cut":{"beforeHead":true,"with":"rst"}"#),
        "stall": turn("Every answer falls silent in its middle.", #""stall":{"afterEvents":8}"#),
        "stall-before-head": turn("Nothing ever comes.", #""stall":{"beforeHead":true}"#),
        "stall-before-body": turn("A head comes, and nothing more.", #""stall":{"afterBytes":0}"#),
        "slow-head": turn("The head takes two seconds.", #""delayBeforeHead":2"#),
        "slow-body": turn("The first event takes two seconds.", #""delayBeforeBody":2"#),
        "drip": turn("One byte at a time.", #""drip":{"bytes":1,"pause":0}"#),
        "drip-slow": turn("Seven bytes every millisecond.", #""drip":{"bytes":7,"pause":0.001}"#),
        "close-delimited": turn("The end of the connection ends the answer.", #""framing":"close""#),
    ]

    private static let streams: [String: String] = [
        "unknown-events": turn("An unknown event and an unknown item.", #""events":{"addUnknown":true}"#),
        "giant-event": turn("An event of 8 MiB.", #""events":{"giantBytes":8388608}"#),
        "too-giant-event": turn("An event of 65 MiB.", #""events":{"giantBytes":68157440}"#),
        "malformed-event": turn("An event that is not JSON.", #""events":{"addMalformed":true}"#),
        "no-final-blank-line": turn("The last event is not closed.", #""events":{"omitFinalBlankLine":true}"#),
        "no-completed": turn("The answer ends without an end event.", #""events":{"ending":"none"}"#),
        "no-created": turn("The answer starts without response.created.", #""events":{"omitCreated":true}"#),
        "crlf": turn("Lines end with CR LF.", #""events":{"crlf":true}"#),
        "bom": turn("The stream starts with a byte order mark.", #""events":{"bom":true}"#),
        "comments": turn("Comments between the events, and [DONE].", #""events":{"comments":true,"addDone":true}"#),
        "bare-data": turn("No event names, data over several lines.", #""events":{"names":false,"splitData":true}"#),
        "completed-twice": turn("The last event comes twice.", #""events":{"repeatLast":true}"#),
        "failed": turn("The response fails.", #""events":{"ending":"failed"}"#),
        "failed-rate-limit": turn(
            "The first response fails: try again in 1.5 s.",
            #""events":{"ending":"failed","failure":{"code":"rate_limit_exceeded","message":"Rate limit reached. "#
                + #"Please try again in 1.5s."}}"#, once),
        "failed-context-length": turn(
            "The response fails: the conversation is too long.",
            #""events":{"ending":"failed","failure":{"code":"context_length_exceeded","message":"Too long."}}"#),
        "incomplete": turn("The response is incomplete: max_output_tokens.", #""events":{"ending":"incomplete"}"#),
        "incomplete-content-filter": turn(
            "The response is incomplete: content_filter.",
            #""events":{"ending":"incomplete","incompleteReason":"content_filter"}"#),
    ]
}
