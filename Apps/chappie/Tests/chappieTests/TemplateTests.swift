import FoundationEssentials
import Testing

@testable import chappie

@Suite struct TemplateTests {
    private let folder = TemporaryFolder()

    private func filled(
        _ text: String, _ question: String = "", _ parameters: [String: String] = [:]
    ) throws -> (system: String?, prompt: String) {
        try Template(parsing: text, name: "t").filled(with: question, parameters)
    }

    @Test(
        "variables in a prompt",
        arguments: [
            ("Summarise: $input", "a $b", "Summarise: a $b"), ("Summarise.", "text", "Summarise.\n\ntext"),
            ("${input}s and $input.", "x", "xs and x."), ("$$5, $5, $ and ${ and $", "", "$5, $5, $ and ${ and $"),
            ("$$input", "q", "$input\n\nq"), ("$a-$b_c", "", "1-2"), ("\n\nx\n\n", "", "x"), ("a\r\nb", "", "a\nb"),
            ("---\n$a: 7\n$d: e f\n---\n$a $d", "", "1 e f"),
        ])
    func areReplaced(_ text: String, _ question: String, _ expected: String) throws {
        let parameters = ["a": "1", "b_c": "2"].filter { text.contains("$\($0.key)") }
        #expect(try filled(text, question, parameters).prompt == expected)
    }

    @Test func settingsStandBetweenHyphens() throws {
        let template = try Template(
            parsing:
                "---\n# about\nmodel: gpt-6-sol\neffort: low\nverbosity: high\nsystem: You are $who:\n  brief\n\n---\nGo",
            name: "t")
        #expect(
            template.settings == [
                "model": "gpt-6-sol", "effort": "low", "verbosity": "high", "system": "You are $who:\nbrief",
            ])
        let filled = try template.filled(with: "on", ["who": "a poet"])
        #expect(filled.system == "You are a poet:\nbrief" && filled.prompt == "Go\n\non")
    }

    @Test(
        "what can't be used",
        arguments: [
            ("$tone", [:], "needs a value for $tone"), ("${a}${b}", ["a": "1"], "needs a value for $b"),
            ("x", ["tone": "1"], "has no variable $tone"), ("", [:], "nothing to ask"),
            ("---\nmodel: m\nx", [:], "line 1: the settings do not end"),
            ("---\n\nmodle: m\n---\nx", [:], "line 3: modle"),
            ("---\nmodel\n---\nx", [:], "line 2: it has no colon"), ("---\n  x\n---\nx", [:], "line 2: it belongs"),
            ("---\n$1: x\n---\nx", [:], "line 2: $1"),
        ] as [(String, [String: String], String)])
    func isSaidWithItsPlace(_ text: String, _ parameters: [String: String], _ says: String) throws {
        let error = try #require(throws: CommandLineError.self) { try filled(text, "", parameters) }
        #expect(error.message.contains(says), "\(error.message)")
    }

    @Test func parametersAreNamesAndValues() throws {
        #expect(try Template.parameters(["a=b=c", "d=", "a=e"]) == ["a": "e", "d": ""])
        for argument in ["a", "=b", "1a=b", "a b=c"] {
            #expect(throws: CommandLineError.self) { try Template.parameters([argument]) }
        }
    }

    @Test func aTemplateIsFoundByItsNameOrByAPath() throws {
        let environment = folder.environment()
        let missing = try #require(throws: CommandLineError.self) { try Template(named: "short", environment) }
        let home = folder.path + "/.config/chappie/templates"
        #expect(missing.suggestion == "Write one: \(home)/short.md")
        try FileManager.default.createDirectory(atPath: home, withIntermediateDirectories: true)
        try Data("Be short.".utf8).write(to: URL(filePath: home + "/short.md"))
        #expect(try Template(named: "short", environment).prompt == "Be short.")
        #expect(try Template(named: home + "/short.md", environment).prompt == "Be short.")
        let other = try #require(throws: CommandLineError.self) { try Template(named: "long", environment) }
        #expect(other.suggestion == "There are: short.")
        try Data([0xFF]).write(to: URL(filePath: home + "/bytes.md"))
        let bytes = try #require(throws: CommandLineError.self) { try Template(named: "bytes", environment) }
        #expect(bytes.message.contains("UTF-8"))
        #expect(throws: CommandLineError.self) { try Template(named: "short", ProgramEnvironment { _ in nil }) }
    }
}
