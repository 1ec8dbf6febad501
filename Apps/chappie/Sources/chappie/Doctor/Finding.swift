import ChappieSDK

/// What one check of `chappie doctor` has found.
struct Finding: Sendable {
    enum Status: String, Sendable {
        case ok
        /// It works, and could be better.
        case warning = "warn"
        case failed = "fail"
        /// Not looked at, because something before it failed or is not there.
        case skipped = "skip"
    }

    let name: String
    let status: Status
    /// What was found, in one line.
    let detail: String
    /// What to do next; every finding that is not `ok` has one, unless an earlier one says it.
    let remedy: String?

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

    /// `other` under another name.
    init(_ name: String, like other: Finding) {
        self.init(name: name, status: other.status, detail: other.detail, remedy: other.remedy)
    }

    init(name: String, status: Status, detail: String, remedy: String? = nil) {
        self.name = name
        self.status = status
        self.detail = detail
        self.remedy = remedy
    }

    /// An error as a finding: its own words and its own advice.
    static func failed(_ name: String, _ error: any Error) -> Finding {
        let report = ErrorReport(error)
        return failed(name, report.message, report.suggestion ?? "Try again with --verbose.")
    }

    var json: ChappieJSON {
        [
            "name": .string(name), "status": .string(status.rawValue), "detail": .string(detail),
            "remedy": .optional(remedy),
        ]
    }
}
