import ArgumentParser
import ChappieRuntime
import ChappieSDK
import ChappieThreadsSQLite

// The command that runs a turn in a thread.
extension Threads {
    struct Resume: ProgramCommand {
        var settingsUse: SettingsUse { .network }
        static let configuration = CommandConfiguration(
            commandName: "resume", abstract: "Continue a turn that was interrupted or waits for an approval.",
            discussion: """
                Tools that may have run already are not run again, and the model learns that. The turn keeps its model \
                and its effort. With --json: the lines of chappie ask.
                """)

        @OptionGroup var options: GlobalOptions
        @OptionGroup var answerOptions: AnswerOptions

        @Argument(help: "The thread (default: the last one).", completion: .threads)
        var thread: String?

        func run(in program: Program) async throws {
            try answerOptions.check()
            let approval = ToolApproval(
                approvesAll: answerOptions.approveTools, reader: TerminalLineReader(console: program.console))
            let client = try program.client(answerOptions, approval: approval)
            let store = try Threads.store(program)
            // A missing sign-in is reported before the turn begins, so that the turn does not fail.
            _ = try await client.accountInfo()
            let runtime = program.runtime(client, store)
            let thread = try await runtime.openThread(try await store.thread(named: thread).id)
            try await answerOptions.show(
                runtime.streamResumingTurn(), program, approval, keeping: AnswerKeeping(thread: thread.id))
        }
    }
}
