import ArgumentParser
import CMain
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieSimulatorOptions
import ChappieSimulatorServer
import Dispatch
import Glibc
import Synchronization
import SystemPackage

/// The program `chappie-simulator`, which serves a ChatGPT backend on loopback until it is interrupted. The command
/// `chappie simulator` runs it.
@main
struct SimulatorProgram: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "chappie-simulator", abstract: SimulatorOptions.abstract, discussion: SimulatorOptions.discussion)

    @Flag(help: "Print one JSON object.")
    var json = false

    @Flag(name: [.short, .long], help: "Log requests to standard error, without their contents.")
    var verbose = false

    @OptionGroup var options: SimulatorOptions

    static func main() {
        let words = (0..<cmain_argument_count()).compactMap { cmain_argument($0).map { String(cString: $0) } }
        // Linux passes an empty name if a program is started without any argument.
        guard words.contains(where: { !$0.isEmpty }) else {
            note("chappie: The program was started without arguments, even its own name.")
            _exit(70)
        }
        cmain_on_missing_thread {
            note("chappie: The system allows no more threads (ulimit -u, or the container's pids limit).")
            _exit(69)
        }
        Task {
            await main(Array(words.dropFirst()))
            Glibc.exit(0)
        }
        dispatchMain()
    }

    func run() async {
        endWellWhenInterrupted()
        do {
            if options.listScenarios { try listScenarios() } else { try await serve() }
        } catch {
            let failure = Failure(error)
            if json { try? write("\(failure.json.serialized())\n", to: .standardOutput) }
            note("chappie: \(failure.message)")
            if let suggestion = failure.suggestion { note("         \(suggestion)") }
            _exit(failure.status)
        }
    }

    private func listScenarios() throws {
        let names = SimulatorScenario.names
        let list: ChappieJSON = ["scenarios": .array(names.map(ChappieJSON.string))]
        try write((json ? list.serialized() : names.joined(separator: "\n")) + "\n", to: .standardOutput)
    }

    private func serve() async throws {
        var configuration = options.configuration
        configuration.scenario = try options.scenario.map(scenario)
        let simulator = try await Simulator.start(configuration)
        let issuer = simulator.issuer.absoluteString
        let backend = simulator.backend.absoluteString
        let planBackend = simulator.planBackend.absoluteString
        let facts: ChappieJSON = [
            "issuer": .string(issuer), "backend": .string(backend), "plan_backend": .string(planBackend),
            "port": .integer(simulator.port),
            "pid": .integer(Int(getpid())),
        ]
        let exports = "export CHAPPIE_ISSUER=\(issuer)\nexport CHAPPIE_BACKEND=\(backend)"
        try write((json ? facts.serialized() : exports) + "\n", to: .standardOutput)
        if !json {
            note("Listening on port \(simulator.port); Ctrl-C stops it.")
            note("The backend of the plan route (Continue with ChatGPT) is \(planBackend).")
        }
        // The log ends with the simulator, which ends with the process.
        for await line in simulator.log where verbose { note(line) }
    }

    /// Returns the scenario with a built-in name or in a file. An argument that contains a slash or a dot is a path.
    private func scenario(_ argument: String) throws -> SimulatorScenario {
        guard argument.contains("/") || argument.contains(".") else { return try SimulatorScenario(named: argument) }
        return try SimulatorScenario(parsing: try contents(of: argument))
    }

    private func contents(of path: String) throws(Failure) -> [UInt8] {
        do throws(WholeFile.Failure) {
            return try WholeFile.contents(of: path, kind: .any)
        } catch {
            throw Failure(unreadable: path, error)
        }
    }
}

/// An error in the form in which `chappie` reports its own.
private struct Failure: Error {
    var status: CInt = 64
    var code = "simulator_settings"
    let message: String
    var suggestion: String?

    init(_ error: any Error) {
        if let failure = error as? Failure {
            self = failure
            return
        }
        let error = error as? SimulatorError
        message = error?.errorDescription ?? "The simulator could not be started."
        suggestion = error?.recoverySuggestion
        if [.portInUse, .listenFailed].contains(error?.code) {
            status = 69
            code = "simulator_unavailable"
        }
    }

    init(unreadable path: String, _ error: WholeFile.Failure) {
        code = "usage"
        message = "\(path) can't be read: \(error.words)."
        suggestion = "Check the path."
    }

    init(output reason: Errno) {
        status = 69
        code = "output_failed"
        message = "Standard output can't be written: \(reason)."
    }

    var json: ChappieJSON {
        var members = ChappieJSONObject([("code", .string(code)), ("message", .string(message))])
        members["suggestion"] = suggestion.map(ChappieJSON.string)
        members["exit_code"] = .integer(Int(status))
        return ["type": "error", "error": .object(members)]
    }
}

/// Whether a write is in progress. A reader that does not read, or a terminal that is stopped, can hold up a write.
private let isWriting = Atomic(false)

private func write(_ text: String, to file: Descriptor) throws(Failure) {
    isWriting.store(true, ordering: .releasing)
    defer { isWriting.store(false, ordering: .releasing) }
    do {
        try file.write(Array(text.utf8))
    } catch {
        // A command in a pipe ends silently when no process reads its output.
        if error == .brokenPipe, file === Descriptor.standardOutput { _exit(128 + SIGPIPE) }
        throw Failure(output: error)
    }
}

/// Writes a line for the user. Control characters are replaced because clients influence the text.
private func note(_ line: String) { try? write("\(UntrustedText.forTerminal(line))\n", to: .standardError) }

/// Makes Ctrl-C, SIGTERM and a closed terminal the regular end, unless they cut a line off. Nothing has to be saved.
private func endWellWhenInterrupted() {
    signal(SIGPIPE, SIG_IGN)
    for number in [SIGINT, SIGTERM, SIGHUP] {
        let before = signal(number) { _exit(isWriting.load(ordering: .acquiring) ? 128 + $0 : 0) }
        // With nohup, the program must outlive its terminal. C functions can be compared only by their addresses.
        if number == SIGHUP, unsafeBitCast(before, to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self) {
            signal(number, SIG_IGN)
        }
    }
}
