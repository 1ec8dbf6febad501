import ArgumentParser
import ChappieSDK
import ChappieSimulatorServer
import FoundationEssentials
import Glibc

/// `chappie simulator`: a loopback ChatGPT backend to develop against.
struct SimulatorCommand: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "simulator",
        abstract: "Run a ChatGPT backend on this machine, for developing and testing.",
        discussion: """
            Listens on loopback only, until interrupted. Point clients at it with the two variables that it prints. \
            Sign-in pages, tokens and answers are real in form and worthless in value.

            With --json: one object with issuer, backend, port and process id, once it listens.
            """)

    @OptionGroup var options: GlobalOptions

    @Option(help: "The port; 0 takes any free one.")
    var port = 0

    @Flag(name: .customLong("auto-approve"), help: "Approve every sign-in without a person.")
    var autoApprove = false

    @Option(help: "Words a second; 0 is as fast as it can.")
    var rate = 0.0

    @Option(name: .customLong("as-of"), help: "The month whose service it is.")
    private var asOf = MonthChoice()

    @Option(help: "Misbehave as a scenario says: a built-in name or a JSON file.")
    var scenario: String?

    @Flag(name: .customLong("list-scenarios"), help: "List the built-in scenarios.")
    var listScenarios = false

    func run(in program: Program) async throws {
        let console = program.console
        guard !listScenarios else {
            let names = SimulatorScenario.names
            return program.say(
                ["scenarios": .array(names.map(ChappieJSON.string))], names.joined(separator: "\n"))
        }
        let simulator = try await Simulator.start(
            SimulatorConfiguration(
                port: port, autoApprove: autoApprove, deltasPerSecond: rate > 0 ? rate : nil, asOf: asOf.month,
                scenario: try scenario.map(Self.scenario)))
        let (issuer, backend) = (simulator.issuer.absoluteString, simulator.backend.absoluteString)
        program.say(
            [
                "issuer": .string(issuer), "backend": .string(backend), "port": .integer(simulator.port),
                "pid": .integer(Int(getpid())),
            ], "export CHAPPIE_ISSUER=\(issuer)", "export CHAPPIE_BACKEND=\(backend)")
        if !options.json { console.note("Listening on port \(simulator.port); Ctrl-C stops it.") }
        // The log ends with the simulator, and the loop with Ctrl-C.
        for await line in simulator.log where options.verbose { console.note(line) }
        await simulator.stop()
    }

    /// A built-in name, or the path of a file, which has a slash or a dot in it.
    private static func scenario(_ argument: String) throws -> SimulatorScenario {
        guard argument.contains("/") || argument.contains(".") else { return try SimulatorScenario(named: argument) }
        return try SimulatorScenario(parsing: try SmallFile.read(argument))
    }
}

/// A month whose service there is a simulator of.
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
