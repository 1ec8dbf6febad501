/// The scenarios that come with the simulator, written like any other scenario. `SCENARIOS.md` describes each of them.
enum BuiltInScenarios {
    /// The JSON of each scenario, by name.
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

    /// The table of the scenarios. A line with a match, and perhaps settings, is followed by one line for each scenario
    /// with a rule of that match: its name, how often it applies, and its effect. If the second cell is empty, the last
    /// one contains settings and rules.
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
        # "method":"POST","path":"/backend-api/codex/alpha/search"
        search-500 | all | "status":500
        search-500-once | once | "status":500
        search-503 | all | "status":503
        search-503-twice | twice | "status":503
        search-400 | all | "status":400,"body":{"error":{"message":"The query is too long.",\#
        "type":"invalid_request_error","param":"commands","code":"invalid_value"}}
        search-401-once | once | "unauthorized":true
        search-401 | all | "unauthorized":true
        search-challenge | all | "status":403,"body":"<!DOCTYPE html><title>Just a moment...</title>",\#
        "headers":{"content-type":"text/html","cf-mitigated":"challenge"}
        search-404 | all | "status":404,"body":{"detail":"Not Found"}
        search-429 | all | "status":429,"headers":{"retry-after":"60"},\#
        "body":{"error":{"code":"rate_limit_exceeded","message":"Too many searches."}}
        search-usage-limit | all | "usageLimit":{}
        search-no-response | all | "members":{"output":"Found no tool response for turn0search0","results":null}
        search-no-results | all | "members":{"results":null}
        search-hang-up | all | "cut":{"beforeHead":true}
        search-hang | all | "stall":{"beforeHead":true}
        # "method":"POST","path":"/backend-api/codex/images/*"
        image-moderation | all | "status":400,"body":{"error":{"message":"Your request was rejected by the safety \#
        system.","type":"image_generation_user_error","param":null,"code":"moderation_blocked",\#
        "moderation_stage":"input","categories":["violence"]}}
        image-401-once | once | "unauthorized":true
        image-challenge | all | "status":403,"body":"<!DOCTYPE html><title>Just a moment...</title>",\#
        "headers":{"content-type":"text/html","cf-mitigated":"challenge"}
        image-404 | all | "status":404,"body":{"detail":"Not Found"}
        image-429 | all | "status":429,"headers":{"retry-after":"60"},\#
        "body":{"error":{"code":"rate_limit_exceeded","message":"Too many images."}}
        image-usage-limit | all | "usageLimit":{}
        image-500 | all | "status":500
        image-502-once | once | "status":502
        image-502 | all | "status":502
        image-502-late | all | "status":502,"delayBeforeHead":3
        image-none | all | "body":{"created":1795731194,"data":[]}
        image-not-a-picture | all | "body":{"created":1795731194,"data":[{"b64_json":"bm8gcGljdHVyZQ=="}]}
        image-slow | all | "delayBeforeHead":4
        image-large | all | "picture":{"bytes":26214400}
        image-too-large | all | "picture":{"bytes":53477376}
        image-hang-up | all | "cut":{"beforeHead":true}
        image-hang | all | "stall":{"beforeHead":true}
        image-cut | all | "cut":{"afterBytes":2000}
        # "method":"GET","path":"/backend-api/wham/rate-limit-reset-credits" | "settings":{"resetCredits":2},
        credits-list-500 | all | "status":500
        credits-list-html | all | "body":"<!DOCTYPE html><title>Network</title>","headers":{"content-type":"text/html"}
        # "method":"POST","path":"/backend-api/wham/rate-limit-reset-credits/consume" | "settings":{"resetCredits":2},
        credits-ineligible | all | "status":403,"body":{"error":{"message":"Not eligible.",\#
        "type":"invalid_request_error","param":null,"code":"rate_limit_reset_ineligible"}}
        credits-redeem-503-once | once | "status":503
        credits-redeem-cut-once | once | "cut":{"beforeHead":true}
        credits-redeem-hang-once | once | "stall":{"beforeHead":true}
        # "method":"POST","path":"/backend-api/ps/mcp"
        apps-not-included | all | "status":403,"body":{"detail":"Missing scope api.connectors.read."}
        apps-401 | all | "unauthorized":true
        apps-redirect | all | "status":307,"headers":{"location":"http://127.0.0.2:9/mcp"}
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
        "settings":{"firstAccessTokenLifetime":200},
        refresh-expired | all | "refresh":"expired"
        refresh-reused | all | "refresh":"reused"
        refresh-invalidated | all | "refresh":"invalidated"
        refresh-500 | all | "status":500
        # "method":"POST","path":"/v1/responses"
        plan-401-detail | all | "status":401,"body":{"detail":"Direct permission was not accepted."}
        plan-401-html | all | "status":401,"body":"<!DOCTYPE html><title>No</title>",\#
        "headers":{"content-type":"text/html"}
        plan-invalid-token | all | "status":401,"body":{"detail":{"error_code":"invalid_token"}}
        plan-403-detail | all | "status":403,"body":{"detail":"Not available in this region."}
        plan-503-detail | all | "status":503,"body":{"detail":"Direct routing is unavailable."}
        plan-503-detail-once | once | "status":503,"body":{"detail":"Direct routing is unavailable."}
        plan-400-detail | all | "status":400,"body":{"detail":"Unsupported service_tier: flex"}
        plan-not-eligible | all | "status":403,"body":{"error":{"message":"Refused.",\#
        "type":"invalid_request_error","param":null,"code":"subscription_sharing_user_not_eligible"}}
        plan-usage-limit | all | "status":429,"body":{"error":{"message":"Refused.",\#
        "type":"invalid_request_error","param":null,"code":"subscription_sharing_usage_limit_exceeded"}}
        plan-usage-limit-midstream | all | "events":{"ending":"failed",\#
        "failure":{"code":"subscription_sharing_usage_limit_exceeded","message":"Refused."}}
        plan-usage-unavailable | all | "status":503,"body":{"error":{"message":"Refused.",\#
        "type":"invalid_request_error","param":null,"code":"subscription_sharing_usage_unavailable"}}
        plan-usage-unavailable-once | once | "status":503,"body":{"error":{"message":"Refused.",\#
        "type":"invalid_request_error","param":null,"code":"subscription_sharing_usage_unavailable"}}
        plan-usage-unavailable-midstream | all | "events":{"ending":"failed",\#
        "failure":{"code":"subscription_sharing_usage_unavailable","message":"Refused."}}
        plan-user-unavailable | all | "status":503,"body":{"error":{"message":"Refused.",\#
        "type":"invalid_request_error","param":null,"code":"subscription_sharing_user_unavailable"}}
        plan-unsupported-capability | all | "status":400,"body":{"error":{"message":"Not supported.",\#
        "type":"invalid_request_error","param":"reasoning",\#
        "code":"subscription_sharing_unsupported_capability"}}
        plan-route-not-supported | all | "status":403,"body":{"error":{"message":"Refused.",\#
        "type":"invalid_request_error","param":null,"code":"subscription_sharing_route_not_supported"}}
        plan-invalid-user | all | "status":401,"body":{"error":{"message":"Refused.",\#
        "type":"invalid_request_error","param":null,"code":"subscription_sharing_invalid_user"}}
        plan-scope-not-authorized | all | "status":403,"body":{"error":{"message":"Refused.",\#
        "type":"invalid_request_error","param":null,"code":"chatpass_v2_scope_not_authorized"}}
        plan-invalid-context | all | "status":403,"body":{"error":{"message":"Refused.",\#
        "type":"invalid_request_error","param":null,"code":"chatpass_v2_invalid_authorization_context"}}
        plan-v2-not-eligible | all | "status":403,"body":{"error":{"message":"Refused.",\#
        "type":"invalid_request_error","param":null,"code":"subscription_sharing_v2_user_not_eligible"}}
        plan-v2-usage-limit | all | "status":429,"body":{"error":{"message":"Refused.",\#
        "type":"invalid_request_error","param":null,"code":"subscription_sharing_v2_usage_limit_exceeded"}}
        plan-v2-usage-limit-midstream | all | "events":{"ending":"failed",\#
        "failure":{"code":"subscription_sharing_v2_usage_limit_exceeded","message":"Refused."}}
        plan-v2-client-not-enabled | all | "status":403,"body":{"error":{"message":"Refused.",\#
        "type":"invalid_request_error","param":null,"code":"subscription_sharing_v2_client_not_enabled"}}
        plan-model-not-found | all | "status":404,"body":{"error":{"message":"Refused.",\#
        "type":"invalid_request_error","param":"model","code":"model_not_found"}}
        plan-no-content-type | all | "headers":{"content-type":null}
        plan-empty-output | all | "events":{"emptyOutput":true}
        plan-bare | all | "headers":{"content-type":null},"events":{"emptyOutput":true}
        plan-cut | once | "cut":{"afterDeltas":2}
        plan-no-completed | all | "events":{"ending":"none"}
        plan-failed | all | "events":{"ending":"failed"}
        plan-incomplete | all | "events":{"ending":"incomplete"}
        plan-redirect | all | "status":307,"headers":{"location":"http://127.0.0.2:9/stolen"}
        # "path":"/api/accounts/authorize"
        plan-callback-denied | all | "authorize":{"error":"access_denied"}
        plan-callback-error | all | "authorize":{"error":"temporarily_unavailable"}
        plan-callback-wrong-state | all | "authorize":{"wrongState":true}
        plan-callback-no-client | all | "authorize":{"clientID":"absent"}
        plan-callback-client-again | all | "authorize":{"clientID":"repeated"}
        plan-callback-other-client | all | "authorize":{"clientID":"other"}
        plan-callback-bootstrap-client | all | "authorize":{"clientID":"bootstrap"}
        plan-callback-malformed-client | all | "authorize":{"clientID":"malformed"}
        plan-callback-no-code | all | "authorize":{"missing":["code"]}
        plan-callback-two-codes | all | "authorize":{"twice":["code"]}
        plan-callback-two-states | all | "authorize":{"twice":["state"]}
        plan-callback-extra | all | "authorize":{"extra":{"iss":"https://auth.openai.com","session_state":"x"}}
        # "method":"POST","path":"/api/accounts/oauth/token","bodyContains":"authorization_code"
        plan-id-token-alg-none | all | "idToken":"algNone"
        plan-id-token-hs256 | all | "idToken":"hs256"
        plan-id-token-wrong-signature | all | "idToken":"wrongSignature"
        plan-id-token-unknown-key | all | "idToken":"unknownKey"
        plan-id-token-no-key-id | all | "idToken":"noKeyID"
        plan-id-token-other-issuer | all | "idToken":"otherIssuer"
        plan-id-token-other-audience | all | "idToken":"otherAudience"
        plan-id-token-other-party | all | "idToken":"otherParty"
        plan-id-token-no-party | all | "idToken":"noParty"
        plan-id-token-several-audiences | all | "idToken":"severalAudiences"
        plan-id-token-expired | all | "idToken":"expired"
        plan-id-token-issued-later | all | "idToken":"issuedLater"
        plan-id-token-other-nonce | all | "idToken":"otherNonce"
        plan-id-token-no-nonce | all | "idToken":"noNonce"
        plan-id-token-other-subject | all | "idToken":"otherSubject"
        plan-id-token-absent | all | "idToken":"absent"
        plan-exchange-invalid-grant | once | "status":400,"body":{"error":"invalid_grant"}
        plan-exchange-500 | once | "status":500
        plan-exchange-no-scope | all | "members":{"scope":null}
        # "method":"POST","path":"/api/accounts/oauth/token"
        plan-keys-rotated | all | "rotateKeys":true
        # "method":"POST","path":"/api/accounts/oauth/token",\#
        "bodyContains":"refresh_token" | "settings":{"firstAccessTokenLifetime":200},
        plan-refresh-invalid-refresh-token | all | "status":400,"body":{"error":"invalid_refresh_token"}
        plan-refresh-token-expired | all | "status":400,"body":{"error":"token_expired"}
        plan-refresh-expired | all | "status":400,"body":{"error":"refresh_token_expired"}
        plan-refresh-invalidated | all | "status":400,"body":{"error":"refresh_token_invalidated"}
        plan-refresh-reused | all | "status":400,"body":{"error":"refresh_token_reused"}
        plan-refresh-never | all | "status":400,"body":{"error":"invalid_grant"}
        plan-refresh-invalid-client | all | "status":401,"body":{"error":"invalid_client"}
        plan-refresh-500 | all | "status":500
        plan-refresh-other-identity | all | "idToken":"otherSubject"
        plan-refresh-no-id-token | all | "idToken":"absent"
        plan-refresh-no-scope | all | "members":{"scope":null}
        # "path":"/.well-known/openid-configuration"
        plan-discovery-503 | all | "status":503
        plan-discovery-other-issuer | all | "members":{"issuer":"https://issuer.example"}
        plan-discovery-other-origin | all | "members":{"jwks_uri":"http://127.0.0.2:9/keys",\#
        "revocation_endpoint":"http://127.0.0.2:9/revoke"}
        # "path":"/.well-known/jwks.json"
        plan-keys-503 | all | "status":503
        plan-keys-503-once | once | "status":503
        plan-keys-empty | all | "members":{"keys":[]}
        # "path":"/api/accounts/oauth/revoke"
        plan-revoke-503 | all | "status":503
        plan-revoke-503-once | once | "status":503
        # "path":"/api/accounts/v1/user-auth-credential/whoami"
        whoami-401 | all | "unauthorized":true
        whoami-503 | all | "status":503
        whoami-html | all | "body":"<!DOCTYPE html><title>Network</title>",\#
        "headers":{"content-type":"text/html"}
        whoami-no-email | all | "members":{"email":null}
        whoami-fedramp | all | "members":{"chatgpt_account_is_fedramp":true}
        # none
        plan-invalid-token-once |  | "settings":{"earliestRefresh":0},"rules":[{"match":{"method":"POST",\#
        "path":"/v1/responses","nth":1},"effect":{"status":401,\#
        "body":{"detail":{"error_code":"invalid_token"}}}}]
        plan-app-cap |  | "settings":{"planTurnLimit":2}
        plan-use-never |  | "settings":{"planUse":"never"}
        plan-use-until-consent |  | "settings":{"planUse":"untilConsent"}
        plan-namespaces-only |  | "settings":{"planTools":"namespaces"}
        plan-flat-only |  | "settings":{"planTools":"flat"}
        plan-disconnected |  | "rules":[{"match":{"method":"POST","path":"/v1/responses","nth":2},\#
        "effect":{"endAccess":true}}]
        access-token-ended |  | "rules":[{"match":{"method":"POST","path":"/backend-api/codex/responses",\#
        "nth":2},"effect":{"endAccess":true}}]
        lenient |  | "settings":{"lenient":true}
        credits |  | "settings":{"resetCredits":2}
        credits-unused-plan |  | "settings":{"resetCredits":2,"primaryUsedPercent":0,"secondaryUsedPercent":0}
        no-account-id |  | "settings":{"accountClaim":false}
        pinned-workspace |  | "settings":{"pin":{"region":"eu"}}
        pinned-workspace-routed |  | "settings":{"pin":{"region":"us","routingOverride":"us_cr"}}
        pinned-workspace-elsewhere |  | "settings":{"pin":{"region":"eu","origin":"https://eu.chatgpt.example"}}
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
