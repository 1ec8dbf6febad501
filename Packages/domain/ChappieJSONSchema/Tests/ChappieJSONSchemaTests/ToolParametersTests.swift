import ChappieCore
@_spi(ChappieInternals) import ChappieJSONSchema
import TestFixtures
import Testing

@Suite struct ToolParametersTests {
    @Test(
        "a tool's parameters have a form that the service accepts",
        arguments: [
            (##"{"type":"object"}"##, ##"{"type":"object","properties":{}}"##),
            (
                ##"{"type":"object","properties":{"a":{"type":"array","description":"A."},"b":true},"$schema":"x","example":1}"##,
                ##"{"type":"object","properties":{"a":{"type":"array","description":"A.","items":{}},"b":{}}}"##
            ),
            (
                ##"{"type":"object","properties":{"a":{"items":[{"type":"number"},{"type":"string"}],"additionalItems":false}}}"##,
                ##"{"type":"object","properties":{"a":{"prefixItems":[{"type":"number"},{"type":"string"}],"items":{},"maxItems":2}}}"##
            ),
            (
                ##"{"type":"object","oneOf":[{"properties":{"a":{"type":"string"},"k":{"const":"a"}},"required":["k","a"]},{"properties":{"b":{"type":"string"},"k":{"const":"b"}},"required":["k"]}]}"##,
                ##"{"type":"object","properties":{"a":{"type":"string"},"k":{"anyOf":[{"const":"a"},{"const":"b"}]},"b":{"type":"string"}},"required":["k"]}"##
            ),
            (
                ##"{"$ref":"#/definitions/In","definitions":{"In":{"type":"object","properties":{"a":{"$ref":"#/definitions/N"}}},"N":{"type":"string","nullable":true}}}"##,
                ##"{"type":"object","properties":{"a":{"$ref":"#/definitions/N"}},"definitions":{"In":{"type":"object","properties":{"a":{"$ref":"#/definitions/N"}}},"N":{"type":["string","null"]}}}"##
            ),
            (
                ##"{"type":"object","properties":{"a":{"type":"string","pattern":"^(?!x)"},"b":{"type":"string","pattern":"^a$"},"c":{"type":"number","minimum":0,"exclusiveMinimum":true},"d":{"$ref":"http://x/y"},"e":{"type":"string","required":true}}}"##,
                ##"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string","pattern":"^a$"},"c":{"type":"number","exclusiveMinimum":0},"d":{},"e":{"type":"string"}}}"##
            ),
        ])
    func adapts(_ schema: String, _ expected: String) {
        let schema = ChappieJSONSchema(json(schema))
        #expect(schema.allowsObjects)
        #expect(schema.toolParameters == json(expected), "\(schema.toolParameters.serialized())")
        #expect(ChappieJSONSchema(schema.toolParameters).toolParameters == schema.toolParameters)
    }

    @Test(
        "patterns with parts that many matchers lack are not sent",
        arguments: [
            ("^a+$", true), ("(?:a|b)[(]", true), (#"\d{3}\("#, true), ("(?=a)", false), ("(?<!a)b", false),
            ("(?i)a", false), (#"(a)\1"#, false), ("[", false), ("(a", false), ("a)", false), ("\\", false),
        ])
    func patterns(_ pattern: String, _ isSent: Bool) {
        let schema = ChappieJSONSchema(["type": "object", "properties": ["a": ["pattern": .string(pattern)]]])
        #expect((schema.toolParameters["properties"]?["a"]?["pattern"] != nil) == isSent)
    }
}
