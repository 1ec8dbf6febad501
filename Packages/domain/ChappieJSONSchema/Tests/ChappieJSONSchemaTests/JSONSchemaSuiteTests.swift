import ChappieCore
import ChappieJSONSchema
import Testing

/// The cases of the official JSON-Schema-Test-Suite, from the folder that `CHAPPIE_JSON_SCHEMA_SUITE` names
/// (`…/tests/draft2020-12`). `Scripts/test` takes it from PyPI's `jsonschema`, whose source carries the suite.
@Suite struct JSONSchemaSuiteTests {
    private static let folder = ProcessInfo.processInfo.environment["CHAPPIE_JSON_SCHEMA_SUITE"].flatMap {
        $0.isEmpty ? nil : $0
    }
    /// Words that are out of scope, and nothing else may be.
    private static let outOfScope: Set<String> = [
        "$id", "$ref", "$schema",
        // The suite's own names for unknown keywords.
        "unknown-keyword", "array_of_schemas",
    ]
    /// Keywords that are accepted and not checked.
    private static let unchecked: Set<String> = [
        "pattern", "patternProperties", "dependentRequired", "dependentSchemas", "dependencies",
        "unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "$dynamicAnchor", "$vocabulary",
    ]

    private static func isPartial(_ json: ChappieJSON) -> Bool {
        switch json {
        case .array(let elements): elements.contains(where: isPartial)
        case .object(let object):
            object.members.contains { unchecked.contains($0.name) || isPartial($0.value) }
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

    private static func groups() throws -> [Group] {
        guard let folder else { return [] }
        var groups: [Group] = []
        for place in [folder, folder + "/optional"] {
            for file in try FileManager.default.contentsOfDirectory(atPath: place).sorted()
            where file.hasSuffix(".json") {
                let text = try Data(contentsOf: URL(filePath: place + "/" + file))
                for group in try ChappieJSON(parsing: Array(text)).array ?? [] {
                    groups.append(
                        Group(
                            file: file, description: try #require(group["description"]?.string),
                            schema: ChappieJSONSchema(try #require(group["schema"])),
                            tests: try #require(group["tests"]?.array)))
                }
            }
        }
        return groups
    }

    @Test(.enabled(if: folder != nil, "CHAPPIE_JSON_SCHEMA_SUITE names no folder with the official suite"))
    func agreesWithTheOfficialSuite() throws {
        var passed = 0
        var refused: [String: Int] = [:]
        for group in try Self.groups() {
            let isPartial = Self.isPartial(group.schema.json)
            for test in group.tests {
                let name = "\(group.file): \(group.description): \(test["description"]?.string ?? "")"
                do throws(ChappieJSONSchemaError) {
                    let violations = try group.schema.violations(in: test["data"] ?? .null)
                    let agrees = violations.isEmpty == test["valid"]?.bool
                    // Nothing that the suite calls valid is refused.
                    #expect(agrees || isPartial && violations.isEmpty, "\(name): \(violations)")
                    if agrees { passed += 1 }
                } catch {
                    let keyword = Self.outOfScope.first { error.reason.hasPrefix("the keyword \"\($0)\"") }
                    #expect(keyword != nil, "\(name): \(error)")
                    refused[keyword ?? "", default: 0] += 1
                }
            }
        }
        let list = refused.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", ")
        let total = refused.values.reduce(0, +)
        print(
            "measured: JSON-Schema-Test-Suite, draft 2020-12: \(passed) cases passed, \(total) refused by keyword (\(list))."
        )
        #expect(passed > 900)
    }
}
