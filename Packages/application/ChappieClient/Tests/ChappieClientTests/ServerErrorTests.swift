import ChappieClient
@_spi(ChappieInternals) import ChappieCore
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Testing

/// The client acts on the backend's own errors, over both transports.
@Suite struct ServerErrorTests {
    /// An error object of a failed response, and the pause that follows; `nil` for the usual one.
    struct Failure: Sendable, CustomTestStringConvertible {
        let error: String?
        var pause: Duration?
        var testDescription: String { error ?? "no error object" }

        static let transient: [Failure] = [
            Failure(error: nil), Failure(error: "{}"), Failure(error: #""a bare string""#),
            Failure(error: #"{"code":"server_error","message":"An error occurred."}"#),
            Failure(error: #"{"code":"something_new"}"#),
            Failure(error: #"{"type":"server_error","headers":{"retry-after":"3"}}"#, pause: .seconds(3)),
            Failure(error: #"{"code":"server_error","headers":{"Retry-After":2}}"#, pause: .seconds(2)),
            Failure(
                error: #"{"code":"server_error","message":"Please try again in 1.5s."}"#, pause: .milliseconds(1500)),
            Failure(error: #"{"message":"Try again in 250ms"}"#, pause: .milliseconds(250)),
            Failure(error: #"{"message":"Please TRY AGAIN IN 20 seconds"}"#, pause: .seconds(20)),
            Failure(error: #"{"message":"Please try again in 99999 seconds"}"#, pause: .seconds(30)),
            Failure(error: #"{"message":"Try again in a moment"}"#),
        ]
    }

    @Test(arguments: Wire.allCases, Failure.transient)
    func `a response that failed for another reason is requested again`(wire: Wire, failure: Failure) async throws {
        let harness = ClientHarness(wire, [.failed(failure.error, after: "Hel"), .answer("Hello")])
        let seen = await harness.ask()
        #expect(seen.text == "Hello", "\(seen)")
        #expect(seen.failure == nil, "\(seen)")
        let pause = try #require(seen.pauses.first, "\(seen)")
        if let expected = failure.pause {
            #expect(pause == expected)
        } else {
            #expect(pause >= .milliseconds(180) && pause <= .milliseconds(220))
        }
        #expect(try harness.requests.count == 2)
    }

    @Test(arguments: Wire.allCases) func aResponseThatFailsEachTimeIsTheError(wire: Wire) async throws {
        let policy = ChappieStreamingTransportPolicy(
            prefersWebSocket: wire == .webSocket, maxWebSocketReconnectionAttempts: 1, fallsBackToHTTPSSE: false,
            maxHTTPSSEReconnectionAttempts: 1)
        let failed = Reply.failed(#"{"code":"server_error","message":"An error occurred."}"#)
        let harness = ClientHarness(wire, [failed, failed], policy: policy)
        guard case .responseFailed(let response)? = await harness.ask().error else {
            Issue.record("not the failed response")
            return
        }
        #expect(response.error?.code == "server_error")
        #expect(try harness.requests.count == 2)
    }

    @Test(
        arguments: Wire.allCases,
        ["cyber_policy", "invalid_prompt", "context_length_exceeded", "insufficient_quota"])
    func aResponseThatWasRefusedIsFinal(wire: Wire, code: String) async throws {
        let harness = ClientHarness(wire, [.failed(#"{"code":"\#(code)","message":"No. Try again in 1s."}"#)])
        #expect(await harness.ask().error != nil)
        #expect(try harness.requests.count == 1)
    }

    static let overload = #"{"code":"server_is_overloaded","message":"Our servers are currently overloaded."}"#

    /// The forms in which a model without capacity is reported, and the pause that each asks for.
    static let overloads: [(reply: Reply, asked: Duration?)] = [
        (.refused(503, #"{"error":\#(overload)}"#), nil),
        (.refused(503, #"{"error":\#(overload)}"#, headers: ["Retry-After": "2"]), .seconds(2)),
        (.refused(503, #"{"error":\#(overload)}"#, headers: ["Retry-After": "600"]), .seconds(30)),
        (.events(#"{"type":"error","error":\#(overload)}"#), nil), (.failed(overload), nil),
    ]

    @Test(arguments: Wire.allCases, overloads)
    func `a model without capacity is asked again after a pause`(
        wire: Wire, example: (reply: Reply, asked: Duration?)
    ) async {
        let harness = ClientHarness(wire, [example.reply, .answer("yes")])
        let seen = await harness.ask()
        #expect(seen.text == "yes", "\(seen)")
        let pause = example.asked ?? .seconds(1)
        #expect(seen.events.contains(.waiting(attempt: 1, maximum: 3, delay: pause)), "\(seen)")
    }

    @Test(arguments: Wire.allCases, overloads)
    func `a model that stays without capacity is named with another one`(
        wire: Wire, example: (reply: Reply, asked: Duration?)
    ) async throws {
        let harness = ClientHarness(wire, Array(repeating: example.reply, count: 4))
        let seen = await harness.ask()
        let computed: [Duration] = [.seconds(1), .seconds(2), .seconds(4)]
        #expect(seen.pauses == (example.asked.map { Array(repeating: $0, count: 3) } ?? computed), "\(seen)")
        #expect(try harness.requests.count == 4)
        let error = try #require(seen.error)
        #expect(error.errorDescription == "flat is at capacity.")
        #expect(error.recoverySuggestion == "Try again later, or choose another model, such as other.")
    }

    @Test func `a policy without retries asks a model without capacity once`() async throws {
        let harness = ClientHarness(.serverSentEvents, [.failed(Self.overload)], backoff: .disabled)
        #expect(await harness.ask().error != nil)
        #expect(try harness.requests.count == 1)
    }

    static let contentCodes = [
        "cyber_policy", "bio_policy", "invalid_prompt", "content_policy_violation", "misalignment_policy_violation",
        "content_filter", "moderation_blocked", "user_blocked",
    ]

    @Test(arguments: Wire.allCases, contentCodes)
    func `a question that is refused for its content is asked once, and no advice repeats it`(
        wire: Wire, code: String
    ) async throws {
        let error = #"{"code":"\#(code)","message":"It was flagged."}"#
        let bare = #"{"code":"\#(code)","message":null}"#
        let replies: [Reply] = [
            .failed(error), .failed(bare), .refused(400, #"{"error":\#(error)}"#),
            .refused(403, #"{"error":\#(bare)}"#),
            .events(#"{"type":"error","error":\#(error)}"#),
        ]
        for reply in replies {
            let harness = ClientHarness(wire, [reply])
            let error = try #require(await harness.ask().error)
            #expect(error.errorDescription?.contains("(\(code))") == true, "\(error)")
            #expect(error.errorDescription?.contains("The service") == true, "\(error)")
            #expect(error.recoverySuggestion?.contains("again") == false, "\(error)")
            #expect(try harness.requests.count == 1)
        }
    }

    @Test func `an outage of the edge is asked about once more`() async throws {
        let outage = Reply(steps: [.raw(.response(status: .notFound))])
        let harness = ClientHarness(.serverSentEvents, [outage, .answer("yes")])
        let seen = await harness.ask()
        #expect(seen.text == "yes" && seen.pauses.count == 1, "\(seen)")
        let lasting = ClientHarness(.serverSentEvents, [outage, outage])
        guard case .gatewayAnswered(let answer)? = await lasting.ask().error else {
            Issue.record("no outage")
            return
        }
        #expect(answer.sender == .edge)
        #expect(try lasting.requests.count == 2)
    }

    @Test func `a name that does not resolve is looked up once more`() async throws {
        let unknown = ChappieTransportError(.unknownHost, stage: .connect, host: "h", reason: "r")
        let lost = Reply(steps: [.raw(.failure(unknown))])
        let harness = ClientHarness(.serverSentEvents, [lost, .answer("yes")])
        #expect(await harness.ask().text == "yes")
        #expect(await ClientHarness(.serverSentEvents, [lost, lost]).ask().error == .transportFailed(unknown))
    }

    @Test func `the limits are asked for once more after an outage, and show the server's words`() async throws {
        let usage = #"{"plan_type":"plus"}"#
        let harness = ClientHarness(
            others: [.response(status: .notFound), .response(body: usage), .response(body: #"{"detail":"No."}"#)])
        #expect(try await harness.client.usageLimits().plan == .plus)
        do {
            _ = try await harness.client.usageLimits()
            Issue.record("no error")
        } catch let error as ChappieClientError {
            #expect(error.errorDescription == "The answer failed: No.")
        }
    }

    /// An HTTP error, and the pause before the next request.
    static let askedPauses: [(status: Int, headers: [String: String], body: String, pause: Duration)] = [
        (429, [:], "{}", .seconds(1)),
        (429, ["retry-after": "7"], "{}", .seconds(7)),
        (429, [:], #"{"error":{"message":"Please try again in 4s."}}"#, .seconds(4)),
        (429, ["retry-after": "2"], #"{"error":{"message":"Please try again in 4s."}}"#, .seconds(2)),
        (503, ["retry-after": "2"], "{}", .seconds(2)),
        (500, [:], #"{"error":{"code":"server_error","message":"Try again in 2.5 s"}}"#, .milliseconds(2500)),
        (429, ["retry-after": "5"], #"{"error":{"type":"usage_limit_reached"}}"#, .seconds(5)),
    ]

    @Test(arguments: Wire.allCases, askedPauses)
    func thePauseIsTheOneThatTheServerAsksFor(
        wire: Wire, example: (status: Int, headers: [String: String], body: String, pause: Duration)
    ) async {
        let harness = ClientHarness(
            wire, [.refused(example.status, example.body, headers: example.headers), .answer("yes")])
        let seen = await harness.ask()
        #expect(seen.text == "yes", "\(seen)")
        #expect(seen.pauses == [example.pause])
    }

    /// The members of a usage limit's error object, and the pauses of its two retries; none when it is final at once.
    static let limits: [(members: String, pauses: [Duration])] = [
        ("", []),
        (#","resets_in_seconds":20"#, [.seconds(20), .seconds(20)]),
        (#","resets_in_seconds":31"#, []),
        (#","resets_at":1795176030"#, [.seconds(30), .seconds(2)]),
        (#","resets_at":1795179600"#, []),
        // In the past: it counts like any 429.
        (#","resets_at":1704067242"#, [.seconds(1), .seconds(2)]),
    ]

    @Test(arguments: Wire.allCases, limits)
    func `a usage limit is retried unless its reset is far away`(
        wire: Wire, example: (members: String, pauses: [Duration])
    ) async {
        let body = #"{"error":{"type":"usage_limit_reached","plan_type":"pro"\#(example.members)}}"#
        let harness = ClientHarness(wire, Array(repeating: .refused(429, body), count: 3))
        let seen = await harness.ask()
        #expect(seen.pauses == example.pauses, "\(seen)")
        guard case .usageLimitReached(let limit)? = seen.error else {
            Issue.record("not the usage limit: \(seen)")
            return
        }
        #expect(limit.plan == .pro)
    }

    /// Limits that no request can lift soon: the answer, the sentence, and the advice.
    static let finalLimits: [(reply: Reply, says: String, advises: String)] = [
        (
            .refused(
                429, #"{"error":{"type":"usage_limit_reached","plan_type":"plus"}}"#,
                headers: [
                    "x-codex-primary-used-percent": "100.0", "x-codex-primary-window-minutes": "300",
                    "x-codex-primary-reset-at": "1795179600", "x-codex-secondary-used-percent": "31.0",
                    "x-codex-secondary-reset-at": "1795579600",
                ]), "The usage limit has been reached on the Plus plan; it resets at 2026-11-20T13:00:00Z.",
            "Wait until the limit resets"
        ),
        (
            .refused(
                429, #"{"error":{"type":"usage_limit_reached","resets_at":null,"resets_in_seconds":null}}"#,
                headers: ["X-Codex-Primary-Used-Percent": "100", "X-Codex-Primary-Reset-After-Seconds": "3600"]),
            "The usage limit has been reached; it resets at 2026-11-20T13:00:00Z.", "Wait until"
        ),
        (
            .refused(429, #"{"detail":{"type":"usage_limit_reached","resets_in_seconds":"3600","plan_type":"plus"}}"#),
            "The usage limit has been reached on the Plus plan; it resets at 2026-11-20T13:00:00Z.", "Wait until"
        ),
        (
            .refused(429, #"{"error":{"type":"workspace_owner_credits_depleted","message":"Out of credits"}}"#),
            "Out of credits.", "Add credits to your workspace."
        ),
        (
            .refused(
                429, #"{"error":{"type":"usage_limit_reached"}}"#,
                headers: ["x-codex-rate-limit-reached-type": "workspace_member_credits_depleted"]),
            "Your workspace has no credits left.", "Ask the owner of your workspace to add credits."
        ),
        (
            .refused(429, headers: ["x-codex-rate-limit-reached-type": "workspace_member_usage_limit_reached"]),
            "The usage limit has been reached.", "Ask the owner of your workspace to raise your limit."
        ),
        (
            .refused(429, headers: ["Retry-After": "3600"]),
            "There were too many requests; it resets at 2026-11-20T13:00:00Z.", "Wait until"
        ),
        (
            .refused(429, #"{"error":{"code":"rate_limit_exceeded","message":"Busy. Please try again in 1h."}}"#),
            "Busy. Please try again in 1h. It resets at 2026-11-20T13:00:00Z.", "Wait until"
        ),
    ]

    @Test(arguments: Wire.allCases, finalLimits)
    func `a limit that no request can lift soon is one request`(
        wire: Wire, example: (reply: Reply, says: String, advises: String)
    ) async throws {
        let harness = ClientHarness(wire, [example.reply])
        let seen = await harness.ask()
        let error = try #require(seen.error, "\(seen)")
        #expect(error.errorDescription == example.says)
        #expect(error.recoverySuggestion?.hasPrefix(example.advises) == true, "\(error.recoverySuggestion ?? "")")
        #expect(try harness.requests.count == 1)
    }

    @Test(arguments: [(ChappieRateLimitBackoffPolicy.disabled, 1), (.default, 3)])
    func rateLimitsForEverAreTheErrorInTheEnd(policy: ChappieRateLimitBackoffPolicy, requests: Int) async throws {
        for wire in Wire.allCases {
            let harness = ClientHarness(wire, Array(repeating: .refused(429), count: requests), backoff: policy)
            guard case .httpError(429, _)? = await harness.ask().error else {
                Issue.record("not the rate limit")
                return
            }
            #expect(try harness.requests.count == requests)
        }
    }
}
