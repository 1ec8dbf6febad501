import ArgumentParser

/// A command that runs inside a composed program.
protocol ProgramCommand: AsyncParsableCommand, Sendable {
    var options: GlobalOptions { get }
    /// Does the work; errors become messages and exit codes in one place.
    func run(in program: Program) async throws
}

extension ProgramCommand {
    func run() async { await Program.run(self) }
}
