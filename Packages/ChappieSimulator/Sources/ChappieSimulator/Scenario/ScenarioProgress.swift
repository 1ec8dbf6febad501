/// How far a scenario has been played.
struct ScenarioProgress: Sendable {
    private let rules: [ScenarioRule]
    private var counts: [Int]

    init(_ scenario: SimulatorScenario?) {
        rules = scenario?.rules ?? []
        counts = Array(repeating: 0, count: rules.count)
    }

    /// Counts a request, and gives the effect of the first rule that applies to it.
    mutating func effect(for request: BackendRequest) -> ScenarioEffect? {
        var found: ScenarioEffect?
        for (index, rule) in rules.enumerated() where rule.match.isAbout(request) {
            counts[index] += 1
            if found == nil, rule.match.includes(count: counts[index]) { found = rule.effect }
        }
        return found
    }
}
