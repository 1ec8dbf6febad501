public import ArgumentParser
public import ChappieSimulator

/// The options of the program `chappie-simulator`, and of `chappie simulator`, which runs it.
public struct SimulatorOptions: ParsableArguments, Sendable {
    /// The abstract in the help of both programs.
    public static let abstract = "Run a ChatGPT backend on this machine, for developing and testing."
    /// The discussion in the help of both programs.
    public static let discussion = """
        Listens on loopback only, until interrupted. Point clients at it with the two variables that it prints. \
        Sign-in pages, tokens and answers are real in form and worthless in value.

        With --json: one object with issuer, backend, port and process id, once it listens.
        """

    @Option(help: "The port; 0 takes any free one.")
    var port = 0

    @Flag(name: .customLong("auto-approve"), help: "Approve every sign-in without a user.")
    var autoApprove = false

    @Option(help: "Words a second; 0 means without delay.")
    var rate = 0.0

    @Option(name: .customLong("as-of"), help: "The month of the service to simulate.")
    private var asOf = MonthChoice()

    /// A built-in name or the path of a file.
    @Option(
        help: "Misbehave as in this scenario: a built-in name or a JSON file.",
        completion: .custom { _, _, _ in SimulatorScenario.names })
    public var scenario: String?

    /// Whether to list the names of the built-in scenarios instead of running a simulator.
    @Flag(name: .customLong("list-scenarios"), help: "List the built-in scenarios.")
    public var listScenarios = false

    /// Creates the default options.
    public init() {}

    /// The configuration that the options specify, without a scenario.
    public var configuration: SimulatorConfiguration {
        SimulatorConfiguration(
            port: port, autoApprove: autoApprove, deltasPerSecond: rate > 0 ? rate : nil, asOf: asOf.month)
    }

    /// The same options as command-line arguments.
    public var words: [String] {
        ["--port=\(port)", "--rate=\(rate)", "--as-of=\(asOf.month.rawValue)"]
            + (autoApprove ? ["--auto-approve"] : []) + (scenario.map { ["--scenario=\($0)"] } ?? [])
            + (listScenarios ? ["--list-scenarios"] : [])
    }
}

/// A month of the service that can be simulated.
private struct MonthChoice: ExpressibleByArgument {
    var month = SimulatorConfiguration().asOf

    init() {}

    init?(argument: String) {
        guard let month = SimulatorMonth(rawValue: argument) else { return nil }
        self.month = month
    }

    static var allValueStrings: [String] { SimulatorMonth.allCases.map(\.rawValue) }
    var defaultValueDescription: String { month.rawValue }
}
