import ChappieCore
@_spi(ChappieInternals) import ChappieJSONSchema
import TestFixtures
import Testing

/// Schemas come from servers, values from models: neither may cost much, or trap.
///
/// The bound is on steps, so that the answer shows whether it was reached; the time limit is for a hang.
@Suite(.timeLimit(.minutes(5))) struct SchemaHostilityTests {
    private static func chain(_ count: Int, _ link: (_ next: ChappieJSON) -> ChappieJSON) -> ChappieJSON {
        let links = (0..<count).map { ("d\($0)", link(.string("#/$defs/d\($0 + 1)"))) }
        return ["$ref": "#/$defs/d0", "$defs": .object(ChappieJSONObject(links + [("d\(count)", ["type": "string"])]))]
    }

    @Test func branchesThatDoubleAreGivenUp() throws {
        let schema = ChappieJSONSchema(Self.chain(30) { ["anyOf": [["$ref": $0], ["$ref": $0]]] })
        // 30 references in a row are within the bound; the 2^30 ways through them are not.
        #expect(try schema.violations(in: 7).map(\.message) == ["takes too long to check against its schema"])
        // A negation does not turn that into a fit.
        var negated = schema.json.object ?? [:]
        negated["$ref"] = nil
        negated["not"] = ["$ref": "#/$defs/d0"]
        #expect(try ChappieJSONSchema.object(negated).violations(in: 7).count == 1)
    }

    @Test func longChainsAreRefused() {
        let schema = ChappieJSONSchema(Self.chain(10_000) { ["$ref": $0] })
        #expect(throws: ChappieJSONSchemaError.self) { try schema.check() }
    }

    @Test func depthIsBounded() throws {
        var value: ChappieJSON = 1
        for _ in 0..<1000 { value = .array([value]) }
        let schema = ChappieJSONSchema(
            json(##"{"items":{"anyOf":[{"$ref":"#"},{"$ref":"#/$defs/n"}]},"$defs":{"n":{"type":"number"}}}"##))
        #expect(try schema.violations(in: value).map(\.message) == ["is nested over 256 levels deep"])
        #expect(throws: ChappieJSONSchemaError.self) { try ChappieJSONSchema(value).check() }
        value = 1
        for _ in 0..<255 { value = .array([value]) }
        // Deep values are refused, not let through, even behind a `not`.
        #expect(try schema.violations(in: value).map(\.message) == ["is nested too deeply for its schema"])
        let negated = ChappieJSONSchema(
            json(##"{"not":{"$ref":"#/$defs/t"},"$defs":{"t":{"items":{"$ref":"#/$defs/t"}}}}"##))
        #expect(try negated.violations(in: value).map(\.message) == ["is nested too deeply for its schema"])
    }

    @Test func largeValuesAreWithinTheBound() throws {
        let names = (0..<20_000).map { "n\($0)" }
        let object = ChappieJSON.object(ChappieJSONObject(names.map { ($0, 1) }))
        let schema = ChappieJSONSchema([
            "properties": .object(ChappieJSONObject(names.map { ($0, ["type": "integer"]) })),
            "required": .array(names.map(ChappieJSON.string)), "additionalProperties": false,
            "propertyNames": ["maxLength": 6],
        ])
        #expect(try schema.violations(in: object).isEmpty)
        let unique: ChappieJSONSchema = ["uniqueItems": true, "items": ["minimum": 0, "multipleOf": 0.5]]
        #expect(try unique.violations(in: .array((0..<20_000).map(ChappieJSON.integer))).isEmpty)
        let digits = String(repeating: "9", count: 100_000)
        #expect(try ChappieJSONSchema(["multipleOf": 7, "maximum": 1]).violations(in: json(digits)).isEmpty == false)
    }

    /// Random schemas and values: the same ones each time.
    @Test func randomSchemasNeitherTrapNorHang() throws {
        var random = SplitMix64(seed: 8)
        var (usable, fitting, total) = (0, 0, 0)
        while total < 1500 {
            total += 1
            let schema = ChappieJSONSchema(Generator.schema(&random, depth: 4))
            // A reference that leads nowhere is not checked, also behind a negation.
            guard (try? schema.check()) != nil, !Self.dangles(schema.json, in: schema.json) else { continue }
            usable += 1
            let tool = ChappieJSONSchema(schema.toolParameters)
            let strict = try? ChappieStrictSchema(schema)
            // The root becomes an object without alternatives.
            let hasAlternatives =
                ["allOf", "anyOf", "oneOf", "$ref"].contains { schema.json[$0] != nil }
                || schema.json.serialized().contains(##""$ref":"#""##)
            for _ in 0..<5 {
                let value = Generator.value(&random, depth: 4)
                let violations = try schema.violations(in: value)
                #expect(violations.count <= 20)
                if violations.isEmpty { fitting += 1 }
                // A tool's parameters are looser than its schema.
                if violations.isEmpty, value.object != nil, !hasAlternatives {
                    #expect(try tool.violations(in: value).isEmpty, "\(schema.json.serialized())")
                }
                _ = strict?.answer(value)
                // What fits a schema does not fit its negation.
                let negation = try ChappieJSONSchema(["not": Self.moved(schema.json)]).violations(in: value)
                #expect(negation.isEmpty != violations.isEmpty, "\(schema.json.serialized()) \(value.serialized())")
            }
        }
        #expect(usable > 100 && fitting > 100 && fitting < usable * 5, "\(usable) \(fitting) \(total)")
    }

    private static func dangles(_ json: ChappieJSON, in root: ChappieJSON) -> Bool {
        switch json {
        case .array(let elements): return elements.contains { dangles($0, in: root) }
        case .object(let object):
            if let reference = object["$ref"]?.string {
                let names = reference.split(separator: "/").dropFirst()
                let target = names.reduce(Optional(root)) { $0?[$1 == "~0~1" ? "~/" : String($1)] }
                if target == nil { return true }
            }
            return object.members.contains { dangles($0.value, in: root) }
        default: return false
        }
    }

    /// The schema, with its references changed to the place that it has behind a `not`.
    private static func moved(_ json: ChappieJSON) -> ChappieJSON {
        switch json {
        case .array(let elements): return .array(elements.map(moved))
        case .object(let object):
            return .object(
                ChappieJSONObject(
                    members: object.members.map { member in
                        let isReference = member.name == "$ref" && member.value.string?.hasPrefix("#") == true
                        let target = "#/not" + (member.value.string?.dropFirst() ?? "")
                        return .init(name: member.name, value: isReference ? .string(target) : moved(member.value))
                    }))
        default: return json
        }
    }
}

private enum Generator {
    static let names = ["a", "b", "aa", "é", "", "$ref", "~/"]
    static let literals = [
        "0", "1", "-1", "1.0", "1e2", "0.5", "1e-7", "9007199254740993", "-1e400", "123456789012345678901234567890",
    ]
    static let types = ["null", "boolean", "integer", "number", "string", "array", "object", "text"]

    static func pick<Element>(_ list: [Element], _ random: inout SplitMix64) -> Element {
        list[Int.random(in: list.indices, using: &random)]
    }

    static func value(_ random: inout SplitMix64, depth: Int) -> ChappieJSON {
        switch Int.random(in: 0..<(depth > 0 ? 9 : 6), using: &random) {
        case 0: return .null
        case 1: return .bool(Bool.random(using: &random))
        case 2, 3: return json(pick(literals, &random))
        case 4, 5: return .string(pick(names, &random))
        case 6: return .array((0..<Int.random(in: 0...3, using: &random)).map { _ in value(&random, depth: depth - 1) })
        default:
            let chosen = names.filter { _ in Int.random(in: 0..<3, using: &random) == 0 }
            return .object(ChappieJSONObject(chosen.map { ($0, value(&random, depth: depth - 1)) }))
        }
    }

    static func schema(_ random: inout SplitMix64, depth: Int) -> ChappieJSON {
        if depth == 0 || Int.random(in: 0..<10, using: &random) == 0 {
            return .bool(Int.random(in: 0..<3, using: &random) > 0)
        }
        var members: [(String, ChappieJSON)] = []
        for _ in 0..<Int.random(in: 1...4, using: &random) {
            let (name, value) = keyword(&random, depth: depth)
            if !members.contains(where: { $0.0 == name }) { members.append((name, value)) }
        }
        return .object(ChappieJSONObject(members))
    }

    private static func schemas(_ random: inout SplitMix64, _ depth: Int) -> ChappieJSON {
        .array((0..<Int.random(in: 1...3, using: &random)).map { _ in schema(&random, depth: depth - 1) })
    }

    private static func keyword(_ random: inout SplitMix64, depth: Int) -> (String, ChappieJSON) {
        switch Int.random(in: 0..<16, using: &random) {
        case 0, 1: return ("type", .string(pick(types, &random)))
        case 2: return (pick(["enum", "examples"], &random), .array((0..<3).map { _ in value(&random, depth: 2) }))
        case 3: return ("const", value(&random, depth: 2))
        case 4:
            return (
                pick(["minimum", "maximum", "exclusiveMinimum", "multipleOf"], &random), json(pick(literals, &random))
            )
        case 5:
            let names = [
                "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains",
            ]
            return (pick(names, &random), .integer(Int.random(in: 0...2, using: &random)))
        case 6: return ("format", .string(pick(names, &random)))
        case 7: return (pick(["allOf", "anyOf", "oneOf", "prefixItems"], &random), schemas(&random, depth))
        case 8: return (pick(["not", "if", "then", "else"], &random), schema(&random, depth: depth - 1))
        case 9:
            return (
                pick(["items", "contains", "additionalProperties", "propertyNames"], &random),
                schema(&random, depth: depth - 1)
            )
        case 10, 11:
            let chosen = names.filter { _ in Bool.random(using: &random) }
            let schemas = chosen.map { ($0, schema(&random, depth: depth - 1)) }
            return (
                pick(["properties", "properties", "$defs"], &random),
                .object(ChappieJSONObject(schemas))
            )
        case 12: return ("minProperties", .integer(Int.random(in: 0...2, using: &random)))
        case 13: return ("required", .array([.string(pick(names, &random))]))
        case 14: return ("uniqueItems", .bool(Bool.random(using: &random)))
        default:
            return (
                "$ref",
                .string(
                    pick(["#", "#/$defs/a", "#/properties/a", "#/properties/é", "#/items", "#/$defs/~0~1"], &random))
            )
        }
    }
}
