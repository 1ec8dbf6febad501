import ChappieSimulator
import Foundation
import Testing

struct DocumentationTests {
    @Test func theListOfBuiltInScenariosIsTrue() throws {
        let file = URL(fileURLWithPath: #filePath).appending(path: "../../../../SCENARIOS.md").standardized
        let text = try String(contentsOf: file, encoding: .utf8)
        let rows = try SimulatorScenario.names.map { "| `\($0)` | \(try SimulatorScenario(named: $0).summary) |" }
        #expect(text.contains(rows.joined(separator: "\n") + "\n\n## Where"))
    }
}
