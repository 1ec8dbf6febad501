import ArgumentParser
import ChappieSDK

/// `chappie doctor`: everything between this program and an answer, checked one by one.
struct Doctor: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
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
        let checks = DoctorChecks(program: program) { finding in
            if !options.json { program.console.line(finding.line) }
            findings.append(finding)
        }
        try await checks.run()
        let failed = findings.count { $0.status == .failed }
        if options.json {
            program.console.json(["ok": .bool(failed == 0), "checks": .array(findings.map(\.json))])
        } else {
            program.console.line(failed == 0 ? "\nAll is well." : "\n\(failed) of \(findings.count) checks failed.")
        }
        if failed > 0 { throw ExitCode(ExitStatus.unavailable.rawValue) }
    }
}

/// The result of one check of `chappie doctor`.
struct Finding: Sendable, Equatable {
    enum Status: String, Sendable {
        case ok
        /// It works, and could be better.
        case warning = "warn"
        case failed = "fail"
        /// Not checked, because something before it failed or is not there.
        case skipped = "skip"
    }

    private(set) var name: String
    let status: Status
    /// The result in one line.
    let detail: String
    /// The user's next step; every finding that is not `ok` has one, unless an earlier one says it.
    var remedy: String?

    static func ok(_ name: String, _ detail: String) -> Finding { Finding(name: name, status: .ok, detail: detail) }

    static func warning(_ name: String, _ detail: String, _ remedy: String) -> Finding {
        Finding(name: name, status: .warning, detail: detail, remedy: remedy)
    }

    static func failed(_ name: String, _ detail: String, _ remedy: String) -> Finding {
        Finding(name: name, status: .failed, detail: detail, remedy: remedy)
    }

    static func skipped(_ name: String, _ detail: String) -> Finding {
        Finding(name: name, status: .skipped, detail: detail)
    }

    /// An error as a finding: its own words and its own advice.
    static func failed(_ name: String, _ error: any Error) -> Finding {
        let report = CommandLineError(error)
        return failed(name, report.message, report.suggestion ?? "Try again with --verbose.")
    }

    /// The same finding as part of a larger check: `service: TLS`.
    func within(_ check: String) -> Finding {
        var finding = self
        finding.name = "\(check): \(name)"
        return finding
    }

    var json: ChappieJSON {
        [
            "name": .string(name), "status": .string(status.rawValue), "detail": .string(detail),
            "remedy": .optional(remedy),
        ]
    }

    /// For people: status, name and detail in columns, the remedy below the detail.
    var line: String {
        func padded(_ text: String, to width: Int) -> String {
            text + String(repeating: " ", count: max(0, width - text.count))
        }
        let first = "\(padded(status.rawValue, to: 5)) \(padded(name, to: 28)) \(detail)"
        return remedy.map { "\(first)\n\(padded("", to: 34)) → \($0)" } ?? first
    }
}
