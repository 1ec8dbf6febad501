import ArgumentParser
import ChappieRuntime
import ChappieSDK
import ChappieThreadsSQLite

// Commands that run a turn in a thread.
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
            let approval = ToolApproval(
                approvesAll: answerOptions.approveTools, reader: TerminalLineReader(console: program.console))
            let client = try program.client(answerOptions, approval: approval)
            let (runtime, thread) = try await Threads.open(thread, with: client, in: program)
            try await answerOptions.show(
                runtime.streamResumingTurn(), program, approval, keeping: AnswerKeeping(thread: thread.id))
        }
    }

    struct Compact: ProgramCommand {
        var settingsUse: SettingsUse { .network }
        static let configuration = CommandConfiguration(
            commandName: "compact", abstract: "Sum a thread up, so that its next question takes less room.",
            discussion: """
                The model writes the summary, which counts against your plan. The thread keeps all its messages; the next \
                question is sent with the summary in their place, and without earlier pictures. ask, chat and mcp do it \
                by themselves when a conversation becomes too long. With --json: {"thread":…,"tokens_before":…,"tokens":…}.
                """)

        @OptionGroup var options: GlobalOptions
        @OptionGroup var answerOptions: AnswerOptions

        @Argument(help: "The thread (default: the last one).", completion: .threads)
        var thread: String?

        func run(in program: Program) async throws {
            let (runtime, thread) = try await Threads.open(thread, with: program.client(answerOptions), in: program)
            let before = thread.context
            guard before.messageCount > 0 else {
                throw CommandLineError.usage("The thread has nothing to sum up yet.")
            }
            for try await event in runtime.begin(.compaction, endsWithItsStream: true).events {
                if case .notice(let notice) = event { program.note(notice) }
            }
            let after = await runtime.currentThread?.context ?? before
            program.say(
                [
                    "thread": .string(thread.id), "tokens_before": .integer(before.estimatedTokens),
                    "tokens": .integer(after.estimatedTokens),
                ],
                "The conversation is summed up; it takes about \(after.estimatedTokens) tokens now.")
        }
    }

    /// Opens the thread for a separate turn. A missing sign-in is reported before the turn begins, so that the turn
    /// does not fail.
    private static func open(
        _ name: String?, with client: ChappieClient, in program: Program
    ) async throws -> (ChappieRuntime, ChappieThread) {
        let store = try Threads.store(program)
        _ = try await client.accountInfo()
        let runtime = program.runtime(client, store)
        return (runtime, try await runtime.openThread(try await store.thread(named: name).id))
    }
}
