@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import Testing

@Suite struct ChappiePlanTests {
    static let known: [(String, ChappiePlan, String)] = [
        ("free", .free, "Free"), ("go", .go, "Go"), ("plus", .plus, "Plus"), ("pro", .pro, "Pro"),
        ("prolite", .proLite, "Pro Lite"),
        ("promax", .proMax, "Pro Max"), ("team", .team, "Team"), ("business", .business, "Business"),
        ("self_serve_business_usage_based", .selfServeBusinessUsageBased, "Self Serve Business Usage Based"),
        ("enterprise", .enterprise, "Enterprise"),
        ("enterprise_cbp_usage_based", .enterpriseUsageBased, "Enterprise CBP Usage Based"),
        ("edu", .edu, "Edu"), ("edu_pro", .eduPro, "Edu Pro"),
    ]

    @Test("known plans", arguments: known)
    func readsKnownPlans(_ raw: String, _ plan: ChappiePlan, _ name: String) throws {
        #expect(ChappiePlan(rawValue: raw) == plan && ChappiePlan(rawValue: raw.uppercased()) == plan)
        #expect(plan.rawValue == raw && plan.displayName == name)
        #expect(try JSONDecoder().decode([ChappiePlan].self, from: JSONEncoder().encode([plan])) == [plan])
    }

    @Test func readsAliases() {
        #expect(ChappiePlan(rawValue: "hc") == .enterprise && ChappiePlan(rawValue: "HC") == .enterprise)
        #expect(ChappiePlan(rawValue: "education") == .edu)
    }

    @Test("unknown plans survive as they were", arguments: ["guest", "ent26", "Something New", "", "é"])
    func keepsUnknownPlans(_ raw: String) throws {
        let plan = ChappiePlan(rawValue: raw)
        #expect(plan == .other(raw) && plan.rawValue == raw && plan.displayName == raw)
        #expect(try JSONDecoder().decode([ChappiePlan].self, from: JSONEncoder().encode([plan])) == [plan])
    }
}
