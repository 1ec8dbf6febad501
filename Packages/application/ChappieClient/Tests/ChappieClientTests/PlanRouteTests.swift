@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Testing

@testable @_spi(ChappieInternals) import ChappieClient

/// The public Responses API on the user's plan: `ChappieEndpoints.continueWithChatGPT(appName:)`.
private enum PlanRoute {
    static let endpoints = ChappieEndpoints.continueWithChatGPT(appName: "Test")
    static let usagePage = "https://chatgpt.com/settings/usage"

    /// A backend with a WebSocket if `wire` is one: the endpoints have a switch for it.
    static func harness(
        _ wire: Wire = .serverSentEvents, _ replies: [Reply], others: [ScriptedHTTPAnswer] = [],
        modelCache: (any ChappieModelCache)? = nil, tools: [ChappieHostTool] = [],
        configure: (inout ChappieConfiguration) -> Void = { _ in }
    ) -> ClientHarness {
        var endpoints = endpoints
        endpoints.usesWebSocket = wire == .webSocket
        return ClientHarness(
            wire, replies, others: others, endpoints: endpoints, modelCache: modelCache, tools: tools,
            configure: configure)
    }

    /// Whether `error` tells a person to manage usage on the page, and names no time.
    static func leadsToTheUsagePage(_ error: ChappieClientError) -> Bool {
        error.recoverySuggestion?.contains(usagePage) == true
            && error.errorDescription?.contains("reset") == false
    }
}

// MARK: Requests

@Suite struct PlanRequestTests {
    @Test(arguments: Wire.allCases) func `a request has the documented members and no others`(wire: Wire) async throws {
        // The list says that the models are lite: that form is for the other backend.
        let harness = PlanRoute.harness(wire, [.answer("one")]) { $0.model = "lite" }
        #expect(await harness.ask("a").text == "one")
        let body = try #require(try harness.requests.first)
        var names: Set<String> = [
            "model", "stream", "store", "include", "input", "tools", "tool_choice", "parallel_tool_calls", "reasoning",
            "prompt_cache_key",
        ]
        if wire == .webSocket { names.insert("type") }
        #expect(Set(body.object?.names ?? []) == names)
        #expect(body["stream"] == true && body["store"] == false)
        #expect(body["include"] == ["reasoning.encrypted_content"])
        let roles = (body["input"]?.array ?? []).map { $0["role"]?.string ?? "" }
        #expect(roles == ["developer", "user"])
        let (url, fields): (URL, HTTPFields)
        if wire == .webSocket {
            let opening = try #require(harness.webSocket.receivedOpenings.first)
            url = opening.url
            fields = opening.headerFields
        } else {
            let request = try #require(harness.http.receivedRequests.first)
            url = request.url
            fields = request.headerFields
        }
        for name in [
            "version", "x-codex-routing-hint", "x-client-request-id", "session-id", "thread-id", "x-codex-window-id",
            "x-openai-internal-codex-responses-lite", "openai-beta",
        ] {
            let field = try #require(HTTPField.Name(name))
            #expect(fields[field] == nil, "\(name)")
        }
        #expect(url.absoluteString == "https://api.openai.com/v1/responses")
    }

    @Test func aTierIsRefusedBeforeAnythingIsSent() async {
        let harness = PlanRoute.harness(.serverSentEvents, [])
        await #expect(throws: ChappieClientError.self) {
            _ = try await harness.client.response(
                ChappieResponseRequest(messages: [.user("a")], serviceTier: "priority")
            ).outputText
        }
        #expect(harness.http.receivedRequests.isEmpty)
    }

    @Test func `nothing is compressed and no WebSocket is opened by default`() async throws {
        let harness = ClientHarness(.webSocket, [.answer("one")], endpoints: PlanRoute.endpoints)
        #expect(await harness.ask(String(repeating: "long ", count: 2000)).text == "one")
        #expect(harness.webSocket.receivedOpenings.isEmpty)
        #expect(harness.http.receivedRequests.first?.body?.coding == .identity)
    }

    @Test func `a chain on one socket names the previous response`() async throws {
        let harness = PlanRoute.harness(.webSocket, [.answer("one"), .answer("two", id: "resp_2")])
        _ = await harness.ask("a")
        #expect(await harness.ask("b").text == "two")
        #expect(try harness.requests.last?["previous_response_id"] == "resp_1")
    }

    @Test func `over HTTP, no request names the previous response`() async throws {
        let harness = PlanRoute.harness(.serverSentEvents, [.answer("one"), .answer("two", id: "resp_2")])
        _ = await harness.ask("a")
        _ = await harness.ask("b")
        #expect(try harness.requests.allSatisfy { $0["previous_response_id"] == nil && $0["input"]?.array != nil })
        #expect(try harness.requests.last?["input"]?.array?.count == 4)
    }

    @Test func `a system message is refused before anything is sent`() async throws {
        let harness = PlanRoute.harness(.serverSentEvents, [.answer("one")])
        let request = ChappieResponseRequest(messages: [.system("Be kind."), .user("Hi")])
        do {
            _ = try await harness.client.response(request)
            Issue.record("no error")
        } catch {
            guard case ChappieClientError.unsupportedInput(let what, let advice)? = error as? ChappieClientError else {
                Issue.record("another error: \(error)")
                return
            }
            #expect(what.contains("system"))
            #expect(advice.contains("developer"))
            #expect(advice.contains("instructions"))
        }
        #expect(try harness.requests.isEmpty)
        #expect(await harness.ask("Hi").text == "one")
    }

    @Test func anImageByItsAddressIsSentAsItIs() async throws {
        let harness = PlanRoute.harness(.serverSentEvents, [.answer("one")]) { $0.model = "lite" }
        let image = ChappieImage(source: .url("https://example.com/a.png"))
        let request = ChappieResponseRequest(messages: [.user("Hi", images: [image])])
        #expect(try await harness.client.response(request).outputText == "one")
    }

    @Test func `the model writes the summary because nothing else is documented`() async throws {
        let harness = PlanRoute.harness(.serverSentEvents, [.answer("one"), .answer("sum", id: "resp_2")])
        _ = await harness.ask("a")
        _ = try await harness.client.compactContext()
        #expect(try harness.requests.count == 2)
        let types = try harness.requests[1]["input"]?.array?.compactMap { $0["type"]?.string } ?? []
        #expect(!types.contains("compaction_trigger"))
    }
}

// MARK: Tools

@Suite struct PlanToolTests {
    private static let weather = ChappieHostTool(name: "weather") { _ in "sun" }
    private static let search = ChappieHostTool(name: "search", namespace: "wiki") { _ in "found" }

    private func called(_ name: String, in namespace: String?) -> ChappieJSON {
        var object = call(name).object ?? ChappieJSONObject()
        object["namespace"] = namespace.map { .string($0) }
        return .object(object)
    }

    @Test func `tools are in namespaces, and a call keeps its own namespace`() async throws {
        let first = Reply(steps: [.events(items([called("search", in: "wiki")]))])
        let harness = PlanRoute.harness(
            .serverSentEvents, [first, .answer("done", id: "resp_2")], tools: [Self.weather, Self.search])
        #expect(await harness.ask("a").text == "done")
        let requests = try harness.requests
        let tools = try #require(requests[0]["tools"]?.array)
        #expect(tools.allSatisfy { $0["type"] == "namespace" && $0["description"]?.string?.isEmpty == false })
        #expect(tools.map { $0["name"]?.string } == ["functions", "wiki"])
        #expect(tools[0]["tools"]?[0]?["type"] == "function" && tools[0]["tools"]?[0]?["name"] == "weather")
        let input = try #require(requests[1]["input"]?.array)
        #expect(input.contains { $0["type"] == "function_call" && $0["namespace"] == "wiki" })
        #expect(input.contains { $0["type"] == "function_call_output" && $0["output"] == "found" })
    }

    @Test(arguments: [nil, "functions"]) func `a tool of the app is found with and without its namespace`(
        _ namespace: String?
    ) async throws {
        let first = Reply(steps: [.events(items([called("weather", in: namespace)]))])
        let harness = PlanRoute.harness(
            .serverSentEvents, [first, .answer("done", id: "resp_2")], tools: [Self.weather])
        #expect(await harness.ask("a").text == "done")
        let replayed = try harness.requests[1]["input"]?.array?.first { $0["type"] == "function_call" }
        #expect(replayed?["namespace"]?.string == namespace)
    }

    /// Refusals of the form of the tools, each as another server says it.
    static let refusals = [
        #"{"error":{"code":"subscription_sharing_unsupported_capability","param":"tools[0].type","message":"No."}}"#,
        #"{"error":{"code":"subscription_sharing_v2_unsupported_capability","param":"tools"}}"#,
        #"{"error":{"code":null,"type":"invalid_request_error","param":"tools[0].namespace","message":"m"}}"#,
        #"{"error":{"message":"Unknown tool type: namespace","type":"invalid_request_error"}}"#,
        #"{"detail":"tools of the type namespace are not allowed"}"#,
        #"{"detail":[{"loc":["body","tools",0,"type"],"msg":"unexpected"}]}"#,
    ]

    @Test(arguments: refusals) func `after a refusal of namespaces, tools are sent flat from then on`(body: String)
        async throws
    {
        let flat = Reply(steps: [.events(items([called("wiki__search", in: nil)]))])
        let harness = PlanRoute.harness(
            .serverSentEvents,
            [.refused(400, body), flat, .answer("done", id: "resp_2"), .answer("two", id: "resp_3"), .answer("three")],
            tools: [Self.weather, Self.search])
        #expect(await harness.ask("a").text == "done")
        #expect(await harness.ask("b").text == "two")
        await harness.client.clearContext()
        #expect(await harness.ask("c").text == "three")
        let requests = try harness.requests
        #expect(requests.count == 5)
        for request in requests.dropFirst() {
            let tools = try #require(request["tools"]?.array)
            #expect(tools.map { $0["type"]?.string } == ["function", "function"])
            #expect(tools.map { $0["name"]?.string } == ["weather", "wiki__search"])
        }
    }

    @Test(arguments: [
        #"{"error":{"code":"subscription_sharing_unsupported_capability","param":"tools"}}"#,
        #"{"error":{"code":"subscription_sharing_unsupported_capability","param":"service_tier"}}"#,
        #"{"error":{"code":"subscription_sharing_unsupported_capability"}}"#,
        #"{"error":{"type":"invalid_request_error","param":"model","message":"No tools here."}}"#,
    ])
    func noBodyIsSentTwice(body: String) async throws {
        let harness = PlanRoute.harness(
            .serverSentEvents, Array(repeating: .refused(400, body), count: 3), tools: [Self.weather])
        #expect(await harness.ask("a").error != nil)
        let requests = try harness.requests
        #expect(requests.count == Set(requests).count && requests.count <= 2)
    }

    @Test func aRefusalInMidAnswerChangesNoTools() async throws {
        let refused = #"{"code":"subscription_sharing_unsupported_capability","param":"tools"}"#
        let harness = PlanRoute.harness(.serverSentEvents, [.failed(refused, after: "Hel")], tools: [Self.weather])
        guard case .planRefused(let refusal)? = await harness.ask("a").error else {
            Issue.record("not refused")
            return
        }
        #expect(refusal.reason == .capability)
        #expect(refusal.status == nil)
        #expect(refusal.parameter == "tools")
        #expect(try harness.requests.count == 1)
    }
}

// MARK: Errors

@Suite struct PlanErrorTests {
    /// A code of the table, the status that it comes with, and the reason by which a host can tell it.
    struct Row: Sendable, CustomTestStringConvertible {
        let code: String
        let status: Int
        let reason: ChappiePlanRefusal.Reason
        var testDescription: String { "\(status) \(code)" }
        /// Whether asking again after a while may help.
        var isRepeated: Bool { reason == .unavailable }

        static let sharing: [(String, Int, ChappiePlanRefusal.Reason)] = [
            ("user_not_eligible", 403, .notEligible), ("usage_unavailable", 503, .unavailable),
            ("user_unavailable", 503, .unavailable), ("unsupported_capability", 400, .capability),
            ("route_not_supported", 403, .route), ("invalid_user", 401, .userUnknown),
            ("client_not_enabled", 403, .appNotEnabled),
        ]
        static let all =
            ["subscription_sharing_", "subscription_sharing_v2_"].flatMap { prefix in
                sharing.map { Row(code: prefix + $0.0, status: $0.1, reason: $0.2) }
            } + [
                Row(code: "chatpass_v2_scope_not_authorized", status: 403, reason: .notAuthorized),
                Row(code: "chatpass_v2_invalid_authorization_context", status: 403, reason: .notAuthorized),
            ]
    }

    private static let plan = BackendErrors(.continueWithChatGPT(appName: "Test"))
    private static let now = Date(timeIntervalSince1970: 1_795_176_000)

    @Test(arguments: Wire.allCases, Row.all)
    func `an error code before the stream is a typed error and ends the turn`(wire: Wire, row: Row) async throws {
        let body = #"{"error":{"code":"\#(row.code)","message":"Because.","param":"service_tier"}}"#
        let refused = Reply.refused(row.status, body, headers: ["x-request-id": "req_1"])
        let harness = PlanRoute.harness(wire, Array(repeating: refused, count: 20))
        let seen = await harness.ask()
        guard case .planRefused(let refusal)? = seen.error else {
            Issue.record("another error: \(seen)")
            return
        }
        #expect(refusal.reason == row.reason && refusal.status == row.status)
        #expect(refusal.message == "Because." && refusal.requestID == "req_1")
        #expect(ChappieClientError.planRefused(refusal).requestID == "req_1")
        let count = try harness.requests.count
        #expect(row.isRepeated ? (2...9).contains(count) : count == 1, "\(count) requests")
    }

    @Test(arguments: Wire.allCases, Row.all)
    func aCodeInMidStreamIsTheSameError(wire: Wire, row: Row) async throws {
        let failed = Reply.failed(#"{"code":"\#(row.code)","message":"Because."}"#, after: "Hel")
        let harness = PlanRoute.harness(wire, Array(repeating: failed, count: 20))
        let seen = await harness.ask()
        guard case .planRefused(let refusal)? = seen.error else {
            Issue.record("another error: \(seen)")
            return
        }
        #expect(refusal.reason == row.reason)
        #expect(refusal.status == nil)
        #expect(seen.text == "Hel")
        let count = try harness.requests.count
        #expect(row.isRepeated ? (2...9).contains(count) : count == 1, "\(count) requests")
    }

    @Test(arguments: ["usage_unavailable", "user_unavailable"])
    func anOutageOfTheCheckIsWaitedFor(name: String) async {
        let body = #"{"error":{"code":"subscription_sharing_\#(name)"}}"#
        let seen = await PlanRoute.harness(.serverSentEvents, [.refused(503, body), .answer("Hello")]).ask()
        #expect(seen.text == "Hello" && seen.failure == nil)
        let asked = Reply.refused(503, body, headers: ["retry-after": "7"])
        let patient = await PlanRoute.harness(.serverSentEvents, [asked, .answer("Hello")]).ask()
        #expect(patient.pauses == [.seconds(7)])
    }

    @Test(arguments: Wire.allCases, ["subscription_sharing_", "subscription_sharing_v2_"])
    func aLimitIsFinalNamesThePageAndNoTime(wire: Wire, prefix: String) async throws {
        let error = #"{"code":"\#(prefix)usage_limit_exceeded"}"#
        let replies = [Reply.refused(429, #"{"error":\#(error)}"#), .failed(error, after: "Hel")]
        for reply in replies {
            let harness = PlanRoute.harness(wire, [reply, reply])
            let seen = await harness.ask()
            guard case .usageLimitReached(let limit)? = seen.error else {
                Issue.record("another error: \(seen)")
                return
            }
            #expect(limit.resetsAt == nil && limit.resetsInSeconds == nil)
            #expect(PlanRoute.leadsToTheUsagePage(.usageLimitReached(limit)))
            #expect(try harness.requests.count == 1)
        }
    }

    /// The diagnostic text of an answer, which is no code: the status counts.
    static let details: [(status: Int, detail: String, reason: ChappiePlanRefusal.Reason)] = [
        (400, #""Unsupported service_tier: flex""#, .capability), (401, #""Not accepted.""#, .notAuthorized),
        (401, #"{"message":"Not accepted."}"#, .notAuthorized), (403, #""Not in your region.""#, .policy),
        (503, #""Routing is not enabled.""#, .unavailable),
        (401, #"{"error_code":"subscription_sharing_invalid_user"}"#, .userUnknown),
        (403, #"{"error_code":"subscription_sharing_user_not_eligible","message":"m"}"#, .notEligible),
    ]

    @Test(arguments: Wire.allCases, details)
    func aDetailIsReadByItsStatus(
        wire: Wire, example: (status: Int, detail: String, reason: ChappiePlanRefusal.Reason)
    ) async throws {
        let refused = Reply.refused(example.status, #"{"detail":\#(example.detail)}"#)
        let harness = PlanRoute.harness(wire, Array(repeating: refused, count: 20))
        let seen = await harness.ask()
        guard case .planRefused(let refusal)? = seen.error else {
            Issue.record("another error: \(seen)")
            return
        }
        #expect(refusal.reason == example.reason)
        // Tokens were not renewed for it: no other request was made, and the script has no answer for one.
        if refusal.reason != .unavailable { #expect(try harness.requests.count == 1) }
        #expect(seen.failure is ChappieClientError)
    }

    @Test(arguments: Wire.allCases) func `a token that has expired is renewed once, and the request is repeated`(
        wire: Wire
    ) async throws {
        let expired = Reply.refused(401, #"{"detail":{"error_code":"invalid_token"}}"#)
        var renewed = SeededAuth()
        renewed.serial = 2
        renewed.endpoints = PlanRoute.endpoints
        let renewal = ScriptedHTTPAnswer.response(
            headerFields: [.contentType: "application/json"], body: renewed.tokenAnswer)
        let harness = PlanRoute.harness(
            wire, [expired, .answer("Hello")], others: [renewal])
        #expect(await harness.ask().text == "Hello")
        #expect(try harness.requests.count == 2)

        let refused = PlanRoute.harness(
            wire, Array(repeating: expired, count: 9), others: [renewal])
        guard case .reauthenticationRequired? = await refused.ask().error else {
            Issue.record("no end of the sign-in")
            return
        }
        #expect(try refused.requests.count <= 3)
    }

    @Test func theModelListHasTheSameErrors() async {
        for (status, body, reason) in [
            (401, #"{"detail":"Not accepted."}"#, ChappiePlanRefusal.Reason.notAuthorized),
            (403, #"{"error":{"code":"subscription_sharing_user_not_eligible"}}"#, .notEligible),
        ] {
            let answer = ScriptedHTTPAnswer.response(status: .init(code: status), body: body)
            let harness = PlanRoute.harness(.serverSentEvents, [], others: [answer])
            do {
                _ = try await harness.client.models()
                Issue.record("no error")
            } catch {
                guard case ChappieClientError.planRefused(let refusal)? = error as? ChappieClientError else {
                    Issue.record("another error: \(error)")
                    continue
                }
                #expect(refusal.reason == reason)
            }
        }
    }

    @Test(arguments: Wire.allCases) func `a turn on the plan ends if both listed models are refused`(
        wire: Wire
    ) async throws {
        let refusal = Reply.refused(404, #"{"error":{"code":"model_not_found","message":"No."}}"#)
        let list = ScriptedHTTPAnswer.response(body: #"{"data":[{"id":"a"},{"id":"gpt-6-luna"}]}"#)
        let harness = PlanRoute.harness(
            wire, [refusal, refusal, refusal], others: Array(repeating: list, count: 9), modelCache: EmptyModelCache())
        guard case .modelUnavailable? = await harness.ask().error else {
            Issue.record("another error")
            return
        }
        #expect(try harness.requests.map { $0["model"] } == ["a", "gpt-6-luna"])
    }

    @Test func aModelThatIsNotListedForThePlanIsNamed() {
        let body = Array(#"{"error":{"code":"model_not_found","message":"No."}}"#.utf8)
        let failure = Self.plan.failure(status: 404, headerFields: [:], body: body, now: Self.now)
        guard case ChappieClientError.modelUnavailable? = failure.error as? ChappieClientError else {
            Issue.record("another error: \(failure.error)")
            return
        }
    }

    @Test func `a sign-in without the permission has its own error`() throws {
        let error = ChappieClientError.wrapping(ChappieAuthError.planUseNotGranted) as? ChappieClientError
        #expect(error == .planRefused(ChappiePlanRefusal(reason: .notGranted)))
        #expect(error?.errorDescription == ChappieAuthError.planUseNotGranted.errorDescription)
        #expect(error?.recoverySuggestion == ChappieAuthError.planUseNotGranted.recoverySuggestion)
    }

    @Test func theOtherBackendKnowsNoneOfThis() {
        let errors = BackendErrors(.chatGPT)
        for row in Row.all {
            let body = #"{"error":{"code":"\#(row.code)"}}"#
            let failure = errors.failure(status: 418, headerFields: [:], body: Array(body.utf8), now: Self.now)
            #expect(failure.error as? ChappieClientError == .httpError(418, body))
        }
        let detail = Array(#"{"detail":"d"}"#.utf8)
        for status in [400, 401, 403] {
            let failure = errors.failure(status: status, headerFields: [:], body: detail, now: Self.now)
            #expect(failure.error as? ChappieClientError == .httpError(status, #"{"detail":"d"}"#))
        }
    }

    @Test func `every refusal has a message and advice and no control characters`() {
        let reasons = Set(Row.all.map(\.reason) + [.policy, .notGranted, ChappiePlanRefusal.Reason(rawValue: "new")])
        for reason in reasons {
            let refusal = ChappiePlanRefusal(reason: reason)
            #expect(refusal.sentence.hasSuffix(".") && refusal.advice.hasSuffix("."))
        }
        let body = "{\"error\":{\"code\":\"subscription_sharing_unsupported_capability\",\"param\":\"a\\u001bb\"}}"
        let failure = Self.plan.failure(status: 400, headerFields: [:], body: Array(body.utf8), now: Self.now)
        let words = (failure.error as? ChappieClientError)?.errorDescription ?? "\u{1B}"
        #expect(!words.contains("\u{1B}"))
    }
}

// MARK: Answers, models, usage

@Suite struct PlanAnswerTests {
    private static let delta = #"{"type":"response.output_text.delta","delta":"Hello"}"#
    private static let completed =
        #"{"type":"response.completed","response":{"id":"r","status":"completed","output":[]}}"#

    @Test func anEmptyOutputIsMadeOfTheDeltas() async {
        let harness = PlanRoute.harness(.serverSentEvents, [.events(Self.delta, Self.completed)])
        let seen = await harness.ask()
        #expect(seen.response?.outputText == "Hello" && seen.text == "Hello")
    }

    @Test func anEmptyOutputIsMadeOfTheItems() async throws {
        let events = answering("Hello").dropLast() + [Self.completed]
        let harness = PlanRoute.harness(.serverSentEvents, [Reply(steps: [.events(Array(events))])])
        let response = try #require(await harness.ask().response)
        #expect(response.outputText == "Hello" && response.items.count == 1)
    }

    @Test func aStreamWithoutAContentTypeIsRead() async {
        let stream = answering("Hello").map { "data: \($0)\n\n" }.joined()
        let answer = ScriptedHTTPAnswer(headerFields: [:], body: [.chunk(Array(stream.utf8))])
        #expect(await PlanRoute.harness(.serverSentEvents, [Reply(steps: [.raw(answer)])]).ask().text == "Hello")
    }

    private static let list = """
        {"models":[{"slug":"b","display_name":"B","visibility":"list","priority":9},\
        {"slug":"h","visibility":"hide"},{"slug":"a","display_name":"A","visibility":"list","priority":1,\
        "use_responses_lite":true}]}
        """

    @Test func theListsOrderStaysAndNoVersionIsInvented() async throws {
        let harness = PlanRoute.harness(
            .serverSentEvents, [.answer("one")], others: [.response(body: Self.list)], modelCache: EmptyModelCache())
        #expect(try await harness.client.models().map(\.slug) == ["b", "a"])
        let request = try #require(harness.http.receivedRequests.first)
        #expect(request.url.absoluteString == "https://api.openai.com/v1/models")
        #expect(request.headerFields[.wireFormatVersion] == nil)
        _ = await harness.ask()
        #expect(try harness.requests.first?["model"] == "b")
    }

    @Test func aKeptListHasItsOrder() throws {
        let record = ModelListRecord(owner: ["o"], format: "f", ranked: false)
        let list = try ChappieJSON(parsing: Array(Self.list.utf8))
        let document = try #require(record.document(tag: nil, list: list, at: Date(timeIntervalSince1970: 0)))
        #expect(record.read(document, of: ChappieAccountInfo())?.models.map(\.slug) == ["b", "h", "a"])
    }

    @Test func usageIsManagedElsewhereAndNothingIsAsked() async {
        let harness = PlanRoute.harness(.serverSentEvents, [])
        do {
            _ = try await harness.client.usageLimits()
            Issue.record("no error")
        } catch {
            guard let error = error as? ChappieClientError, case .usageNotReported = error else {
                Issue.record("another error: \(error)")
                return
            }
            #expect(PlanRoute.leadsToTheUsagePage(error))
        }
        #expect(harness.http.receivedRequests.isEmpty)
    }

    @Test func theProfileIsDataThatCanBeKept() throws {
        let endpoints = PlanRoute.endpoints
        let data = try JSONEncoder().encode(endpoints)
        #expect(try JSONDecoder().decode(ChappieEndpoints.self, from: data) == endpoints)
    }
}
