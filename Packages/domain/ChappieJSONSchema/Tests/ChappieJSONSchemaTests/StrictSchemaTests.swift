import ChappieCore
import ChappieJSONSchema
import TestFixtures
import Testing

@Suite struct StrictSchemaTests {
    @Test(
        "objects are closed, and a member that was optional may be null",
        arguments: [
            (
                ##"{"type":"object","title":"T","properties":{"a":{"type":"string","default":"x"},"b":{"type":"integer"}},"required":["b"]}"##,
                ##"{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]},"b":{"type":"integer"}},"required":["a","b"],"additionalProperties":false}"##
            ),
            (
                ##"{"properties":{"a":{"type":["string","null"]},"b":{"const":7}},"required":["b"]}"##,
                ##"{"type":"object","properties":{"a":{"type":["string","null"]},"b":{"type":"integer","enum":[7]}},"required":["a","b"],"additionalProperties":false}"##
            ),
            (
                ##"{"type":"object","properties":{"a":{"oneOf":[{"$ref":"#/definitions/n"},{"type":"string","minLength":1}]}},"required":["a"],"definitions":{"n":{"type":"number","minimum":0,"exclusiveMinimum":true}}}"##,
                ##"{"type":"object","properties":{"a":{"anyOf":[{"$ref":"#/$defs/n"},{"type":"string","minLength":1}]}},"required":["a"],"additionalProperties":false,"$defs":{"n":{"type":"number","exclusiveMinimum":0}}}"##
            ),
            (
                ##"{"type":"object","properties":{"a":{"type":"string","pattern":"(?<=x)y","format":"uri","x-more":1},"b":{"type":"array","items":{"type":"string"},"uniqueItems":true}},"required":["a","b"],"unevaluatedProperties":false}"##,
                ##"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"array","items":{"type":"string"}}},"required":["a","b"],"additionalProperties":false}"##
            ),
            (
                ##"{"type":"object","properties":{"at":{"type":"array","items":[{"type":"number"},{"type":"number"}],"minItems":2}},"required":["at"]}"##,
                ##"{"type":"object","properties":{"at":{"type":"array","minItems":2,"maxItems":2,"items":{"type":"number"}}},"required":["at"],"additionalProperties":false}"##
            ),
            (
                ##"{"type":"object","properties":{"next":{"allOf":[{"$ref":"#"}]}}}"##,
                ##"{"type":"object","properties":{"next":{"anyOf":[{"$ref":"#/$defs/Root"},{"type":"null"}]}},"required":["next"],"additionalProperties":false,"$defs":{"Root":{"type":"object","properties":{"next":{"anyOf":[{"$ref":"#/$defs/Root"},{"type":"null"}]}},"required":["next"],"additionalProperties":false}}}"##
            ),
            (
                ##"{"type":"array","items":{"type":"string"}}"##,
                ##"{"type":"object","properties":{"value":{"type":"array","items":{"type":"string"}}},"required":["value"],"additionalProperties":false}"##
            ),
            (
                ##"{"$ref":"#/$defs/a","$defs":{"a":{"type":"object","properties":{},"discriminator":{"x":1}}}}"##,
                ##"{"type":"object","properties":{},"required":[],"additionalProperties":false}"##
            ),
        ])
    func rewrites(_ schema: String, _ expected: String) throws {
        let strict = try ChappieStrictSchema(ChappieJSONSchema(json(schema)))
        #expect(strict.json == json(expected), "\(strict.json.serialized())")
        // What is strict stays as it is.
        if !expected.contains("$defs") {
            #expect(try ChappieStrictSchema(ChappieJSONSchema(strict.json)).json == strict.json)
        }
    }

    @Test(
        "added nulls and the added object are removed from an answer",
        arguments: [
            (
                ##"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":["string","null"]}},"required":["b"]}"##,
                ##"{"a":null,"b":null}"##, ##"{"b":null}"##
            ),
            (
                ##"{"type":"array","items":{"$ref":"#/$defs/t"},"$defs":{"t":{"type":"object","properties":{"n":{"type":"integer"},"t":{"$ref":"#/$defs/t"}}}}}"##,
                ##"{"value":[{"n":null,"t":{"n":1,"t":null}}]}"##, ##"[{"t":{"n":1}}]"##
            ),
            (
                ##"{"type":"object","properties":{"s":{"anyOf":[{"type":"object","properties":{"k":{"const":"a"},"x":{"type":"string"}},"required":["k"]},{"type":"object","properties":{"k":{"const":"b"},"x":{"type":["string","null"]}},"required":["k","x"]}]}},"required":["s"]}"##,
                ##"{"s":{"k":"b","x":null}}"##, ##"{"s":{"k":"b","x":null}}"##
            ),
            (
                ##"{"type":"object","properties":{"s":{"anyOf":[{"type":"object","properties":{"k":{"const":"a"},"x":{"type":"string"}},"required":["k"]},{"type":"null"}]}},"required":["s"]}"##,
                ##"{"s":{"k":"a","x":null}}"##, ##"{"s":{"k":"a"}}"##
            ),
        ])
    func reducesAnswers(_ schema: String, _ answer: String, _ expected: String) throws {
        let schema = ChappieJSONSchema(json(schema))
        let strict = try ChappieStrictSchema(schema)
        #expect(strict.changesAnswers)
        #expect(try ChappieJSONSchema(strict.json).violations(in: json(answer)).isEmpty)
        let reduced = strict.answer(json(answer))
        #expect(reduced == json(expected), "\(reduced.serialized())")
        #expect(try schema.violations(in: reduced).isEmpty)
    }

    @Test(
        "a part without a strict form is refused with its place",
        arguments: [
            (##"{"type":"object"}"##, "", "any names"),
            (
                ##"{"type":"object","properties":{"a":{"type":"object","additionalProperties":{"type":"string"}}}}"##,
                "/properties/a", "any names"
            ),
            (##"{"type":"object","properties":{"a":{}}}"##, "/properties/a", "any kind"),
            (##"{"type":"object","properties":{"a":{"type":"array"}}}"##, "/properties/a", "items"),
            (##"{"type":"object","properties":{"a":{"type":"array","items":true}}}"##, "/properties/a", "items"),
            (
                ##"{"type":"object","properties":{"a":{"allOf":[{"type":"object","properties":{}},{"type":"object"}]}}}"##,
                "/properties/a", "several"
            ),
            (
                ##"{"type":"object","properties":{"a":{"$ref":"http://x/y"}}}"##, "/properties/a/$ref",
                "in this document"
            ),
            (##"{"type":"object","properties":{},"required":["a"]}"##, "/required", "\"a\""),
            (
                ##"{"type":"object","properties":{"a":{"type":"string"}},"anyOf":[{"properties":{"b":{}}}]}"##, "",
                "next to"
            ),
        ])
    func refuses(_ schema: String, _ path: String, _ reason: String) throws {
        let error = try #require(throws: ChappieJSONSchemaError.self) {
            try ChappieStrictSchema(ChappieJSONSchema(json(schema)))
        }
        #expect(error.path == path && error.reason.contains(reason), "\(error)")
    }

    @Test func `conditions without a strict form stay in the check of the answer`() throws {
        let schema = ChappieJSONSchema(
            json(
                ##"{"type":"object","properties":{"a":{"type":"array","items":{"type":"string"},"uniqueItems":true}},"required":["a"],"not":{"maxProperties":0}}"##
            ))
        #expect(try !ChappieStrictSchema(schema).changesAnswers)
        #expect(try schema.violations(in: ["a": ["x", "x"]]).map(\.path) == ["/a"])
    }
}
