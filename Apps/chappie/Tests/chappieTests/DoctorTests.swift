import ChappieAuth
import ChappieSDK
import FoundationEssentials
import Testing

@testable import ChappieCurl
@testable import chappie

@Suite struct DoctorTests {
    private static let now = Date(timeIntervalSince1970: 1_795_239_452)  // Sat, 21 Nov 2026 05:37:32 GMT

    private static func clock(_ serverDate: String?) -> Finding { .clock(at: now, serverDate: serverDate) }

    private static func limits(_ percents: Double...) -> Finding {
        let windows = percents.map { ChappieUsageWindow(usedPercent: $0) }
        return .limits(ChappieUsageLimitSnapshot(primary: windows.first, secondary: windows.dropFirst().first))
    }

    @Test(arguments: [
        (clock("Sat, 21 Nov 2026 05:37:32 GMT"), Finding.Status.ok, "within two minutes"),
        (clock("Sat, 21 Nov 2026 05:36:00 GMT"), .ok, "within two minutes"),
        (clock("Sat, 21 Nov 2026 04:37:32 GMT"), .failed, "60 minutes ahead of"),
        (clock("Sat, 21 Nov 2026 05:47:32 GMT"), .failed, "10 minutes behind"),
        (clock("yesterday"), .skipped, "does not say"), (clock(nil), .skipped, "does not say"),
        (.deviceSignIn(status: 200, contentType: ""), .ok, ""),
        (.deviceSignIn(status: 404, contentType: ""), .failed, "Security"),
        (.deviceSignIn(status: 200, contentType: "text/html"), .failed, "sign in to the network"),
        (.deviceSignIn(status: 511, contentType: ""), .failed, "sign in to the network"),
        (.http(status: 511, contentType: ""), .failed, "sign in to the network"),
        (.deviceSignIn(status: 500, contentType: ""), .failed, "again"), (.http(status: 401, contentType: ""), .ok, ""),
        (.http(status: 200, contentType: "application/json"), .ok, ""),
        (.http(status: 200, contentType: "text/html; charset=utf-8"), .failed, "browser"),
        (.http(status: 503, contentType: "text/html"), .failed, "later"),
        (.discovery(status: 200), .ok, ""), (.discovery(status: 503), .failed, "again"),
        (.registration(nil), .ok, "first login"),
        (.registration(ChappieClientRegistration(clientID: "oaiapp_1", appName: "Chappie")), .ok, "as Chappie"),
        (.planUse(.granted, .continueWithChatGPT(appName: "Chappie")), .ok, "https://chatgpt.com/settings/usage"),
        (.planUse(.notGranted, .continueWithChatGPT(appName: "Chappie")), .failed, "--route plan"),
        (.sessionLock(.unlocked), .ok, ""), (.sessionLock(.locked), .failed, "Unlock"),
        (.sessionLock(.noSession("a container")), .skipped, "a container"), (.webSocket(refusal: nil), .ok, ""),
        (.webSocket(refusal: "status 403"), .warning, "proxy"),
        (limits(), .ok, "reports no limits"), (limits(79), .ok, "79 %"), (limits(10, 80), .warning, "80 %"),
        (limits(100, 3), .failed, "100 %"), (limits(1e6), .failed, "1000000 %"),
    ])
    func eachAnswerHasItsJudgement(_ finding: Finding, _ status: Finding.Status, _ says: String) {
        #expect(finding.status == status && (finding.remedy != nil) == [.warning, .failed].contains(status))
        #expect(says.isEmpty || "\(finding.detail) \(finding.remedy ?? "")".contains(says))
    }

    /// The day of the last look is part of the program; the clock of a test is not.
    @Test func knowledgeThatIsOldIsANoteAndNothingMore() throws {
        let look = try Date(Outside.lookedAt, strategy: .iso8601.year().month().day())
        let (fresh, old) = (look.addingTimeInterval(60.9 * 86_400), look.addingTimeInterval(61 * 86_400))
        #expect(Finding.knowledge(at: fresh).remedy == nil && Finding.knowledge(at: fresh).status == .ok)
        let note = Finding.knowledge(at: old)
        #expect(note.status == .ok && note.detail.hasSuffix("last checked on \(Outside.lookedAt), 61 days ago"))
        #expect(Outside.known.allSatisfy { note.remedy?.contains($0.address) == true })
    }

    @Test func theListTellsWhatTheServiceThinks() {
        let best = ChappieModel(slug: "m-2", upgrade: nil)
        #expect(Finding.models([best, ChappieModel(slug: "m-1")]).detail.contains("lists 2 for wire format"))
        let retiring = ChappieModel(slug: "m-1", upgrade: ChappieModelUpgrade(model: "m-2"))
        #expect(Finding.models([best]).status == .ok && Finding.models([]).status == .warning)
        #expect(Finding.models([retiring]).remedy?.contains("m-2") == true)
    }

    @Test func `a finding is a line for people and an object for scripts`() {
        let finding = Finding(.failed, "late", "Set it.")
        let column = String(repeating: " ", count: 34)
        #expect(finding.line("service: clock") == "fail  service: clock               late\n\(column) → Set it.")
        #expect(finding.json("clock") == ["name": "clock", "status": "fail", "detail": "late", "remedy": "Set it."])
        #expect(Finding(.ok, "connected").json("TCP")["remedy"] == .null)
    }

    @Test func anErrorKeepsItsOwnWordsAndAdvice() {
        let finding = Finding(CredentialStoreError.locked("it is late"))
        #expect(finding.detail.contains("it is late") && finding.remedy?.contains("Unlock") == true)
        struct Surprise: Error {}
        #expect(Finding(Surprise()).remedy == "Try again with --verbose.")
    }
}

@Suite struct ConnectionDiagnosisTests {
    private func findings(_ url: String, _ change: (inout ConnectionReport) -> Void) throws -> [String] {
        var report = ConnectionReport()
        change(&report)
        return report.findings(
            for: try #require(URL(string: url)), at: Date(timeIntervalSince1970: 1_795_239_452)
        ).map { "\($0.finding.status.rawValue) \($0.name): \($0.finding.detail)" }
    }

    private func certificate(expires: String) -> ConnectionReport.Certificate {
        .init(subject: "C = US, CN = service.example", issuer: "O = Authority, CN = R3", expires: expires)
    }

    @Test func everyStageThatWasReachedIsNamed() throws {
        let lines = try findings("https://service.example/backend-api") {
            $0.address = "192.0.2.1"
            ($0.nameLookup, $0.connect, $0.tls) = (.microseconds(1200), .milliseconds(20), .milliseconds(40))
            $0.certificates = [certificate(expires: "Nov  5 05:37:32 2027 GMT")]
        }
        #expect(
            lines == [
                "ok DNS: service.example is 192.0.2.1, after 2 ms", "ok TCP: connected, after 20 ms",
                "ok TLS: service.example from R3, good until Nov  5 05:37:32 2027 GMT, after 40 ms",
            ])
    }

    @Test func withoutTLSThereIsNothingToSayOfIt() throws {
        let lines = try findings("http://127.0.0.1:8080") { ($0.address, $0.connect) = ("127.0.0.1", .milliseconds(1)) }
        #expect(lines == ["ok TCP: connected, after 1 ms"])
    }

    @Test(arguments: [("Dec  4 05:37:32 2026 GMT", "warn"), ("Dec  6 05:37:32 2026 GMT", "ok"), ("some day", "ok")])
    func `a certificate that expires within two weeks causes a warning`(_ expires: String, _ status: String) throws {
        let lines = try findings("https://service.example") { $0.certificates = [certificate(expires: expires)] }
        #expect(lines.last?.hasPrefix("\(status) TLS: ") == true)
    }

    @Test(
        arguments: [
            (ChappieTransportError.Code.unknownHost, ChappieTransportError.Stage.connect, ["fail DNS"]),
            (.proxyFailed, .connect, ["ok DNS", "fail proxy"]),
            (.certificateRejected, .tls, ["ok proxy", "ok DNS", "ok TCP", "fail TLS"]),
            (.connectionLost, .tls, ["ok proxy", "ok DNS", "ok TCP", "fail TLS"]),
            (.connectFailed, .connect, ["ok proxy", "ok DNS", "fail TCP"]),
        ] as [(ChappieTransportError.Code, ChappieTransportError.Stage, [String])])
    func aFailureStandsAtItsStage(
        _ code: ChappieTransportError.Code, _ stage: ChappieTransportError.Stage, _ expected: [String]
    ) throws {
        let lines = try findings("https://service.example") {
            if code != .unknownHost { ($0.proxy, $0.address) = ("proxy.example:3128", "192.0.2.7") }
            $0.error = ChappieTransportError(code, stage: stage, host: "service.example", reason: "it failed")
        }
        #expect(lines.map { String($0.prefix { $0 != ":" }) } == expected)
        if code == .connectFailed { #expect(lines[1].contains("proxy.example is 192.0.2.7")) }
    }
}
