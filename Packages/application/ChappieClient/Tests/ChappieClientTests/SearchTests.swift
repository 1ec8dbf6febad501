@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import ChappieTesting
import Foundation
import HTTPTypes
import Testing

@_spi(ChappieInternals) @testable import ChappieClient

/// The search of the web that the client asks for itself: one row for each failure, in turns and without them.
@Suite(.timeLimit(.minutes(2))) struct SearchTests {
    private static let found: ChappieJSON = [
        "output": "[turn0search0] Swift 6.4 is out.", "encrypted_output": nil,
        "results": [
            [
                "type": "text_result", "ref_id": "turn0search0", "title": "Blog", "url": "https://swift.org/blog",
                "domain": "swift.org", "snippet": "Swift 6.4 is out.",
            ],
            ["ref_id": "turn0search1", "title": "", "url": "https://example.com/two_(b)"],
            ["ref_id": "turn0search2", "title": "No page", "url": "javascript:alert(1)"],
        ],
    ]
    private static let answer = ScriptedHTTPAnswer.response(status: .ok, body: found.serialized())

    private static func refused(_ status: Int, _ body: String = "{}", type: String = "application/json")
        -> ScriptedHTTPAnswer
    {
        .response(status: .init(code: status), headerFields: [.contentType: type], body: body)
    }

    private static let page = refused(403, "<!DOCTYPE html><title>Just a moment…</title>", type: "text/html")
    private static let lost = ScriptedHTTPAnswer.failure(
        ChappieTransportError(.connectionLost, stage: .responseHead, host: "chatgpt.com", reason: "gone"))

    private func harness(
        _ wire: Wire = .serverSentEvents, _ replies: [Reply] = [], _ others: [ScriptedHTTPAnswer],
        model: String = "lite", endpoints: ChappieEndpoints? = nil
    ) -> ClientHarness {
        // In a turn, the function has a deadline, which must not pass at once.
        ClientHarness(
            wire, replies, others: others, endpoints: endpoints, clock: replies.isEmpty ? nil : SystemClock(),
            configure: { $0.model = model })
    }

    private static let called = Reply(steps: [
        .events(
            items([
                call(
                    "web_search",
                    #"{"search_query":[{"q":"swift 6.4"},{"q":"swift news"}],"open":[{"ref_id":"turn0search0"}]}"#)
            ]))
    ])
    private static let request = ChappieResponseRequest(
        messages: [.user("What is new?")], serviceTools: [.webSearch()])

    private func searches(_ harness: ClientHarness) -> [HTTPExchangeRequest] {
        harness.http.receivedRequests.filter { $0.url.path().hasSuffix("/codex/alpha/search") }
    }

    private func body(_ request: HTTPExchangeRequest) throws -> ChappieJSON {
        try ChappieJSON(parsing: request.body?.bytes ?? [])
    }

    // MARK: Without a turn

    @Test func `a search has the form of the official client`() async throws {
        let harness = harness(.serverSentEvents, [], [Self.answer])
        let answer = try await harness.client.search(
            ChappieSearchRequest(
                queries: ["a", "b", "c", "d"], domains: ["swift.org"], recency: 30,
                location: ChappieSearchLocation(country: "DE", timeZone: "Europe/Berlin")))
        #expect(answer.text == "[turn0search0] Swift 6.4 is out.")
        #expect(answer.results.map(\.url) == ["https://swift.org/blog", "https://example.com/two_(b)"])
        #expect(answer.results[0].excerpt == "Swift 6.4 is out." && answer.results[0].reference == "turn0search0")
        #expect(answer.results[1].title == "https://example.com/two_(b)")
        let request = try #require(searches(harness).first)
        #expect(request.method == .post && request.body?.coding == .identity)
        #expect(request.headerFields[.contentType] == "application/json")
        #expect(request.headerFields[.wireFormatVersion] == WireFormat.version)
        let field = try #require(HTTPField.Name("x-codex-turn-metadata"))
        let metadata = try #require(request.headerFields[field])
        #expect(try ChappieJSON(parsing: metadata)["model"] == "lite")
        let body = try body(request)
        #expect(
            body.object?.members.map(\.name) == ["id", "model", "input", "commands", "settings", "max_output_tokens"])
        #expect(body["commands"]?["search_query"]?.array?.count == 4)
        #expect(body["commands"]?["search_query"]?[0] == ["q": "a", "recency": 30, "domains": ["swift.org"]])
        #expect(body["commands"]?["response_length"] == "medium")
        #expect(
            body["settings"] == [
                "allowed_callers": ["direct"], "external_web_access": true,
                "filters": ["allowed_domains": ["swift.org"]],
                "user_location": ["type": "approximate", "country": "DE", "timezone": "Europe/Berlin"],
            ])
        #expect(body["input"]?[0]?["content"]?[0]?["text"] == "a\nb\nc\nd")
    }

    @Test func `a page is opened by its address, and only one of the web`() async throws {
        let harness = harness(.serverSentEvents, [], [Self.refused(200, #"{"output":"L0: text"}"#)])
        #expect(try await harness.client.openPage("https://example.com/", line: 7).text == "L0: text")
        let commands = try body(try #require(searches(harness).first))["commands"]
        #expect(commands == ["open": [["ref_id": "https://example.com/", "lineno": 7]]])
        for address in ["file:///etc/passwd", "turn0search0", "https://a b", ""] {
            await #expect(throws: ChappieClientError.self) { try await harness.client.openPage(address) }
        }
        for queries in [[], [" "], ["a", "b", "c", "d", "e"]] {
            await #expect(throws: ChappieClientError.self) {
                try await harness.client.search(ChappieSearchRequest(queries: queries))
            }
        }
        #expect(searches(harness).count == 1)
    }

    @Test(arguments: [500, 502, 503])
    func `a failing service is asked three times`(status: Int) async throws {
        let harness = harness(.serverSentEvents, [], [Self.refused(status), Self.lost, Self.answer])
        #expect(try await harness.client.search(ChappieSearchRequest("swift")).results.count == 2)
        #expect(searches(harness).count == 3)
        let failing = self.harness(.serverSentEvents, [], [Self.refused(status), Self.lost, Self.refused(status)])
        let error = await #expect(throws: ChappieClientError.self) {
            try await failing.client.search(ChappieSearchRequest("swift"))
        }
        #expect(error?.errorDescription?.contains("\(status)") == true)
        #expect(searches(failing).count == 3)
    }

    @Test func `a refused token is renewed once, and the sign-in stays`() async throws {
        var renewed = SeededAuth(expiresAt: ManualClock().now.addingTimeInterval(86_400))
        renewed.serial = 2
        let tokens = ScriptedHTTPAnswer.response(status: .ok, body: renewed.tokenAnswer)
        let harness = harness(.serverSentEvents, [], [Self.refused(401), tokens, Self.answer])
        #expect(try await harness.client.search(ChappieSearchRequest("swift")).results.count == 2)
        let refused = self.harness(
            .serverSentEvents, [.answer("hello")], [Self.refused(401), tokens, Self.refused(401)])
        let error = await #expect(throws: ChappieClientError.self) {
            try await refused.client.search(ChappieSearchRequest("swift"))
        }
        guard case .httpError(401, _) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(await refused.ask().text == "hello")
    }

    @Test func `a sign-in with the plan has no search without a turn`() async throws {
        let harness = harness(
            .serverSentEvents, [], [], endpoints: .continueWithChatGPT(appName: "Test"))
        let error = await #expect(throws: ChappieClientError.self) {
            try await harness.client.search(ChappieSearchRequest("swift"))
        }
        #expect(error == .notWithThisSignIn("The web search"))
    }

    @Test func `an answer that is a failure is one, whatever its status`() async throws {
        for output in ["Found no tool response for x", "Error parsing function call: y"] {
            let body: ChappieJSON = ["output": .string(output)]
            let harness = harness(.serverSentEvents, [], [Self.refused(200, body.serialized())])
            let error = await #expect(throws: ChappieClientError.self) {
                try await harness.client.search(ChappieSearchRequest("swift"))
            }
            #expect(error == .searchFailed(output))
        }
        for body in ["", "[]", "{}", #"{"error":{"message":"no"}}"#, "<html>"] {
            let harness = harness(.serverSentEvents, [], [Self.refused(200, body)])
            await #expect(throws: ChappieClientError.self) {
                try await harness.client.search(ChappieSearchRequest("swift"))
            }
        }
    }

    // MARK: In a turn

    @Test(arguments: Wire.allCases)
    func `the model searches with a function, and the chain is kept`(wire: Wire) async throws {
        let linked = "See [two](https://example.com/two_(b)) and [blog](https://swift.org/blog)."
        let harness = harness(
            wire, [Self.called, .answer(linked, id: "resp_2"), .answer("c", id: "resp_3")], [Self.answer])
        var requested: [ChappieServiceStep] = []
        var response: ChappieResponse?
        for try await event in harness.client.streamResponse(Self.request) {
            if case .toolCallRequested(let request) = event { requested = request.steps }
            if case .notice(let notice) = event { Issue.record("\(notice)") }
            if case .completed(let whole) = event { response = whole }
        }
        #expect(
            requested.map(\.sentence) == ["Searches the web: swift 6.4; swift news", "Opens turn0search0"])
        #expect(
            response?.sources == [
                ChappieSource(url: "https://example.com/two_(b)"),
                ChappieSource(url: "https://swift.org/blog", title: "Blog"),
            ])
        let search = try body(try #require(searches(harness).first))
        #expect(search["commands"]?.object?.members.map(\.name) == ["search_query", "open"])
        #expect(search["input"]?.array?.count == 1 && search["model"] == "lite")
        #expect(await harness.ask("And?").text == "c")
        let requests = try harness.requests
        #expect(search["id"] == requests[0]["prompt_cache_key"])
        // The lite form stays, with the function beside the host's own.
        #expect(requests.allSatisfy { $0["reasoning"]?["context"] == "all_turns" && $0["tools"] == nil })
        let declared = requests[0]["input"]?[0]?["tools"]?[0]?["tools"]?.array ?? []
        #expect(declared.contains { $0["name"] == "web_search" && $0["strict"] == false })
        let outputs = requests.flatMap { $0["input"]?.array ?? [] }.filter { $0["type"] == "function_call_output" }
        #expect(outputs.allSatisfy { $0["output"] == "[turn0search0] Swift 6.4 is out." && $0["sources"] == nil })
        #expect(!outputs.isEmpty)
        if wire == .webSocket {
            #expect(requests[1]["previous_response_id"] == "resp_1")
            #expect(requests[1]["input"]?.array?.count == 1)
        }
        let context = await harness.client.context()
        #expect(ServiceOutputs(in: context.items).address(of: "turn0search1") == "https://example.com/two_(b)")
    }

    @Test func `an answer without links lists what was found`() async throws {
        let harness = harness(.serverSentEvents, [Self.called, .answer("It is out.")], [Self.answer])
        let response = try await harness.client.response(Self.request)
        #expect(response.sources.map(\.url) == ["https://swift.org/blog", "https://example.com/two_(b)"])
    }

    private func end(after failure: ScriptedHTTPAnswer..., then next: [Reply] = []) async throws -> (
        seen: Seen, told: String, harness: ClientHarness
    ) {
        let harness = harness(.serverSentEvents, [Self.called, .answer("Without.")] + next, failure)
        let seen = await Seen(harness.client.streamResponse(Self.request))
        let input = try #require(try harness.requests[1]["input"]?.array)
        let output = try #require(input.last { $0["type"] == "function_call_output" })
        return (seen, output["output"]?.string ?? "", harness)
    }

    @Test func `a failure of the service is told to the model and to the user`() async throws {
        let end = try await end(after: Self.refused(500), Self.lost, Self.refused(503))
        #expect(end.seen.text == "Without." && end.seen.notices.map(\.kind) == [.serviceToolFailed])
        #expect(end.told.hasPrefix("The web search failed."))
        #expect(searches(end.harness).count == 3)
    }

    @Test func `a refused request is told to the model only`() async throws {
        let end = try await end(after: Self.refused(400, #"{"error":{"message":"Too many queries."}}"#))
        #expect(end.seen.text == "Without." && end.seen.notices.isEmpty)
        #expect(end.told.contains("Too many queries.") && searches(end.harness).count == 1)
    }

    @Test func `a limit is told to the user with its reset`() async throws {
        let body = #"{"error":{"type":"usage_limit_reached","resets_in_seconds":1800}}"#
        let end = try await end(after: Self.refused(429, body))
        #expect(end.seen.notices.map(\.kind) == [.serviceToolFailed])
        #expect(end.seen.notices.first?.message.contains("resets at") == true)
        #expect(end.told.contains("not available now") && searches(end.harness).count == 1)
    }

    @Test(arguments: [0, 1])
    func `a search that is gone is replaced by the backend's own in later turns`(index: Int) async throws {
        let search: ChappieJSON = ["type": "web_search_call", "id": "ws_1", "status": "completed"]
        let end = try await end(
            after: [Self.page, Self.refused(404, #"{"detail":"Not Found"}"#)][index],
            then: [Reply(steps: [.events(items([search], isWhole: false) + answering("new", id: "resp_3"))])])
        #expect(end.seen.text == "Without." && end.seen.notices.map(\.kind) == [.serviceToolFailed])
        #expect(end.told.contains("not available now") && searches(end.harness).count == 1, "\(end.told) \(end.seen)")
        #expect(await Seen(end.harness.client.streamResponse(Self.request)).text == "new")
        let last = try #require(try end.harness.requests.last)
        #expect(last["reasoning"]?["context"] == nil && last["tools"]?[0]?["type"] == "web_search")
    }

    @Test func `a model in the full form and the plan get the backend's search`() async throws {
        let flat = harness(.serverSentEvents, [.answer("a")], [], model: "flat")
        _ = await Seen(flat.client.streamResponse(Self.request))
        #expect(try flat.requests[0]["tools"]?[0]?["type"] == "web_search")
        for plan in [true, false] {
            for lite in [true, false] {
                for gone in [true, false] {
                    let way = try ServiceToolWay(of: .webSearch(), onPlan: plan, takesLite: lite, searchIsGone: gone)
                    #expect((way == .function) == (!plan && lite && !gone))
                }
            }
        }
        #expect(throws: ChappieClientError.notWithThisSignIn("Making pictures")) {
            try ServiceToolWay(of: .imageGeneration(), onPlan: true, takesLite: false, searchIsGone: false)
        }
    }

    // MARK: The input of a search

    @Test func `a search gets the last two questions and the text between them`() throws {
        func message(_ role: String, _ text: String) -> ChappieJSON {
            ["type": "message", "role": .string(role), "content": [["type": "input_text", "text": .string(text)]]]
        }
        let long = String(repeating: "ä", count: 3000)
        let items = [
            message("user", "first"), message("assistant", "one"), message("user", "second"),
            message("assistant", long), call("weather"), message("assistant", "end"), message("user", "third"),
            message("assistant", "commentary"),
        ]
        let input = SearchInput.end(of: items)
        #expect(input.map { $0["role"]?.string } == ["user", "assistant", "user"])
        #expect(input.first?["content"]?[0]?["text"] == "second")
        #expect(input.last?["content"]?[0]?["text"] == "third")
        let between = try #require(input[1]["content"]?[0]?["text"]?.string)
        #expect(between.utf8.count <= 4000 && between.hasSuffix("ä\nend") && !between.contains("\u{FFFD}"))
        #expect(SearchInput.end(of: [message("user", "only")]).count == 1)
        #expect(SearchInput.end(of: []).isEmpty)
    }
}
