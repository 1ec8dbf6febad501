@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import HTTPTypes
import Testing

@Suite struct ChappieUsageLimitSnapshotTests {
    private static func date(_ seconds: Double) -> Date { Date(timeIntervalSince1970: seconds) }

    // MARK: Headers

    @Test func readsTheHeadersOfAResponse() {
        let fields = fields([
            "x-codex-active-limit": "premium", "X-Codex-Primary-Used-Percent": "12.5",
            "x-codex-primary-window-minutes": "300",
            "x-codex-primary-reset-at": "1795221026", "x-codex-secondary-used-percent": " 3.0",
            "x-codex-secondary-window-minutes": "10080", "x-codex-secondary-reset-at": "1795303826",
            "x-codex-limit-name": "Codex",
            "x-codex-credits-has-credits": "False", "x-codex-credits-unlimited": "0",
            "x-codex-credits-balance": "12.30",
        ])
        let expected = ChappieUsageLimitSnapshot(
            limitID: "codex", limitName: "Codex",
            primary: ChappieUsageWindow(usedPercent: 12.5, windowMinutes: 300, resetsAt: Self.date(1_795_221_026)),
            secondary: ChappieUsageWindow(usedPercent: 3, windowMinutes: 10080, resetsAt: Self.date(1_795_303_826)),
            credits: ChappieUsageCredits(hasCredits: false, isUnlimited: false, balance: "12.30"))
        #expect(ChappieUsageLimitSnapshot(headerFields: fields) == expected)
    }

    @Test func readsAnotherFamily() {
        let fields = fields(["x-codex-bengalfox-primary-used-percent": "87", "x-codex-bengalfox-limit-name": "Fox"])
        let snapshot = ChappieUsageLimitSnapshot(headerFields: fields, family: "codex-bengalfox")
        #expect(
            snapshot
                == ChappieUsageLimitSnapshot(
                    limitID: "codex_bengalfox", limitName: "Fox", primary: ChappieUsageWindow(usedPercent: 87)))
        #expect(ChappieUsageLimitSnapshot(headerFields: fields) == nil)
    }

    @Test func headersThatSayNothingAreNoSnapshot() {
        #expect(ChappieUsageLimitSnapshot(headerFields: [:]) == nil)
        #expect(
            ChappieUsageLimitSnapshot(headerFields: fields(["x-request-id": "r", "x-codex-limit-name": "Codex"])) == nil
        )
        #expect(
            ChappieUsageLimitSnapshot(headerFields: fields(["x-codex-primary-used-percent": "1"]), family: "not a name")
                == nil)
    }

    @Test(
        "a window is there only if it says something",
        arguments: [
            ("0", nil, nil, false), ("0.0", "0", nil, false), ("0", "300", nil, true), ("0", nil, "1795221026", true),
            ("0.5", nil, nil, true),
            ("abc", "300", "1795221026", false), ("", "300", nil, false), ("nan", "300", nil, false),
            ("inf", "300", nil, false),
            ("12", "5h", "soon", true), ("-1", nil, nil, true), ("120", nil, nil, true),
        ] as [(String, String?, String?, Bool)])
    func aWindowSaysSomething(_ used: String, _ minutes: String?, _ reset: String?, _ isThere: Bool) {
        var headers = ["x-codex-primary-used-percent": used]
        headers["x-codex-primary-window-minutes"] = minutes
        headers["x-codex-primary-reset-at"] = reset
        let snapshot = ChappieUsageLimitSnapshot(headerFields: fields(headers))
        #expect((snapshot?.primary != nil) == isThere)
        #expect(snapshot?.primary?.windowMinutes == minutes.flatMap(Int.init) || !isThere)
    }

    @Test(
        "numbers that no integer and no calendar holds",
        arguments: [
            ("1e19", "1e300", 1_000_000), ("-1e300", "-1", -1_000_000), ("1e300", "253402300800", 1_000_000),
        ] as [(String, String, Double)])
    func boundsItsNumbers(_ used: String, _ reset: String, _ percent: Double) {
        let expected = ChappieUsageWindow(usedPercent: percent)
        let fields = fields(["x-codex-primary-used-percent": used, "x-codex-primary-reset-at": reset])
        #expect(ChappieUsageLimitSnapshot(headerFields: fields)?.primary == expected)
        let window = #"{"used_percent":\#(used),"reset_at":\#(reset)}"#
        let event = ChappieUsageLimitSnapshot(rateLimitsEvent: json(#"{"rate_limits":{"primary":\#(window)}}"#))
        #expect(event.primary == expected)
        let body = #"{"plan_type":"plus","rate_limit":{"primary_window":\#(window)}}"#
        #expect(ChappieUsageLimitSnapshot(usageBody: json(body))?.primary == expected)
        let error = ChappieResponseError(json(#"{"resets_at":\#(reset),"resets_in_seconds":\#(reset)}"#))
        #expect(error.resetsAt == nil)
        #expect(abs(error.resetsInSeconds ?? 0) <= 253_402_300_800)
    }

    @Test(
        "flags in headers",
        arguments: [("true", true), ("TRUE", true), ("1", true), ("false", false), ("False", false), ("0", false)])
    func readsFlags(_ text: String, _ value: Bool) {
        let snapshot = ChappieUsageLimitSnapshot(
            headerFields: fields(["x-codex-credits-has-credits": text, "x-codex-credits-unlimited": text]))
        #expect(snapshot?.credits == ChappieUsageCredits(hasCredits: value, isUnlimited: value))
        #expect(ChappieUsageLimitSnapshot(headerFields: fields(["x-codex-credits-has-credits": "maybe"])) == nil)
    }

    private func fields(_ pairs: [String: String]) -> HTTPFields {
        pairs.reduce(into: HTTPFields()) { fields, pair in
            if let name = HTTPField.Name(pair.key) {
                fields[name] = pair.value
            } else {
                Issue.record("\(pair.key) is no name")
            }
        }
    }

    // MARK: The event

    @Test func readsTheEvent() {
        let snapshot = ChappieUsageLimitSnapshot(
            rateLimitsEvent: json(
                #"{"type":"codex.rate_limits","plan_type":"pro","rate_limits":{"allowed":true,"primary":{"used_percent":42.5,"window_minutes":60,"reset_at":1700000000},"secondary":{"used_percent":0}},"metered_limit_name":"Codex-Bengalfox","limit_name":"Fox"}"#
            ))
        #expect(
            snapshot
                == ChappieUsageLimitSnapshot(
                    limitID: "codex_bengalfox", limitName: "Fox",
                    primary: ChappieUsageWindow(
                        usedPercent: 42.5, windowMinutes: 60, resetsAt: Self.date(1_700_000_000)),
                    secondary: ChappieUsageWindow(usedPercent: 0), plan: .pro))
    }

    @Test(
        "an event with little in it",
        arguments: [
            "{}", "null", #"{"rate_limits":null,"credits":null}"#, #"{"rate_limits":{"primary":{"used_percent":"1"}}}"#,
            #"{"rate_limits":7,"credits":{"unlimited":true}}"#,
        ])
    func readsABareEvent(_ text: String) {
        let snapshot = ChappieUsageLimitSnapshot(rateLimitsEvent: json(text))
        #expect(snapshot == ChappieUsageLimitSnapshot() && snapshot.isEmpty)
    }

    // MARK: The usage endpoint

    @Test func readsTheUsageBody() throws {
        let snapshot = try #require(
            ChappieUsageLimitSnapshot(
                usageBody: json(
                    #"{"user_id":"user-1","plan_type":"plus","rate_limit":{"allowed":true,"limit_reached":false,"primary_window":{"used_percent":12,"limit_window_seconds":18000,"reset_after_seconds":1000,"reset_at":1795218918},"secondary_window":{"used_percent":3,"limit_window_seconds":604801,"reset_at":1795226918}},"credits":{"has_credits":false,"unlimited":false,"balance":"0","approx_local_messages":[0,0]},"additional_rate_limits":[{"metered_feature":"codex_bengalfox"}],"rate_limit_upsell":null}"#
                )))
        #expect(
            snapshot
                == ChappieUsageLimitSnapshot(
                    primary: ChappieUsageWindow(
                        usedPercent: 12, windowMinutes: 300, resetsAt: Self.date(1_795_218_918)),
                    secondary: ChappieUsageWindow(
                        usedPercent: 3, windowMinutes: 10081, resetsAt: Self.date(1_795_226_918)),
                    credits: ChappieUsageCredits(hasCredits: false, isUnlimited: false, balance: "0"), plan: .plus))
    }

    @Test func onlyThePlanIsRequired() {
        #expect(
            ChappieUsageLimitSnapshot(usageBody: json(#"{"plan_type":"guest"}"#))
                == ChappieUsageLimitSnapshot(plan: .other("guest")))
        #expect(
            ChappieUsageLimitSnapshot(usageBody: json(#"{"plan_type":"free","rate_limit":null,"credits":null}"#))?
                .isEmpty == true)
        for body in ["{}", "null", "[]", #"{"plan_type":null}"#, #"{"detail":"Not Found"}"#] {
            #expect(ChappieUsageLimitSnapshot(usageBody: json(body)) == nil, "\(body)")
        }
    }

    @Test(
        "seconds become minutes, rounded up",
        arguments: [(0, 0), (1, 1), (59, 1), (60, 1), (61, 2), (18000, 300), (Int.max, Int.max / 60 + 1)])
    func roundsMinutesUp(_ seconds: Int, _ minutes: Int) {
        let snapshot = ChappieUsageLimitSnapshot(
            usageBody: json(
                #"{"plan_type":"plus","rate_limit":{"primary_window":{"used_percent":1,"limit_window_seconds":\#(seconds)}}}"#
            ))
        #expect(snapshot?.primary?.windowMinutes == minutes)
    }

    @Test func survivesARoundTrip() throws {
        let snapshot = ChappieUsageLimitSnapshot(
            limitID: "a", limitName: "b",
            primary: ChappieUsageWindow(usedPercent: 1.5, windowMinutes: 2, resetsAt: Self.date(3)),
            credits: ChappieUsageCredits(hasCredits: true, isUnlimited: true), plan: .other("x"))
        #expect(
            try JSONDecoder().decode(ChappieUsageLimitSnapshot.self, from: JSONEncoder().encode(snapshot)) == snapshot)
    }
}
