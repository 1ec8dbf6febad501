import ChappieCore
import ChappieJSONSchema
import Testing

/// The cases of the official JSON-Schema-Test-Suite, from the folder that `CHAPPIE_JSON_SCHEMA_SUITE` names
/// (`…/tests/draft2020-12`). `Scripts/test` takes it from PyPI's `jsonschema`, whose source carries the suite.
@Suite struct JSONSchemaSuiteTests {
    private static let folder = ProcessInfo.processInfo.environment["CHAPPIE_JSON_SCHEMA_SUITE"].flatMap {
        $0.isEmpty ? nil : $0
    }
    /// The keywords that are not checked.
    private static let unchecked: Set<String> = [
        "pattern", "patternProperties", "dependentRequired", "dependentSchemas", "dependencies",
        "unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$vocabulary",
        "contentEncoding", "contentMediaType",
    ]

    /// Whether a schema has keywords that are not checked, a reference to another document, or an unknown dialect.
    private static func isPartial(_ json: ChappieJSON) -> Bool {
        switch json {
        case .array(let elements): elements.contains(where: isPartial)
        case .object(let object):
            object.members.contains { member in
                let isElsewhere = member.name == "$ref" && member.value.string?.hasPrefix("#") == false
                let isUnknown = member.name == "$schema" && member.value.string?.contains("json-schema.org") == false
                return unchecked.contains(member.name) || isElsewhere || isUnknown || isPartial(member.value)
            }
        default: false
        }
    }

    /// The tests of one schema.
    private struct Group {
        let file: String
        let description: String
        let schema: ChappieJSONSchema
        let tests: [ChappieJSON]
    }

    private static func groups(_ draft: String) throws -> [Group] {
        guard let folder else { return [] }
        let place = folder + "/../" + draft
        var groups: [Group] = []
        for place in [place, place + "/optional"] {
            for file in try FileManager.default.contentsOfDirectory(atPath: place).sorted()
            where file.hasSuffix(".json") {
                let text = try Data(contentsOf: URL(filePath: place + "/" + file))
                for group in try ChappieJSON(parsing: Array(text)).array ?? [] {
                    var schema = try #require(group["schema"])
                    if var object = schema.object, object["$schema"] == nil {
                        object["$schema"] = .string(
                            "http://json-schema.org/\(draft.replacing("draft", with: "draft-0"))/schema#")
                        schema = .object(object)
                    }
                    groups.append(
                        Group(
                            file: file, description: try #require(group["description"]?.string),
                            schema: ChappieJSONSchema(schema), tests: try #require(group["tests"]?.array)))
                }
            }
        }
        return groups
    }

    /// The cases that differ on purpose: 1.0 is an integer in every draft here, and a schema that refers only to itself
    /// is an error.
    private static let accepted = ["float-overflow.json", "zeroTerminatedFloats.json", "infinite-loop-detection.json"]

    @Test(
        .enabled(if: folder != nil, "CHAPPIE_JSON_SCHEMA_SUITE names no folder with the official suite"),
        arguments: [("draft2020-12", 1100), ("draft2019-09", 1000), ("draft7", 800), ("draft4", 500)])
    func agreesWithTheOfficialSuite(_ draft: String, _ least: Int) throws {
        var passed = 0
        var unchecked = 0
        var wrong: [String] = []
        for group in try Self.groups(draft) where !Self.accepted.contains(group.file) {
            let isPartial = Self.isPartial(group.schema.json)
            for test in group.tests {
                let name = "\(group.file): \(group.description): \(test["description"]?.string ?? "")"
                do throws(ChappieJSONSchemaError) {
                    let violations = try group.schema.violations(in: test["data"] ?? .null)
                    if violations.isEmpty == test["valid"]?.bool {
                        passed += 1
                    } else if isPartial, violations.isEmpty {
                        // Nothing that the suite calls valid is refused.
                        unchecked += 1
                    } else {
                        wrong.append("\(name): \(violations)")
                    }
                } catch {
                    wrong.append("\(name): \(error)")
                }
            }
        }
        print(
            "measured: JSON-Schema-Test-Suite, \(draft): \(passed) pass, \(wrong.count) wrong, \(unchecked) not checked."
        )
        #expect(wrong.isEmpty, "\(wrong.joined(separator: "\n"))")
        #expect(passed > least)
    }
}
