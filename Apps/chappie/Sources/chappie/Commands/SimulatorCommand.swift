import ArgumentParser
import ChappieSimulatorOptions
import FoundationEssentials
import Glibc

/// The command `chappie simulator`. The program `chappie-simulator` in the same folder replaces this process.
struct SimulatorCommand: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "simulator", abstract: SimulatorOptions.abstract, discussion: SimulatorOptions.discussion)

    @OptionGroup var options: GlobalOptions
    @OptionGroup var simulator: SimulatorOptions

    /// Replaces this process with the other program.
    ///
    /// - Throws: ``CommandLineError`` if the other program cannot be run.
    func run(in program: Program) async throws {
        let own = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
        let path = (own.lastIndex(of: "/").map { String(own[...$0]) } ?? "") + "chappie-simulator"
        let flags = (options.json ? ["--json"] : []) + (options.verbose ? ["--verbose"] : [])
        var words = ([path] + simulator.words + flags).map { strdup($0) } + [nil]
        // An earlier interruption takes effect here. Later ones must reach the other program, but this thread may block
        // them.
        try Task.checkCancellation()
        var none = sigset_t()
        sigemptyset(&none)
        pthread_sigmask(SIG_SETMASK, &none, nil)
        execv(path, &words)
        let reason = String(cString: strerror(errno))
        throw CommandLineError(
            .unavailable, code: "simulator_missing", "\(path) can't be run: \(reason).",
            suggestion: "Install chappie-simulator in the folder of chappie; README.md says how to build it.")
    }
}
