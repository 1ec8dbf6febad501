import ChappieCore

/// What is to go wrong, and when: settings, and rules that change the answers to some requests.
///
/// ```json
/// {
///   "name": "two cuts",
///   "description": "The first two answers break off, the third is whole.",
///   "rules": [
///     { "match": { "path": "/backend-api/codex/responses", "method": "POST", "to": 2 },
///       "effect": { "cut": { "afterBytes": 900, "with": "rst" } } }
///   ]
/// }
/// ```
///
/// For each request the first rule that matches applies, and no other. `SCENARIOS.md` beside the package describes every
/// member and every built-in scenario.
public struct SimulatorScenario: Sendable, Hashable {
    public let name: String
    /// One sentence for lists.
    public let summary: String
    let settings: ScenarioSettings
    let rules: [ScenarioRule]

    /// Reads a scenario from the bytes of a JSON file.
    ///
    /// - Throws: ``SimulatorError`` with code `.invalidScenario`; its message names the key path, such as
    ///   `rules[0].effect.cut.afterBytes`. Unknown members are errors: a slip of the pen must not pass for a setting.
    public init(parsing json: [UInt8]) throws(SimulatorError) {
        let value: ChappieJSON
        do throws(ChappieJSONError) {
            value = try ChappieJSON(parsing: json)
        } catch {
            throw SimulatorError(
                .invalidScenario, reason: "The scenario is not valid JSON: \(error.reason) at byte \(error.offset)")
        }
        let reader = ScenarioReader(value)
        try reader.allow(["name", "description", "settings", "rules"])
        name = try reader["name"]?.string() ?? "unnamed"
        summary = try reader["description"]?.string() ?? ""
        settings = try reader["settings"].mapThrowing(ScenarioSettings.init) ?? ScenarioSettings()
        rules =
            try reader["rules"].mapThrowing { (rules) throws(SimulatorError) in
                try rules.elements(ScenarioRule.init)
            } ?? []
    }

    /// Reads a scenario from JSON text. See ``init(parsing:)-([UInt8])``.
    public init(parsing text: String) throws(SimulatorError) { try self.init(parsing: Array(text.utf8)) }

    /// A built-in scenario.
    ///
    /// - Throws: ``SimulatorError`` with code `.unknownScenario`; the message lists the names.
    public init(named name: String) throws(SimulatorError) {
        guard let text = BuiltInScenarios.text(of: name) else {
            let known = SimulatorScenario.names.joined(separator: ", ")
            throw SimulatorError(.unknownScenario, reason: "There is no scenario \"\(name)\"; there are: \(known)")
        }
        try self.init(parsing: text)
    }

    /// The names of the built-in scenarios, in alphabetical order.
    public static let names: [String] = BuiltInScenarios.names
}
