@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import TestFixtures
import Testing

@Suite struct ChappieModelTests {
    @Test func readsAnEntry() throws {
        let model = try #require(
            ChappieModel(
                json(
                    #"{"slug":"gpt-6-sol","display_name":"GPT-6-Sol","description":"Good","default_reasoning_level":"medium","supported_reasoning_levels":[{"effort":"low","description":"Fast"},{"effort":"xhigh"},{"description":"?"},"ultra"],"visibility":"list","supported_in_api":true,"priority":13,"context_window":272000,"input_modalities":["text","image"],"supports_search_tool":true,"use_responses_lite":false,"experimental_thing":{"x":1}}"#
                )))
        #expect(model.id == "gpt-6-sol")
        #expect(model.displayName == "GPT-6-Sol")
        #expect(model.description == "Good")
        #expect(model.supportedInAPI)
        #expect(model.isListed)
        #expect(model.priority == 13)
        #expect(model.contextWindow == 272_000)
        #expect(model.supportedReasoningLevels == [.low, .extraHigh, .ultra] && model.defaultReasoningLevel == .medium)
        #expect(model.inputModalities == ["text", "image"] && model.supportsSearchTool)
        #expect(model.supportsParallelToolCalls)
    }

    @Test func onlyTheSlugIsRequired() throws {
        let model = try #require(ChappieModel(json(#"{"slug":"m"}"#)))
        #expect(model.displayName == "m")
        #expect(model.description == nil)
        #expect(model.supportedInAPI)
        #expect(model.isListed)
        #expect(model.priority == .max && model.supportedReasoningLevels == [])
        #expect(model.defaultReasoningLevel == .automatic)
        #expect(model.contextWindow == nil)
        #expect(!model.supportsSearchTool)
        #expect(model.minimalClientVersion == nil && model.defaultReasoningSummary == nil)
        for entry in ["{}", "null", "[]", #"{"slug":""}"#, #"{"slug":7}"#, #""m""#] {
            #expect(ChappieModel(json(entry)) == nil, "\(entry)")
        }
    }

    @Test func wrongTypesFallBackToTheDefaults() throws {
        let model = try #require(
            ChappieModel(
                json(
                    #"{"slug":"m","display_name":1,"priority":"first","supported_in_api":"yes","visibility":null,"input_modalities":"text","supported_reasoning_levels":{},"context_window":1.5,"default_reasoning_level":[]}"#
                )))
        #expect(model == ChappieModel(json(#"{"slug":"m"}"#)))
    }

    @Test func `lite models do not call in parallel unless they declare it`() {
        #expect(ChappieModel(json(#"{"slug":"m","use_responses_lite":true}"#))?.supportsParallelToolCalls == false)
        let both = json(#"{"slug":"m","use_responses_lite":true,"supports_parallel_tool_calls":true}"#)
        #expect(ChappieModel(both)?.supportsParallelToolCalls == true)
    }

    @Test func `features that the list does not mention count as supported`() throws {
        for model in [try #require(ChappieModel(json(#"{"slug":"m"}"#))), ChappieModel(slug: "m")] {
            #expect(model.inputModalities == ["text", "image"] && model.supportsVerbosity)
            #expect(model.supportsReasoningSummaries && model.supportsReasoningSummaryParameter)
            #expect(model.takesReasoningSummary && model.supportsParallelToolCalls)
        }
    }

    @Test func `reads what a model does not take`() throws {
        let model = try #require(
            ChappieModel(
                json(
                    #"{"slug":"gpt-5.3-codex-spark","input_modalities":["text"],"supports_reasoning_summaries":false,"supports_reasoning_summary_parameter":false,"default_reasoning_summary":"none","support_verbosity":false,"supports_parallel_tool_calls":false,"minimal_client_version":"0.98.0"}"#
                )))
        #expect(model.inputModalities == ["text"])
        #expect(!model.supportsVerbosity)
        #expect(!model.supportsParallelToolCalls)
        #expect(!model.supportsReasoningSummaries && !model.supportsReasoningSummaryParameter)
        #expect(model.defaultReasoningSummary == "none" && model.minimalClientVersion == "0.98.0")
        #expect(try JSONDecoder().decode(ChappieModel.self, from: JSONEncoder().encode(model)) == model)
    }

    @Test(
        "a summary is asked for only if the model writes one and requests may name it",
        arguments: ["supports_reasoning_summaries", "supports_reasoning_summary_parameter"])
    func takesReasoningSummary(_ fact: String) {
        #expect(ChappieModel(json(#"{"slug":"m","\#(fact)":false}"#))?.takesReasoningSummary == false)
        #expect(ChappieModel(json(#"{"slug":"m","\#(fact)":true}"#))?.takesReasoningSummary == true)
        #expect(ChappieModel(json(#"{"slug":"m","\#(fact)":null}"#))?.takesReasoningSummary == true)
    }

    @Test func readsWhatIsToBeKnownOfAModelsFuture() throws {
        let model = try #require(
            ChappieModel(
                json(
                    #"{"slug":"m","context_window":272000,"max_context_window":872000,"effective_context_window_percent":90,"auto_compact_token_limit":200000,"use_responses_lite":true,"support_verbosity":true,"default_verbosity":"low","availability_nux":{"message":"New"},"upgrade":{"model":"n","migration_markdown":"**n** is better","retirement_at":1800000000}}"#
                )))
        #expect(model.maximumContextWindow == 872_000 && model.effectiveContextWindowPercent == 90)
        #expect(model.autoCompactTokenLimit == 200_000 && model.usesResponsesLite)
        #expect(model.supportsVerbosity)
        #expect(model.defaultVerbosity == .low)
        #expect(model.availabilityNote == "New")
        let date = Date(timeIntervalSince1970: 1_800_000_000)
        #expect(model.upgrade == ChappieModelUpgrade(model: "n", notes: "**n** is better", retirementAt: date))
        #expect(try JSONDecoder().decode(ChappieModel.self, from: JSONEncoder().encode(model)) == model)
    }

    @Test(
        "upgrades in the shapes that may come",
        arguments: [
            (#"{"model":"n"}"#, ChappieModelUpgrade(model: "n")), ("null", nil), (#"{"model":""}"#, nil), ("7", nil),
            (#"{"migration_markdown":"x"}"#, nil),
            (
                #"{"model":"n","retirement_at":"2027-01-15T08:00:00Z"}"#,
                ChappieModelUpgrade(model: "n", retirementAt: Date(timeIntervalSince1970: 1_800_000_000))
            ), (#"{"model":"n","retirement_at":1e300}"#, ChappieModelUpgrade(model: "n")),
            (#"{"model":"n","retirement_at":"soon"}"#, ChappieModelUpgrade(model: "n")),
        ] as [(String, ChappieModelUpgrade?)])
    func readsUpgrades(_ text: String, _ upgrade: ChappieModelUpgrade?) {
        #expect(ChappieModel(json(#"{"slug":"m","upgrade":\#(text)}"#))?.upgrade == upgrade)
    }

    @Test func listsByPriorityAndThenAsListed() {
        let body = json(
            #"{"models":[{"slug":"c","priority":2},{"slug":"x"},{"slug":"a","priority":1},{"id":"b","priority":2},{"name":"none"},null,{"slug":"y"}]}"#
        )
        #expect(ChappieModel.list(body)?.map(\.slug) == ["a", "c", "b", "x", "y"])
    }

    @Test func readsBothStylesOfListAndNoOtherBody() {
        #expect(ChappieModel.list(json(#"{"object":"list","data":[{"id":"a"}]}"#))?.map(\.slug) == ["a"])
        #expect(ChappieModel.list(json(#"{"models":[]}"#)) == [])
        for body in ["{}", "[]", "null", #"{"models":null}"#, #"{"models":{"a":1}}"#, #"{"detail":"Not Found"}"#] {
            #expect(ChappieModel.list(json(body)) == nil, "\(body)")
        }
    }

    @Test func filters() throws {
        let list = try #require(
            ChappieModel.list(
                json(
                    #"{"models":[{"slug":"plain","input_modalities":["text"]},{"slug":"seeing","input_modalities":["text","image"],"supported_in_api":false},{"slug":"hidden","visibility":"hide"},{"slug":"none","visibility":"none"}]}"#
                )))
        func slugs(_ filter: ChappieModelFilter) -> [String] { list.filter(filter.matches).map(\.slug) }
        #expect(slugs(ChappieModelFilter()) == ["plain", "seeing"])
        #expect(slugs(.textInAPI) == ["plain"])
        #expect(slugs(ChappieModelFilter(inputModality: "image")) == ["seeing"])
        #expect(slugs(ChappieModelFilter(supportedInAPI: false)) == ["seeing"])
        #expect(slugs(ChappieModelFilter(includesHidden: true)) == ["plain", "seeing", "hidden", "none"])
        let able = ChappieModel(
            slug: "able", supportedReasoningLevels: [.none, .low], supportsSearchTool: true,
            supportsParallelToolCalls: false)
        let matching = [
            ChappieModelFilter(supportsSearchTool: true), .init(supportsParallelToolCalls: false),
            .init(reasoningLevel: "none"),
        ]
        for filter in matching {
            #expect(filter.matches(able) && slugs(filter) == [])
        }
    }

    @Test(
        "a model is listed unless its visibility is known to hide it",
        arguments: [
            (#""list""#, true), (#""workspace""#, true), (#""""#, true), ("null", true), ("7", true),
            (#""hide""#, false), (#""none""#, false),
        ])
    func isListed(_ visibility: String, _ expected: Bool) {
        #expect(ChappieModel(json(#"{"slug":"m","visibility":\#(visibility)}"#))?.isListed == expected)
    }

    @Test func survivesARoundTrip() throws {
        let model = try #require(ChappieModel(json(#"{"slug":"m","default_reasoning_level":"cosmic","priority":3}"#)))
        #expect(try JSONDecoder().decode(ChappieModel.self, from: JSONEncoder().encode(model)) == model)
        #expect(model.defaultReasoningLevel.rawValue == "cosmic")
    }
}
