import ChappieClient
@_spi(ChappieInternals) import ChappieCore
import ChappieJSONSchema
import Testing

@testable import ChappieFoundationModels

#if canImport(FoundationModels, _version: 2)
    import FoundationModels
#elseif canImport(FoundationModelsStandIn)
    import FoundationModelsStandIn
#endif

/// Guided generation.
@MainActor
@Suite(.timeLimit(.minutes(2))) struct SchemaTests {
    /// Schemas as the framework encodes them, and as they are sent.
    private nonisolated static let forms: [(given: String, sent: String)] = [
        (
            ##"{"type":"object","title":"A","x-order":["b","a"],"properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["b","a"],"additionalProperties":false}"##,
            ##"{"type":"object","properties":{"b":{"type":"integer"},"a":{"type":"string"}},"required":["b","a"],"additionalProperties":false}"##
        ),
        (
            ##"{"type":"object","title":"A","x-order":["a"],"properties":{"a":{"type":"string"}},"required":[],"additionalProperties":false}"##,
            ##"{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["a"],"additionalProperties":false}"##
        ),
        (
            ##"{"type":"object","properties":{"title":{"type":"string"}},"required":["title"],"additionalProperties":false}"##,
            ##"{"type":"object","properties":{"title":{"type":"string"}},"required":["title"],"additionalProperties":false}"##
        ),
        (
            ##"{"type":"object","properties":{"kind":{"const":"cat"}},"required":["kind"],"additionalProperties":false}"##,
            ##"{"type":"object","properties":{"kind":{"type":"string","enum":["cat"]}},"required":["kind"],"additionalProperties":false}"##
        ),
        (
            ##"{"type":"object","properties":{"kind":{"type":"string","enum":["a","b"]}},"required":["kind"],"additionalProperties":false}"##,
            ##"{"type":"object","properties":{"kind":{"type":"string","enum":["a","b"]}},"required":["kind"],"additionalProperties":false}"##
        ),
        (
            ##"{"type":"object","properties":{"n":{"type":"integer","minimum":1,"maximum":9}},"required":["n"],"additionalProperties":false}"##,
            ##"{"type":"object","properties":{"n":{"type":"integer","minimum":1,"maximum":9}},"required":["n"],"additionalProperties":false}"##
        ),
        (
            ##"{"type":"object","properties":{"s":{"type":"string","pattern":"a+"}},"required":["s"],"additionalProperties":false}"##,
            ##"{"type":"object","properties":{"s":{"type":"string","pattern":"a+"}},"required":["s"],"additionalProperties":false}"##
        ),
        (
            ##"{"type":"object","properties":{"l":{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":3}},"required":["l"],"additionalProperties":false}"##,
            ##"{"type":"object","properties":{"l":{"type":"array","maxItems":3,"minItems":1,"items":{"type":"string"}}},"required":["l"],"additionalProperties":false}"##
        ),
        (
            ##"{"type":"object","title":"A","x-order":["p"],"properties":{"p":{"$ref":"#/$defs/P"}},"required":["p"],"additionalProperties":false,"$defs":{"P":{"title":"P","type":"object","x-order":["y","x"],"properties":{"x":{"type":"number"},"y":{"type":"number"}},"required":["y","x"],"additionalProperties":false}}}"##,
            ##"{"type":"object","properties":{"p":{"$ref":"#/$defs/P"}},"required":["p"],"additionalProperties":false,"$defs":{"P":{"type":"object","properties":{"y":{"type":"number"},"x":{"type":"number"}},"required":["y","x"],"additionalProperties":false}}}"##
        ),
        (
            ##"{"type":"object","properties":{"v":{"anyOf":[{"$ref":"#/$defs/C"},{"$ref":"#/$defs/D"}]}},"required":["v"],"additionalProperties":false,"$defs":{"C":{"const":"c"},"D":{"const":"d"}}}"##,
            ##"{"type":"object","properties":{"v":{"anyOf":[{"$ref":"#/$defs/C"},{"$ref":"#/$defs/D"}]}},"required":["v"],"additionalProperties":false,"$defs":{"D":{"type":"string","enum":["d"]},"C":{"type":"string","enum":["c"]}}}"##
        ),
        (
            ##"{"type":"object","title":"Node","x-order":["next"],"properties":{"next":{"$ref":"#"}},"required":["next"],"additionalProperties":false}"##,
            ##"{"type":"object","properties":{"next":{"$ref":"#/$defs/Root"}},"required":["next"],"additionalProperties":false,"$defs":{"Root":{"type":"object","properties":{"next":{"$ref":"#/$defs/Root"}},"required":["next"],"additionalProperties":false}}}"##
        ),
        (
            ##"{"type":"array","items":{"type":"integer"}}"##,
            ##"{"type":"object","properties":{"value":{"type":"array","items":{"type":"integer"}}},"required":["value"],"additionalProperties":false}"##
        ),
        (
            ##"{"type":"string"}"##,
            ##"{"type":"object","properties":{"value":{"type":"string"}},"required":["value"],"additionalProperties":false}"##
        ),
        (
            ##"{"type":"string","enum":["a","b"]}"##,
            ##"{"type":"object","properties":{"value":{"type":"string","enum":["a","b"]}},"required":["value"],"additionalProperties":false}"##
        ),
        (
            ##"{"type":"boolean"}"##,
            ##"{"type":"object","properties":{"value":{"type":"boolean"}},"required":["value"],"additionalProperties":false}"##
        ),
    ]

    @Test(arguments: forms.indices)
    func `a schema is sent in the strict form, in the declared order`(index: Int) throws {
        let (given, sent) = Self.forms[index]
        let schema = try SchemaJSON.outputSchema(GenerationSchema(decoding: given))
        let form = try ChappieStrictSchema(schema).json.serialized()
        #expect(form == sent)
    }

    @Test(arguments: [
        #"{"title":"Form","type":"object","additionalProperties":{"type":"string"}}"#, #"{"title":"Form"}"#,
    ])
    func `a schema without a strict form is refused by its name`(json: String) {
        let schema = GenerationSchema(decoding: json)
        let error = #expect(throws: LanguageModelError.self) { try SchemaJSON.outputSchema(schema) }
        guard case .unsupportedGenerationGuide(let guide)? = error else { return }
        #expect(guide.schemaName == "Form")
    }

    @Test(arguments: [
        (#"{"value":[{"a":"}"},{"a":[1,{}]}]}"#, #"[{"a":"}"},{"a":[1,{}]}]"#), (#" { "value" : "a:}" } "#, #""a:}""#),
        (#"{"value":{"a":{}}}"#, #"{"a":{}}"#),
    ])
    func `a value comes out of its object wherever the text is cut`(text: String, value: String) {
        for first in text.indices {
            for second in text[first...].indices {
                var wrapped = WrappedValue()
                let pieces = [text[..<first], text[first..<second], text[second...]]
                let shown = pieces.map { wrapped.take(String($0)) }.joined()
                #expect(shown.trimmed == value)
            }
        }
    }

    private struct Trip: Generable, Equatable {
        let town: String
        let days: Int?

        init(_ content: GeneratedContent) throws {
            town = try content.value(forProperty: "town")
            days = try? content.value(forProperty: "days")
            guard case .structure(let members, _) = content.kind, members["days"]?.kind != .null else {
                throw CancellationError()
            }
        }

        var generatedContent: GeneratedContent { GeneratedContent(properties: ["town": town]) }

        static let generationSchema = GenerationSchema(
            decoding: #"""
                {"title": "Trip", "type": "object", "x-order": ["town", "days"], "additionalProperties": false,
                 "properties": {"town": {"type": "string"}, "days": {"type": "integer"}}, "required": ["town"]}
                """#)
    }

    @Test func `a type is generated, and a missing property has no null`() async throws {
        let user = try await SignedInModel()
        let session = LanguageModelSession(model: user.model)
        let trip = try await session.respond(to: #"reply: {"town":"Oslo","days":null}"#, generating: Trip.self)
        #expect(trip.content.town == "Oslo" && trip.content.days == nil)
        let format = try user.lastFrame()["text"]?["format"]
        #expect(format?["strict"] == true)
        #expect(format?["schema"]?["required"] == ["town", "days"])
        // The service gets its own text back, with the null.
        _ = try await session.respond(to: #"reply: {"town":"Rome","days":2}"#, generating: Trip.self)
        #expect(try user.lastFrame()["previous_response_id"] != nil)
    }

    @Test func `a root that is no object is generated`() async throws {
        let user = try await SignedInModel()
        let session = LanguageModelSession(model: user.model)
        let number = try await session.respond(to: #"reply: {"value": 42}"#, generating: Int.self)
        #expect(number.content == 42)
        let text = try await session.respond(to: #"reply: {"value": "a } b"}"#, generating: String.self)
        #expect(text.content == "a } b")
    }

    @Test func `the service's refusal of a schema names it`() async throws {
        let body = #"{"error":{"message":"Invalid schema.","param":"text.format.schema","code":"invalid_json_schema"}}"#
        let error = await LanguageModelError.replacing(
            ChappieClientError.httpError(400, body), of: ChappieExchange(input: []),
            try await SignedInModel().model.executorConfiguration.makeClient(),
            GenerationSchema(decoding: #"{"title":"Form"}"#))
        guard case .unsupportedGenerationGuide(let guide)? = error as? LanguageModelError else {
            Issue.record("\(error)")
            return
        }
        #expect(guide.schemaName == "Form")
    }
}
