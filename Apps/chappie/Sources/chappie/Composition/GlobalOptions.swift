import ArgumentParser

/// Options that every command takes, before or after the command's name.
struct GlobalOptions: ParsableArguments {
    @Flag(help: "Print one JSON object, or JSON lines while streaming.")
    var json = false

    @Option(help: "Whose credential to use (default: $CHAPPIE_ACCOUNT, else \"default\").")
    var account: String?

    @Flag(name: [.short, .long], help: "Log requests to standard error, without their contents.")
    var verbose = false

    @Flag(help: "Talk to a simulator inside this process, with a throw-away credential.")
    var simulate = false

    @Option(help: "Seconds of silence after which to give up (default: 60 for an answer to begin, 300 within it).")
    var timeout: Double?

    /// Moves these options from before the command's name to after it, where the parser looks for them.
    static func normalized(_ arguments: [String]) -> [String] {
        var leading: [String] = []
        var rest = arguments[...]
        while let first = rest.first {
            if ["--json", "--verbose", "-v", "--simulate"].contains(first)
                || ["--account=", "--timeout="].contains(where: first.hasPrefix)
            {
                leading.append(rest.removeFirst())
            } else if ["--account", "--timeout"].contains(first), rest.count > 1 {
                leading += rest.prefix(2)
                rest = rest.dropFirst(2)
            } else {
                break
            }
        }
        guard let command = rest.first, !command.hasPrefix("-") else { return arguments }
        rest = rest.dropFirst()
        // The options belong to the innermost command.
        guard ["accounts", "auth"].contains(command), let inner = rest.first, !inner.hasPrefix("-") else {
            return [command] + leading + rest
        }
        return [command, inner] + leading + rest.dropFirst()
    }
}
