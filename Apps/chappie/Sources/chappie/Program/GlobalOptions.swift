import ArgumentParser

/// Options that every command takes, before or after the command's name.
struct GlobalOptions: ParsableArguments {
    @Flag(help: "Print one JSON object, or JSON lines while streaming.")
    var json = false

    @Option(help: "The account to use (default: $CHAPPIE_ACCOUNT, else \"default\").")
    var account: String?

    @Option(
        help: ArgumentHelp(
            "The sign-in to use: device (a device code) or plan (Continue with ChatGPT). Default: the last login's.",
            valueName: "route"))
    var route: Route?

    @Flag(name: [.short, .long], help: "Log requests to standard error, without their contents.")
    var verbose = false

    @Flag(help: "Talk to a simulator inside this process, with a throw-away credential.")
    var simulate = false

    @Option(
        help:
            "Seconds of silence after which to give up (default: 300 for an answer, up to four times as long at a high effort)."
    )
    var timeout: Double?

    /// Throws an error in a simulation, which does not touch anything that belongs to the user.
    func refuseSimulation(_ what: String) throws {
        guard simulate else { return }
        throw CommandLineError.usage("A simulation has no \(what).", suggestion: "Leave out --simulate.")
    }
}
