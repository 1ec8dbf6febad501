import Glibc

/// What the standard streams are connected to.
enum Terminal {
    static let inputIsTerminal = isatty(STDIN_FILENO) == 1
    static let outputIsTerminal = isatty(STDOUT_FILENO) == 1
    static let errorIsTerminal = isatty(STDERR_FILENO) == 1

    /// Colour and cursor movement: only on a terminal that can, and not where `NO_COLOR` (no-color.org) or
    /// `TERM=dumb` say no.
    static func styles(_ isTerminal: Bool, environment: ProgramEnvironment) -> Bool {
        isTerminal && (environment["NO_COLOR"] ?? "").isEmpty && environment["TERM"] != "dumb"
    }
}
