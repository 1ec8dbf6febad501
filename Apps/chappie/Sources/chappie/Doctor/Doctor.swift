import ArgumentParser
import ChappieSDK

/// `chappie doctor`: everything between this program and an answer, checked one by one.
struct Doctor: ProgramCommand {
    static let configuration = CommandConfiguration(
        abstract: "Check everything between this program and an answer.",
        discussion: """
            Looks at the credential store, the way to the services (proxy, name, connection, TLS), the clock, device \
            sign-in, the account and its limits, and WebSocket. Every line that is not ok says what to do. Nothing secret \
            is printed. Exits with 69 when a check failed.

            With --json: {"ok":true,"checks":[{"name":…,"status":"ok|warn|fail|skip","detail":…,"remedy":…},…]}.
            """)

    @OptionGroup var options: GlobalOptions

    func run(in program: Program) async throws {
        var findings: [Finding] = []
        let examination = Examination(program: program) { finding in
            if !options.json { Output.line(Self.line(finding)) }
            findings.append(finding)
        }
        try await examination.run()
        let isHealthy = !findings.contains { $0.status == .failed }
        if options.json {
            Output.json(["ok": .bool(isHealthy), "checks": .array(findings.map(\.json))])
        } else {
            let failed = findings.count { $0.status == .failed }
            Output.line(isHealthy ? "\nAll is well." : "\n\(failed) of \(findings.count) checks failed.")
        }
        if !isHealthy { throw SilentExit(.unavailable) }
    }

    private static func line(_ finding: Finding) -> String {
        let status = finding.status.rawValue.padded(to: 5)
        let first = "\(status) \(finding.name.padded(to: 28)) \(finding.detail)"
        return finding.remedy.map { "\(first)\n      \("".padded(to: 28)) → \($0)" } ?? first
    }
}

extension String {
    fileprivate func padded(to width: Int) -> String { self + String(repeating: " ", count: max(0, width - count)) }
}
