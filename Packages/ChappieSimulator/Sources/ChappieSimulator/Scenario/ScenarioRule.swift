/// When, and what then.
struct ScenarioRule: Sendable, Hashable {
    let match: ScenarioMatch
    let effect: ScenarioEffect

    init(_ reader: ScenarioReader) throws(SimulatorError) {
        try reader.allow(["match", "effect"])
        match = try reader["match"].mapThrowing(ScenarioMatch.init) ?? ScenarioMatch()
        guard let effect = reader["effect"] else { throw reader.wrong("needs a member \"effect\"") }
        self.effect = try ScenarioEffect(effect)
    }
}
