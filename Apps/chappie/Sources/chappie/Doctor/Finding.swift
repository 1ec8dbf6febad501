@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieClient
@_spi(ChappieInternals) import ChappieCore
import ChappieCurl
import ChappieSDK
import FoundationEssentials

/// The result of one check of `chappie doctor`.
struct Finding: Sendable, Equatable {
    enum Status: String, Sendable {
        case ok
        /// The subject works but could be better.
        case warning = "warn"
        case failed = "fail"
        /// The check was skipped because an earlier one failed or because its subject is missing.
        case skipped = "skip"
    }

    let status: Status
    /// The result in one line.
    let detail: String
    /// The user's next step. Every finding that is not `ok` has one, unless an earlier finding has it.
    let remedy: String?

    init(_ status: Status, _ detail: String, _ remedy: String? = nil) {
        self.status = status
        self.detail = detail
        self.remedy = remedy
    }

    /// Creates a finding from an error's own message and advice.
    init(_ error: any Error) {
        let report = CommandLineError(error)
        self.init(.failed, report.message, report.suggestion ?? "Try again with --verbose.")
    }

    func json(_ name: String) -> ChappieJSON {
        [
            "name": .string(name), "status": .string(status.rawValue), "detail": .string(detail),
            "remedy": .optional(remedy),
        ]
    }

    /// Returns lines of text with status, name and detail in columns, and the remedy below the detail.
    func line(_ name: String) -> String {
        "\(status.rawValue.padded(to: 5)) \(name.padded(to: 28)) \(detail)"
            + (remedy.map { "\n\("".padded(to: 34)) → \($0)" } ?? "")
    }
}

/// The judgements on answers, which use neither network nor clock.
extension Finding {
    static func sessionLock(_ state: SessionLockState) -> Finding {
        switch state {
        case .unlocked: Finding(.ok, "the login session is unlocked")
        case .noSession(let reason): Finding(.skipped, "nothing to check: \(reason)")
        case .locked:
            Finding(.failed, "the login session is locked, so the credential is locked too", "Unlock the screen.")
        }
    }

    static func clock(at now: Date, serverDate: String?) -> Finding {
        guard let serverDate, let server = HTTPDate.imfFixdate(serverDate) else {
            return Finding(.skipped, "the server does not say what time it is")
        }
        let skew = now.timeIntervalSince(server)
        guard abs(skew) >= 120 else { return Finding(.ok, "within two minutes of the server's") }
        let minutes = Int((abs(skew) / 60).rounded())
        return Finding(
            .failed,
            "this machine's clock is \(minutes) minutes \(skew > 0 ? "ahead of" : "behind") the server's",
            "Set it (`timedatectl set-ntp true`): tokens and certificates depend on it.")
    }

    static func deviceSignIn(status: Int, contentType: String) -> Finding {
        switch status {
        case _ where BlockingPage.isOfNetwork(status: status, contentType: contentType, body: []):
            Finding(.failed, "a network on the way answers instead of the sign-in service", BlockingPage.networkAdvice)
        case 200..<300: Finding(.ok, "is available (the check asked for a code and did not use it)")
        case 404:
            Finding(
                .failed, "is switched off for this account or workspace",
                "Turn on \"Device code authorization for Codex\" in ChatGPT's settings, under Security, or ask the "
                    + "workspace's administrator.")
        default: Finding(.failed, "the sign-in service answers with status \(status)", "Try again in a few minutes.")
        }
    }

    /// Returns whether the sign-in service describes itself. Without its description, no browser is sent there.
    static func discovery(status: Int) -> Finding {
        guard status != 200 else { return Finding(.ok, "the sign-in service describes itself") }
        return Finding(
            .failed, "couldn't load the sign-in service's metadata (HTTP \(status))",
            "Try again in a few minutes, or check the configured addresses.")
    }

    /// Returns the registration. It is kept when the user signs out, and is used at the next sign-in.
    static func registration(_ registration: ChappieClientRegistration?) -> Finding {
        Finding(
            .ok, registration.map { "registered with ChatGPT as \($0.appName)" } ?? "none yet: the first login makes it"
        )
    }

    /// Returns the user's decision about the plan, as the sign-in reports it.
    static func planUse(_ planUse: ChappiePlanUse, _ endpoints: ChappieEndpoints) -> Finding {
        guard planUse == .granted else {
            return Finding(
                .failed, "you are signed in, but this app may not use your ChatGPT plan",
                "Run \(Route.plan.login) once more, and allow plan use.")
        }
        return Finding(
            .ok, [PlanWords.inUse, PlanWords.manageUsage(endpoints)].compactMap(\.self).joined(separator: ". "))
    }

    /// Judges the answer to a request without a token. The service refuses it, and a refusal is an answer.
    static func http(status: Int, contentType: String) -> Finding {
        switch status {
        case _ where BlockingPage.isOfNetwork(status: status, contentType: contentType, body: []):
            Finding(.failed, "a network on the way answers instead of the service", BlockingPage.networkAdvice)
        case 500...: Finding(.failed, "the service has a problem (status \(status))", "Try again later.")
        default: Finding(.ok, "the service answers (status \(status))")
        }
    }

    static func limits(_ usage: ChappieUsageLimitSnapshot) -> Finding {
        let windows = [usage.primary, usage.secondary].compactMap { $0 }
        guard let fullest = windows.max(by: { $0.usedPercent < $1.usedPercent }) else {
            return Finding(.ok, "the service reports no limits")
        }
        let detail = "\(fullest.wholePercent) % of the fullest window is used\(fullest.reset(", resets"))"
        return switch fullest.usedPercent {
        case ..<80: Finding(.ok, detail)
        case ..<100: Finding(.warning, detail, "See `chappie usage`.")
        default: Finding(.failed, detail, "Wait for the reset, or see `chappie usage`.")
        }
    }

    /// Returns at most a note, because old knowledge may still be right.
    static func knowledge(at now: Date) -> Finding {
        let names = Outside.known.map { $0.version.isEmpty ? $0.name : "\($0.name) \($0.version)" }
        let detail = "\(names.joined(separator: ", ")): last checked on \(Outside.lookedAt)"
        let age = Outside.age(at: now)
        guard age > Outside.daysUntilOld else { return Finding(.ok, detail) }
        let addresses = Outside.known.map { "\($0.address) (\($0.name))" }
        return Finding(
            .ok, "\(detail), \(age) days ago",
            "The services may have changed since. Look for a newer chappie, and at these pages: "
                + addresses.joined(separator: ", ") + ".")
    }

    /// Returns the service's opinion of this version and of the models, if its list contains one.
    ///
    /// - Parameter audience: the audience of the list. Default: the wire format of this version.
    static func models(
        _ models: [ChappieModel], for audience: String = "wire format \(WireFormat.version)"
    ) -> Finding {
        let version = audience
        guard let best = models.first else {
            return Finding(
                .warning, "the service lists no models for \(version)",
                "Look for a newer chappie, and check whether your plan includes Codex.")
        }
        let detail = "the service lists \(models.count) for \(version); \(best.slug) is the default"
        guard let upgrade = best.upgrade else { return Finding(.ok, detail) }
        return Finding(.warning, detail, "The service advises \(upgrade.model) instead: look for a newer chappie.")
    }

    /// Judges the answer to an empty request for a search or a picture. Returns at most a warning, because questions
    /// are answered without them.
    static func serviceTool(status: Int, contentType: String?) -> Finding {
        switch status {
        case _ where BlockingPage.isOne(status: status, contentType: contentType, body: []):
            Finding(.warning, "a web page answers instead of the service (status 403)", BlockingPage.advice)
        case _ where BlockingPage.isOfNetwork(status: status, contentType: contentType, body: []):
            Finding(.warning, "a network on the way answers instead of the service", BlockingPage.networkAdvice)
        case 404: Finding(.warning, "the service doesn't have it here (status 404)", "Look for a newer chappie.")
        case 401, 403:
            Finding(
                .warning, "the service refuses it (status \(status))",
                "Your account may lack this. Ask the administrator of your workspace.")
        case 429: Finding(.warning, "there were too many requests (status 429)", "Try again later.")
        case 500...: Finding(.warning, "the service has a problem (status \(status))", "Try again later.")
        default: Finding(.ok, "the service answers (status \(status))")
        }
    }

    /// Returns at most a warning, because answers can also arrive without a WebSocket.
    static func webSocket(refusal: String?) -> Finding {
        guard let refusal else { return Finding(.ok, "opens") }
        return Finding(
            .warning, refusal,
            "Answers come as server-sent events instead. Ask the operator of the proxy to let upgrades through.")
    }
}

extension ConnectionReport {
    /// Judges one attempt at a connection to the host of `url`. The steps are proxy, DNS, TCP and TLS, up to the one
    /// that failed.
    func findings(for url: URL, at now: Date) -> [(name: String, finding: Finding)] {
        var findings: [(name: String, finding: Finding)] = []
        if let proxy { findings.append(("proxy", Finding(.ok, proxy))) }
        if let address {
            // This machine looks up the name of the proxy, and the proxy looks up the name of the service.
            let name = proxy.map { String($0[..<($0.lastIndex(of: ":") ?? $0.endIndex)]) } ?? url.host() ?? ""
            if name != address { findings.append(("DNS", Finding(.ok, "\(name) is \(address)\(after(nameLookup))"))) }
            if connect != nil || error?.stage == .tls {
                findings.append(("TCP", Finding(.ok, "connected\(after(connect))")))
            }
        }
        if let error {
            let stage =
                switch error.code {
                case .unknownHost: "DNS"
                case .proxyFailed: "proxy"
                case .certificateRejected, .tlsFailed, .invalidCAFile: "TLS"
                default: error.stage == .tls ? "TLS" : "TCP"
                }
            findings.removeAll { $0.name == stage }
            findings.append((stage, Finding(error)))
        } else if url.scheme?.lowercased() == "https" {
            findings.append(("TLS", secured(at: now)))
        }
        return findings
    }

    private func secured(at now: Date) -> Finding {
        let shown = certificates.map { certificate in
            "\(commonName(certificate.subject)) from \(commonName(certificate.issuer)), good until "
                + certificate.expires
        }
        let detail = shown.isEmpty ? "secured" : shown.joined(separator: "; ")
        let ends = certificates.compactMap { moment($0.expires) }
        guard let first = ends.min(), first.timeIntervalSince(now) < 14 * 86_400 else {
            return Finding(.ok, detail + after(tls))
        }
        return Finding(
            .warning, detail,
            "The certificate expires soon: the operator of the server, or of the proxy, should renew it.")
    }

    private func after(_ duration: Duration?) -> String {
        duration.map { ", after \($0.wholeMilliseconds) ms" } ?? ""
    }

    /// Returns `R3` for `C = US, O = Let's Encrypt, CN = R3`.
    private func commonName(_ name: String) -> String {
        let parts = name.split(separator: ",").map { $0.drop { $0 == " " } }
        guard let common = parts.last(where: { $0.hasPrefix("CN") }) else { return name }
        return String(common.drop { $0 != "=" }.dropFirst().drop { $0 == " " })
    }

    /// Parses a time as OpenSSL writes it: `Nov 21 05:37:32 2026 GMT`. A day below ten follows two spaces.
    private func moment(_ text: String) -> Date? {
        let words = text.split(separator: " ")
        guard words.count == 5 else { return nil }
        let day = words[1].count == 1 ? "0\(words[1])" : words[1]
        return HTTPDate.imfFixdate("Day, \(day) \(words[0]) \(words[3]) \(words[2]) \(words[4])")
    }
}
