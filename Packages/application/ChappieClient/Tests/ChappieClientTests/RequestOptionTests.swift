@_spi(ChappieInternals) import ChappieCore
import ChappieTesting
import FoundationEssentials
import Testing

@testable @_spi(ChappieInternals) import ChappieClient

/// What a turn asks for beside its messages: tools of the backend, a choice of tools, a tier of service.
@Suite struct RequestOptionTests {
    private static let tool = ChappieHostTool(name: "weather") { _ in "sun" }
    private static let search: ChappieJSON = [
        "id": "ws_1", "type": "web_search_call", "status": "completed",
        "action": ["type": "search", "query": "swift", "queries": ["swift", "news"]],
    ]
    private static let cited: ChappieJSON = [
        "id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
        "content": [
            [
                "type": "output_text", "text": "It is out.",
                "annotations": [["type": "url_citation", "url": "https://swift.org/blog", "title": "Blog"]],
            ]
        ],
    ]

    private func harness(_ wire: Wire, _ model: String, _ replies: [Reply], hasTool: Bool = true) -> ClientHarness {
        ClientHarness(wire, replies, tools: hasTool ? [Self.tool] : [], configure: { $0.model = model })
    }

    private func tools(of body: ChappieJSON) -> [ChappieJSON] {
        (body["tools"] ?? body["input"]?[0]?["tools"])?.array ?? []
    }

    @Test(arguments: Wire.allCases, ["flat", "lite"])
    func `a web search is cited and stays in the conversation`(wire: Wire, model: String) async throws {
        let harness = harness(
            wire, model,
            [Reply(steps: [.events(items([Self.search, Self.cited]))]), .answer("two", id: "resp_2")])
        let request = ChappieResponseRequest(
            messages: [.user("a")], serviceTools: [.webSearch(), ChappieServiceTool(declaration: ["type": "other"])])
        let response = try await harness.client.response(request)
        #expect(response.sources == [ChappieSource(url: "https://swift.org/blog", title: "Blog")])
        #expect(
            response.items.compactMap(\.webSearch) == [
                ChappieWebSearch(action: .search(queries: ["swift", "news"]), status: "completed")
            ])
        #expect(await harness.ask("b").text == "two")
        let requests = try harness.requests
        let declared = tools(of: requests[0])
        #expect(declared.count == 3 && declared[1] == ["type": "web_search", "external_web_access": true])
        #expect(declared[2] == ["type": "other"])
        // The next turn was not asked to search, and knows what was found. (A changed frame begins no chain.)
        let next = try #require(requests.last?["input"]?.array)
        #expect(next.contains { $0["type"] == "web_search_call" })
        #expect(tools(of: requests[1]).count == 1)
    }

    @Test func aModelThatDoesNotOfferTheWebIsNotAsked() async throws {
        let harness = harness(.serverSentEvents, "other", [])
        let request = ChappieResponseRequest(messages: [.user("a")], serviceTools: [.webSearch()])
        let error = await #expect(throws: ChappieClientError.self) { try await harness.client.response(request) }
        #expect(error?.errorDescription == "The model other does not offer web search.")
        #expect(try harness.requests.isEmpty)
    }

    @Test func domainsAreNarrowedInTheDeclaration() {
        #expect(
            ChappieServiceTool.webSearch(readsLivePages: false, allowedDomains: ["swift.org"]).declaration == [
                "type": "web_search", "external_web_access": false, "filters": ["allowed_domains": ["swift.org"]],
            ])
    }

    @Test(
        arguments: [
            (.required, "required"), (.function("weather"), ["type": "function", "name": "weather"]),
        ] as [(ChappieToolChoice, ChappieJSON)])
    func aToolIsInsistedOnOnce(_ choice: ChappieToolChoice, _ json: ChappieJSON) async throws {
        let harness = harness(
            .serverSentEvents, "flat", [Reply(steps: [.events(items([call("weather")]))]), .answer("sunny")])
        let request = ChappieResponseRequest(messages: [.user("a")], toolChoice: choice)
        #expect(try await harness.client.response(request).outputText == "sunny")
        #expect(try harness.requests.map { $0["tool_choice"] } == [json, "auto"])
    }

    @Test func `in the lite form, tools are left out or chosen by the model`() async throws {
        let harness = harness(.serverSentEvents, "lite", [.answer("one")])
        let none = ChappieResponseRequest(messages: [.user("a")], toolChoice: .none)
        #expect(try await harness.client.response(none).outputText == "one")
        let body = try #require(try harness.requests.first)
        #expect(body["tool_choice"] == "auto" && tools(of: body).isEmpty)
        let required = ChappieResponseRequest(messages: [.user("a")], toolChoice: .required)
        await #expect(throws: ChappieClientError.self) { try await harness.client.response(required) }
        #expect(try harness.requests.count == 1)
    }

    @Test func aTierIsNamedIfTheListOffersIt() async throws {
        let harness = harness(.serverSentEvents, "flat", [.answer("one")])
        let fast = ChappieResponseRequest(messages: [.user("a")], serviceTier: "priority")
        #expect(try await harness.client.response(fast).outputText == "one")
        #expect(try harness.requests.first?["service_tier"] == "priority")
        let other = ChappieResponseRequest(messages: [.user("a")], model: "other", serviceTier: "priority")
        let error = await #expect(throws: ChappieClientError.self) { try await harness.client.response(other) }
        #expect(error?.errorDescription == "The model other is not offered in the tier priority.")
    }

    @Test func aRequestOfAnEarlierVersionIsRead() throws {
        let request = ChappieResponseRequest(
            messages: [.user("a")], serviceTools: [.webSearch()], toolChoice: .none, serviceTier: "x")
        let decoder = JSONDecoder()
        #expect(try decoder.decode(ChappieResponseRequest.self, from: JSONEncoder().encode(request)) == request)
        let plain = ChappieResponseRequest(messages: [.user("a")])
        let before = try JSONEncoder().encode(plain)
        #expect(!String(decoding: before, as: UTF8.self).contains("serviceTools"))
        #expect(try decoder.decode(ChappieResponseRequest.self, from: before) == plain)
    }
}
