@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import Testing

@Suite struct ChappiePlanTests {
    @Test(
        "known plans",
        arguments: [
            ("free", .free, "Free"), ("go", .go, "Go"), ("plus", .plus, "Plus"), ("pro", .pro, "Pro"),
            ("prolite", .proLite, "Pro Lite"), ("promax", .proMax, "Pro Max"), ("team", .team, "Team"),
            ("business", .business, "Business"), ("enterprise", .enterprise, "Enterprise"),
            ("self_serve_business_usage_based", .selfServeBusinessUsageBased, "Self Serve Business Usage Based"),
            ("enterprise_cbp_usage_based", .enterpriseUsageBased, "Enterprise CBP Usage Based"),
            ("edu", .edu, "Edu"), ("edu_pro", .eduPro, "Edu Pro"),
        ] as [(String, ChappiePlan, String)])
    func readsKnownPlans(_ raw: String, _ plan: ChappiePlan, _ name: String) {
        #expect(ChappiePlan(rawValue: raw) == plan && ChappiePlan(rawValue: raw.uppercased()) == plan)
        #expect(plan.rawValue == raw && plan.displayName == name)
    }

    @Test func readsAliases() {
        #expect(ChappiePlan(rawValue: "HC") == .enterprise && ChappiePlan(rawValue: "education") == .edu)
    }

    @Test("unknown plans survive as they were", arguments: ["guest", "Something New", "", "é"])
    func keepsUnknownPlans(_ raw: String) throws {
        let plan = ChappiePlan(rawValue: raw)
        #expect(plan == .other(raw))
        #expect(plan.rawValue == raw)
        #expect(plan.displayName == raw)
        let plans = [plan, .proLite]
        #expect(try JSONDecoder().decode([ChappiePlan].self, from: JSONEncoder().encode(plans)) == plans)
    }
}
