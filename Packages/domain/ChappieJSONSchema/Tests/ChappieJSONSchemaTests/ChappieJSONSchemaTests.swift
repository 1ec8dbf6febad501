import ChappieCore
import ChappieJSONSchema
import TestFixtures
import Testing

@Suite struct ChappieJSONSchemaTests {
    @Test(
        "tells what is wrong, and where",
        arguments: [
            (##"{"type":"string"}"##, "7", ["the value: must be a string, not a number"]),
            (##"{"type":"integer"}"##, "7.5", ["the value: must be an integer, not a number"]),
            (##"{"type":["string","null"]}"##, "true", ["the value: must be null or a string, not a boolean"]),
            (
                ##"{"properties":{"a/b":{"items":{"type":"null"}}}}"##, ##"{"a/b":[null,1]}"##,
                ["/a~1b/1: must be null, not a number"]
            ),
            (
                ##"{"required":["a","b"]}"##, "{}",
                [#"the value: lacks the member "a""#, #"the value: lacks the member "b""#]
            ),
            (##"{"properties":{"a":true},"additionalProperties":false}"##, ##"{"a":1,"b":2}"##, ["/b: is not allowed"]),
            (##"{"enum":["a",1]}"##, #""b""#, [#"the value: must be one of "a", 1"#]),
            (##"{"const":null}"##, "1", ["the value: must be null"]),
            (##"{"minimum":1e2}"##, "99.9", ["the value: must be at least 1e2"]),
            (##"{"multipleOf":0.1}"##, "0.35", ["the value: must be a multiple of 0.1"]),
            (##"{"minLength":2}"##, #""é""#, ["the value: must have at least 2 characters, not 1"]),
            (##"{"maxItems":1}"##, "[1,2]", ["the value: must have at most 1 item, not 2"]),
            (
                ##"{"uniqueItems":true}"##, #"[1,{"a":1,"b":2},{"b":2.0,"a":1}]"#,
                [
                    "the value: must not have the same item twice, as item 2 is"
                ]
            ),
            (
                ##"{"anyOf":[{"$ref":"#/$defs/a"},{"type":"null"}],"$defs":{"a":{"type":"object","required":["x"]}}}"##,
                "{}",
                [
                    #"the value: lacks the member "x""#
                ]
            ),
            (
                ##"{"anyOf":[{"type":"string"},{"type":"null"}]}"##, "1",
                ["the value: must be null or a string, not a number"]
            ),
            (
                ##"{"oneOf":[{"minimum":1},{"maximum":5}]}"##, "3",
                ["the value: must fit exactly one of 2 alternatives, not 2 of them"]
            ),
            (##"{"not":{"type":"null"}}"##, "null", ["the value: is of a kind that is not allowed"]),
            (
                ##"{"propertyNames":{"maxLength":1}}"##, ##"{"ab":1}"##,
                [#"the value: must not have a member with the name "ab""#]
            ),
            ("true", ##"{"a":1,"b":{"a":2,"a":3}}"##, [#"/b: has two members "a""#]),
        ] as [(String, String, [String])])
    func tellsWhatIsWrong(_ schema: String, _ instance: String, _ expected: [String]) throws {
        let violations = try ChappieJSONSchema(json(schema)).violations(in: json(instance))
        #expect(violations.map(\.description) == expected)
    }

    @Test(
        "numbers by meaning, strings by code points",
        arguments: [
            (##"{"const":1}"##, "1.0", true), (##"{"const":100}"##, "1e2", true), (##"{"const":0}"##, "-0.0", true),
            (##"{"const":9007199254740993}"##, "9007199254740992", false), (##"{"type":"integer"}"##, "12300e-2", true),
            (##"{"maximum":18446744073709551616}"##, "18446744073709551617", false),
            (##"{"minimum":-1e400}"##, "-1e399", true),
            (##"{"exclusiveMaximum":0.3}"##, "0.29999999999999999999999", true),
            (##"{"multipleOf":0.01}"##, "19.99", true),
            (##"{"multipleOf":3}"##, "1e1000000", false), (##"{"multipleOf":7}"##, "7e123456789", true),
            (##"{"minimum":1e99999999999999999999}"##, "1", false), (##"{"const":"\u00e9"}"##, #""e\u0301""#, false),
            (##"{"properties":{"\u00e9":false}}"##, ##"{"e\u0301":1}"##, true), (##"{"maxLength":1}"##, #""👨‍👩‍👧""#, false),
            (##"{"minLength":1.0,"maxLength":1e400}"##, #""a""#, true), (##"{"const":true}"##, "1", false),
        ])
    func comparesByMeaning(_ schema: String, _ instance: String, _ isFit: Bool) throws {
        let violations = try ChappieJSONSchema(json(schema)).violations(in: json(instance))
        #expect(violations.isEmpty == isFit, "\(violations)")
    }

    @Test(
        "refuses what it can't use",
        arguments: [
            ("7", "", "object, true or false"),
            (##"{"$ref":7}"##, "/$ref", "string"),
            (##"{"$ref":"#"}"##, "", "refers to itself"),
            (##"{"anyOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"not":{"$ref":"#"}}}}"##, "", ""),
            (
                ##"{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}"##, "/$defs/",
                "refers to itself"
            ),
            (##"{"type":"text"}"##, "/type", #"no type "text""#), (##"{"type":[]}"##, "/type", "empty"),
            (##"{"minimum":"1"}"##, "/minimum", "number"), (##"{"minLength":-1}"##, "/minLength", "0 or more"),
            (##"{"maxItems":1.5}"##, "/maxItems", "integer"), (##"{"multipleOf":0}"##, "/multipleOf", "above 0"),
            (##"{"required":"a"}"##, "/required", "names"), (##"{"required":[1]}"##, "/required", "names"),
            (##"{"properties":[]}"##, "/properties", "object"), (##"{"allOf":[]}"##, "/allOf", "list"),
            (##"{"items":[7]}"##, "/items/0", "object, true or false"), (##"{"enum":1}"##, "/enum", "list"),
            (##"{"uniqueItems":1}"##, "/uniqueItems", "true or false"),
            (##"{"patternProperties":{"[":7}}"##, "/patternProperties/[", "object, true or false"),
            (##"{"type":"string","type":"null"}"##, "", "two members"),
            (##"{"$defs":{"a":{"$anchor":"x"},"b":{"$anchor":"x"}}}"##, "/$defs/b", "twice"),
        ])
    func refuses(_ schema: String, _ path: String, _ reason: String) throws {
        let error = try #require(throws: ChappieJSONSchemaError.self) { try ChappieJSONSchema(json(schema)).check() }
        #expect(error.path.hasPrefix(path) && error.reason.contains(reason), "\(error)")
        #expect(error.errorDescription?.contains(error.reason) == true)
        #expect(throws: error) { try ChappieJSONSchema(json(schema)).violations(in: .null) }
    }

    @Test(
        "takes what servers of tools send",
        arguments: [
            ##"{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"$ref":"#/definitions/n","description":"n"}},"definitions":{"n":{"type":"number"}}}"##,
            ##"{"$id":"https://example.com/tool","$ref":"https://example.com/tool#/$defs/a","$defs":{"a":{"title":"A","format":"uri","x-order":1,"default":{"unknown":1}}}}"##,
            ##"{"type":"object","properties":{"$ref":{"type":"string"},"enum":{"enum":["a"]}},"$comment":"names like keywords"}"##,
            ##"{"$ref":"#/$defs/a%25b~1c","$defs":{"a%b/c":true}}"##,
        ])
    func takesWhatServersSend(_ schema: String) throws {
        try ChappieJSONSchema(json(schema)).check()
    }

    @Test(
        "refuses no value because of what it does not check",
        arguments: [
            (##"{"pattern":"^a"}"##, #""b""#), (##"{"not":{"pattern":"^a"}}"##, #""b""#),
            (##"{"patternProperties":{"^a":{"type":"null"}},"additionalProperties":false}"##, ##"{"b":1}"##),
            (##"{"if":{"pattern":"^a"},"then":false}"##, #""b""#),
            (##"{"oneOf":[{"pattern":"^a"},{"type":"string"}]}"##, #""b""#),
            (##"{"contains":{"pattern":"^a"},"maxContains":1}"##, ##"["b","c"]"##),
            (##"{"not":{"items":{"$ref":"#/$defs/a"}},"$defs":{"a":{"pattern":"^a"}}}"##, ##"["b"]"##),
            (##"{"dependentRequired":{"a":["b"]},"unevaluatedProperties":false}"##, ##"{"a":1}"##),
            (##"{"$ref":"https://example.com/a","type":"string"}"##, #""b""#),
            (##"{"not":{"$ref":"#/$defs/x"}}"##, "1"),
            (##"{"properties":{"a":{"$id":"b","$ref":"c"}},"$ref":"#x"}"##, ##"{"a":1}"##),
            (##"{"$schema":"https://example.com/dialect","type":"string"}"##, "1"),
        ])
    func refusesNothingUnchecked(_ schema: String, _ instance: String) throws {
        #expect(try ChappieJSONSchema(json(schema)).violations(in: json(instance)).isEmpty)
    }

    @Test(
        "unknown keywords restrict nothing",
        arguments: ["discriminator", "example", "externalDocs", "markdownDescription", "format", "unevaluatedItems"])
    func unknownKeywords(_ keyword: String) throws {
        let schema = ChappieJSONSchema(["type": "string", keyword: ["propertyName": "a"]])
        #expect(try schema.violations(in: "a").isEmpty)
        #expect(try schema.violations(in: 1).count == 1)
    }

    @Test(
        "reads the forms of older drafts",
        arguments: [
            (##"{"items":[{"type":"number"}],"additionalItems":false}"##, "[1]", "[1,2]"),
            (##"{"items":[{"type":"number"}],"additionalItems":{"type":"string"}}"##, #"[1,"a"]"#, "[1,2]"),
            (##"{"minimum":1,"exclusiveMinimum":true}"##, "2", "1"),
            (##"{"maximum":1,"exclusiveMaximum":false}"##, "1", "2"),
            (##"{"type":"string","nullable":true}"##, "null", "1"),
            (##"{"properties":{"a":{"type":"any","required":true},"b":{"type":"string"}}}"##, "{}", ##"{"b":1}"##),
            (
                ##"{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"$ref":"#/definitions/n","type":"null"}},"definitions":{"n":{"type":"number"}}}"##,
                ##"{"a":1}"##, ##"{"a":null}"##
            ),
            (
                ##"{"$schema":"http://json-schema.org/draft-04/schema#","id":"http://a/b","properties":{"a":{"$ref":"#n"}},"definitions":{"n":{"id":"#n","type":"number"}}}"##,
                ##"{"a":1}"##, ##"{"a":null}"##
            ),
            (##"{"$ref":"#/components/a","components":{"a":{"type":"number"}}}"##, "1", "null"),
        ])
    func olderDrafts(_ schema: String, _ fitting: String, _ violating: String) throws {
        let schema = ChappieJSONSchema(json(schema))
        #expect(try schema.violations(in: json(fitting)).isEmpty)
        #expect(try !schema.violations(in: json(violating)).isEmpty)
    }

    @Test func recursiveSchemasWork() throws {
        let tree = ChappieJSONSchema(
            json(
                ##"{"type":"object","properties":{"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},"required":["next"]}"##
            ))
        #expect(try tree.violations(in: json(##"{"next":{"next":{"next":null}}}"##)).isEmpty)
        let violations = try tree.violations(in: json(##"{"next":{"next":{"next":7}}}"##))
        #expect(violations.map(\.path) == ["/next/next/next"])
    }

    @Test func atMostTwentyViolations() throws {
        let schema: ChappieJSONSchema = ["items": ["type": "string"]]
        #expect(try schema.violations(in: .array(Array(repeating: 1, count: 100))).count == 20)
    }

    @Test func isCodedAsTheJSONThatItIs() throws {
        let schema = ChappieJSONSchema.object(["type": "object", "properties": [:]])
        let data = try JSONEncoder().encode([schema])
        #expect(String(decoding: data, as: UTF8.self).contains(#""type":"object""#))
        #expect(
            try JSONDecoder().decode([ChappieJSONSchema].self, from: Data(#"[true]"#.utf8)) == [ChappieJSONSchema(true)]
        )
    }
}
