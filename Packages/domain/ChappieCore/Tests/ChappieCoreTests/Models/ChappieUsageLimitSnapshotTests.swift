@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import HTTPTypes
import TestFixtures
import Testing

@Suite struct ChappieUsageLimitSnapshotTests {
    private static let moment = Date(timeIntervalSince1970: 1_700_000_000)

    // MARK: Headers

    @Test func readsTheHeadersOfAResponse() {
        let read = snapshot([
            "x-codex-active-limit": "premium", "X-Codex-Primary-Used-Percent": "12.5",
            "x-codex-primary-window-minutes": "300", "x-codex-primary-reset-at": "1700000000",
            "x-codex-secondary-used-percent": " 3.0", "x-codex-limit-name": "Codex",
            "x-codex-credits-has-credits": "False", "x-codex-credits-unlimited": "0",
            "x-codex-credits-balance": "12.30",
        ])
        let expected = ChappieUsageLimitSnapshot(
            limitID: "codex", limitName: "Codex",
            primary: ChappieUsageWindow(usedPercent: 12.5, windowMinutes: 300, resetsAt: Self.moment),
            secondary: ChappieUsageWindow(usedPercent: 3),
            credits: ChappieUsageCredits(hasCredits: false, isUnlimited: false, balance: "12.30"))
        #expect(read == expected)
    }

    @Test func readsAnotherFamily() {
        let headers = ["x-codex-bengalfox-primary-used-percent": "87", "x-codex-bengalfox-limit-name": "Fox"]
        let expected = ChappieUsageLimitSnapshot(
            limitID: "codex_bengalfox", limitName: "Fox", primary: ChappieUsageWindow(usedPercent: 87))
        #expect(snapshot(headers, family: "codex-bengalfox") == expected)
        #expect(snapshot(headers) == nil)
    }

    @Test func otherFamiliesOfTheHeadersAreAdditional() {
        let read = snapshot([
            "x-codex-primary-used-percent": "12", "X-Codex-Bengalfox-Primary-Used-Percent": "87",
            "x-codex-bengalfox-limit-name": "Fox", "x-codex-empty-primary-used-percent": "0",
            "x-codex-rate-limit-reached-type": "workspace_owner_credits_depleted", "x-codex-promo-message": "More?",
        ])
        let fox = ChappieUsageLimitSnapshot(
            limitID: "codex_bengalfox", limitName: "Fox", primary: ChappieUsageWindow(usedPercent: 87))
        #expect(
            read
                == ChappieUsageLimitSnapshot(
                    primary: ChappieUsageWindow(usedPercent: 12), additional: [fox],
                    reachedType: .workspaceOwnerCredits, promotion: "More?"))
    }

    @Test func headersThatSayNothingAreNoSnapshot() {
        #expect(snapshot([:]) == nil)
        #expect(snapshot(["x-request-id": "r", "x-codex-limit-name": "Codex"]) == nil)
        #expect(snapshot(["x-codex-credits-has-credits": "maybe"]) == nil)
        #expect(snapshot(["x-codex-primary-used-percent": "1"], family: "not a name") == nil)
    }

    @Test(
        "a window is there only if it says something",
        arguments: [
            ("0", nil, nil, false), ("0.0", "0", nil, false), ("0", "300", nil, true), ("0", nil, "1795221026", true),
            ("12", "0", "1795221026", false), ("0.5", nil, nil, true), ("abc", "300", "1795221026", false),
            ("", "300", nil, false),
            ("nan", "300", nil, false), ("inf", "300", nil, false), ("12", "5h", "soon", true), ("-1", nil, nil, true),
            ("120", nil, nil, true),
        ] as [(String, String?, String?, Bool)])
    func aWindowSaysSomething(_ used: String, _ minutes: String?, _ reset: String?, _ isThere: Bool) {
        var headers = ["x-codex-primary-used-percent": used]
        headers["x-codex-primary-window-minutes"] = minutes
        headers["x-codex-primary-reset-at"] = reset
        let window = snapshot(headers)?.primary
        #expect((window != nil) == isThere)
        #expect(window?.windowMinutes == minutes.flatMap(Int.init) || !isThere)
    }

    @Test(
        "numbers that no integer and no calendar holds",
        arguments: [
            ("1e19", "1e300", 1_000_000), ("-1e300", "-1", -1_000_000), ("1e300", "253402300800", 1_000_000),
        ] as [(String, String, Double)])
    func boundsItsNumbers(_ used: String, _ reset: String, _ percent: Double) {
        let expected = ChappieUsageWindow(usedPercent: percent)
        let headers = ["x-codex-primary-used-percent": used, "x-codex-primary-reset-at": reset]
        #expect(snapshot(headers)?.primary == expected)
        let window = #"{"used_percent":\#(used),"reset_at":\#(reset)}"#
        let event = ChappieUsageLimitSnapshot(rateLimitsEvent: json(#"{"rate_limits":{"primary":\#(window)}}"#))
        #expect(event.primary == expected)
        let error = ChappieResponseError(json(#"{"resets_at":\#(reset),"resets_in_seconds":\#(reset)}"#))
        #expect(error.resetsAt == nil)
        #expect(abs(error.resetsInSeconds ?? 0) <= 253_402_300_800)
    }

    @Test(arguments: [("true", true), ("TRUE", true), ("1", true), ("False", false), ("0", false)])
    func readsFlags(_ text: String, _ value: Bool) {
        let read = snapshot(["x-codex-credits-has-credits": text, "x-codex-credits-unlimited": text])
        #expect(read?.credits == ChappieUsageCredits(hasCredits: value, isUnlimited: value))
    }

    private func snapshot(_ headers: [String: String], family: String = "codex") -> ChappieUsageLimitSnapshot? {
        var fields = HTTPFields()
        for (name, value) in headers { HTTPField.Name(name).map { fields[$0] = value } }
        return ChappieUsageLimitSnapshot(headerFields: fields, family: family)
    }

    // MARK: Bodies

    @Test func readsTheEvent() {
        let read = ChappieUsageLimitSnapshot(
            rateLimitsEvent: json(
                #"{"type":"codex.rate_limits","plan_type":"pro","rate_limits":{"allowed":true,"primary":{"used_percent":42.5,"window_minutes":60,"reset_at":1700000000},"secondary":{"used_percent":0}},"metered_limit_name":"Codex-Bengalfox","limit_name":"Fox"}"#
            ))
        let expected = ChappieUsageLimitSnapshot(
            limitID: "codex_bengalfox", limitName: "Fox",
            primary: ChappieUsageWindow(usedPercent: 42.5, windowMinutes: 60, resetsAt: Self.moment),
            secondary: ChappieUsageWindow(usedPercent: 0), plan: .pro)
        #expect(read == expected)
    }

    @Test(
        "an event with little in it",
        arguments: [
            "{}", "null", #"{"rate_limits":null,"credits":null}"#,
            #"{"rate_limits":{"primary":{"used_percent":"much"}}}"#,
            #"{"rate_limits":7,"credits":{"unlimited":true}}"#,
        ])
    func readsABareEvent(_ text: String) {
        let read = ChappieUsageLimitSnapshot(rateLimitsEvent: json(text))
        #expect(read == ChappieUsageLimitSnapshot() && read.isEmpty)
    }

    @Test func readsTheUsageBody() {
        let read = ChappieUsageLimitSnapshot(
            usageBody: json(
                #"{"user_id":"user-1","plan_type":"plus","rate_limit":{"allowed":true,"primary_window":{"used_percent":12,"limit_window_seconds":18000,"reset_at":1700000000},"secondary_window":{"used_percent":3}},"credits":{"has_credits":false,"unlimited":false,"balance":"0"},"rate_limit_upsell":null}"#
            ))
        let expected = ChappieUsageLimitSnapshot(
            primary: ChappieUsageWindow(usedPercent: 12, windowMinutes: 300, resetsAt: Self.moment),
            secondary: ChappieUsageWindow(usedPercent: 3),
            credits: ChappieUsageCredits(hasCredits: false, isUnlimited: false, balance: "0"), plan: .plus)
        #expect(read == expected)
    }

    @Test func readsEveryWindowAndCreditOfTheUsageBody() {
        let read = ChappieUsageLimitSnapshot(
            usageBody: json(
                #"{"plan_type":"business","rate_limit":null,"credits":{"has_credits":true,"unlimited":false,"balance":12.50,"approx_local_messages":[10,20],"approx_cloud_messages":[1,2]},"spend_control":{"reached":true,"individual_limit":{"limit":"100","used":"88","remaining":12,"used_percent":88,"reset_at":1700000000}},"additional_rate_limits":[{"limit_name":"Fox","metered_feature":"Codex-Bengalfox","normal_model_slug":"m-1","rate_limit":{"primary_window":{"used_percent":5,"limit_window_seconds":60},"secondary_window":{"used_percent":6}}},{"rate_limit":{}},null],"rate_limit_reached_type":{"type":"cosmic"},"rate_limit_reset_credits":{"available_count":2}}"#
            ))
        let fox = ChappieUsageLimitSnapshot(
            limitID: "codex_bengalfox", limitName: "Fox", normalModel: "m-1",
            primary: ChappieUsageWindow(usedPercent: 5, windowMinutes: 1),
            secondary: ChappieUsageWindow(usedPercent: 6))
        let expected = ChappieUsageLimitSnapshot(
            credits: ChappieUsageCredits(
                hasCredits: true, isUnlimited: false, balance: "12.50", approximateLocalMessages: [10, 20],
                approximateCloudMessages: [1, 2]), plan: .business, additional: [fox],
            spendControl: ChappieSpendControl(
                isReached: true, limit: "100", used: "88", remaining: "12", usedPercent: 88, resetsAt: Self.moment),
            reachedType: .init(rawValue: "cosmic"), availableResets: 2)
        #expect(read == expected)
    }

    @Test func anEventsLimitsForReviewsAreAdditional() {
        let read = ChappieUsageLimitSnapshot(
            rateLimitsEvent: json(#"{"code_review_rate_limits":{"primary":{"used_percent":9}}}"#))
        let review = ChappieUsageLimitSnapshot(
            limitID: "code_review", primary: ChappieUsageWindow(usedPercent: 9))
        #expect(read == ChappieUsageLimitSnapshot(additional: [review]) && !read.isEmpty)
    }

    @Test func onlyThePlanIsRequired() {
        let bare = ChappieUsageLimitSnapshot(plan: .other("guest"))
        for body in [#"{"plan_type":"guest"}"#, #"{"plan_type":"guest","rate_limit":null,"credits":null}"#] {
            #expect(ChappieUsageLimitSnapshot(usageBody: json(body)) == bare)
        }
        for body in ["{}", "null", "[]", #"{"plan_type":null}"#, #"{"detail":"Not Found"}"#] {
            #expect(ChappieUsageLimitSnapshot(usageBody: json(body)) == nil, "\(body)")
        }
    }

    @Test(
        "seconds become minutes, rounded up",
        arguments: [(1, 1), (59, 1), (60, 1), (61, 2), (18000, 300), (Int.max, Int.max / 60 + 1)])
    func roundsMinutesUp(_ seconds: Int, _ minutes: Int) {
        let window = #"{"used_percent":1,"limit_window_seconds":\#(seconds)}"#
        let read = ChappieUsageLimitSnapshot(rateLimitsEvent: json(#"{"rate_limits":{"primary":\#(window)}}"#))
        #expect(read.primary?.windowMinutes == minutes)
    }

    @Test(
        "a window without a length is no limit",
        arguments: [#""limit_window_seconds":0"#, #""limit_window_seconds":"0""#, #""window_minutes":0"#])
    func hasALength(_ length: String) {
        let window = #"{"used_percent":0,"reset_at":1700000000,\#(length)}"#
        let event = ChappieUsageLimitSnapshot(rateLimitsEvent: json(#"{"rate_limits":{"secondary":\#(window)}}"#))
        #expect(event.secondary == nil)
        let body = #"{"plan_type":"plus","rate_limit":{"primary_window":\#(window)}}"#
        #expect(ChappieUsageLimitSnapshot(usageBody: json(body)) == ChappieUsageLimitSnapshot(plan: .plus))
    }

    @Test func `numbers are read from text`() {
        let window =
            #"{"used_percent":"42.5","limit_window_seconds":"18000","reset_at":"1700000000","reset_after_seconds":"9"}"#
        let body = json(
            #"{"plan_type":"plus","rate_limit":{"primary_window":\#(window)},"credits":{"has_credits":"true","unlimited":"0","approx_local_messages":["1","2"]},"rate_limit_reset_credits":{"available_count":"2"},"spend_control":{"reached":"true","individual_limit":{"used_percent":"7"}}}"#
        )
        let expected = ChappieUsageLimitSnapshot(
            primary: ChappieUsageWindow(
                usedPercent: 42.5, windowMinutes: 300, resetsAt: Self.moment, resetsInSeconds: 9),
            credits: ChappieUsageCredits(hasCredits: true, isUnlimited: false, approximateLocalMessages: [1, 2]),
            plan: .plus, spendControl: ChappieSpendControl(isReached: true, usedPercent: 7), availableResets: 2)
        #expect(ChappieUsageLimitSnapshot(usageBody: body) == expected)
        let error = ChappieResponseError(json(#"{"resets_at":"1700000000","resets_in_seconds":"90"}"#))
        #expect(error.resetsAt == Self.moment && error.resetsInSeconds == 90)
    }

    @Test func `a reset in seconds becomes a time`() {
        let headers = ["X-Codex-Primary-Used-Percent": "100", "X-Codex-Primary-Reset-After-Seconds": "60"]
        let spending = #"{"reached":false,"individual_limit":{"used_percent":1,"reset_after_seconds":60}}"#
        let window = #"{"used_percent":100,"reset_at":0,"reset_after_seconds":60}"#
        let body = json(
            #"{"plan_type":"plus","rate_limit":{"primary_window":\#(window)},"spend_control":\#(spending)}"#)
        let later = Self.moment.addingTimeInterval(60)
        let read = [snapshot(headers), ChappieUsageLimitSnapshot(usageBody: body)].map { $0?.dated(at: Self.moment) }
        #expect(read.map { $0?.primary?.resetsAt } == [later, later])
        #expect(read.map { $0?.resetOfUsedUp } == [later, later])
        #expect(read[1]?.spendControl?.resetsAt == later)
    }

    @Test func `only windows that are used up say when a limit ends`() {
        let early = ChappieUsageWindow(usedPercent: 100, resetsAt: Self.moment)
        let late = ChappieUsageWindow(usedPercent: 99, resetsAt: Self.moment.addingTimeInterval(9))
        #expect(ChappieUsageLimitSnapshot(primary: early, secondary: late).resetOfUsedUp == Self.moment)
        #expect(ChappieUsageLimitSnapshot(primary: late).resetOfUsedUp == nil)
    }

    @Test func `the usage body has models, resets that apply, and an overage limit`() {
        let body = json(
            #"{"plan_type":"plus","rate_limit":null,"credits":{"overage_limit_reached":true},"rate_limit_reset_credits":{"available_count":3,"applicable_available_count":0},"model_usage":{"gpt-6-astra":{"available":false,"available_at":1700000000,"credits_would_enable":true},"gpt-6-luna":{"available":true},"odd":null}}"#
        )
        let expected = ChappieUsageLimitSnapshot(
            credits: ChappieUsageCredits(hasCredits: false, isUnlimited: false, isOverageLimitReached: true),
            plan: .plus, availableResets: 0,
            models: [
                ChappieModelUsage(
                    slug: "gpt-6-astra", isAvailable: false, availableAt: Self.moment, creditsWouldEnable: true),
                ChappieModelUsage(slug: "gpt-6-luna", isAvailable: true),
            ])
        #expect(ChappieUsageLimitSnapshot(usageBody: body) == expected)
    }

    @Test func `headers that only name a limit are a snapshot`() {
        let read = snapshot(["x-codex-rate-limit-reached-type": "workspace_member_credits_depleted"])
        #expect(read == ChappieUsageLimitSnapshot(reachedType: .workspaceMemberCredits))
    }

    // MARK: Thresholds

    @Test(
        "the thresholds that a window has reached, and had reached before",
        arguments: [
            (79.9, nil, nil), (80, nil, 80), (94.9, nil, 80), (95, nil, 95), (1_000_000, nil, 95), (85, 79, 80),
            (85, 80, nil), (96, 85, 95), (96, 97, nil), (-5, nil, nil), (81, 96, nil),
        ] as [(Double, Double?, Double?)])
    func saysWhichThresholdIsCrossed(_ used: Double, _ before: Double?, _ threshold: Double?) {
        let now = ChappieUsageLimitSnapshot(secondary: ChappieUsageWindow(usedPercent: used))
        let earlier = before.map { ChappieUsageLimitSnapshot(secondary: ChappieUsageWindow(usedPercent: $0)) }
        let crossings = now.crossings(since: earlier)
        #expect(crossings.map(\.threshold) == (threshold.map { [$0] } ?? []))
        #expect(crossings.allSatisfy { !$0.isPrimary && $0.window.usedPercent == used })
    }

    @Test func everyWindowIsHeldAgainstItsOwnPast() {
        func limits(_ codex: Double, _ fox: Double) -> ChappieUsageLimitSnapshot {
            ChappieUsageLimitSnapshot(
                primary: ChappieUsageWindow(usedPercent: codex),
                additional: [
                    ChappieUsageLimitSnapshot(
                        limitID: "fox", limitName: "Fox", primary: ChappieUsageWindow(usedPercent: fox))
                ])
        }
        #expect(limits(90, 99).crossings().map(\.limitID) == ["codex", "fox"])
        #expect(limits(90, 99).crossings(since: limits(90, 50)).map(\.limitName) == ["Fox"])
        #expect(limits(20, 0).crossings(thresholds: [10, 15]).map(\.threshold) == [15])
    }

    @Test func survivesARoundTrip() throws {
        let snapshot = ChappieUsageLimitSnapshot(
            limitID: "a", limitName: "b", normalModel: "c",
            primary: ChappieUsageWindow(usedPercent: 1.5, windowMinutes: 2, resetsAt: Self.moment),
            credits: ChappieUsageCredits(hasCredits: true, isUnlimited: true), plan: .other("x"),
            additional: [ChappieUsageLimitSnapshot(limitID: "c")], spendControl: ChappieSpendControl(isReached: true),
            reachedType: .rateLimit, availableResets: 1, promotion: "p")
        let data = try JSONEncoder().encode(snapshot)
        #expect(try JSONDecoder().decode(ChappieUsageLimitSnapshot.self, from: data) == snapshot)
    }
}
