import ArgumentParser
import ChappieMarkdown
@_spi(ChappieInternals) import ChappieRuntime
import ChappieSDK
import ChappieThreadForms
import ChappieThreadsSQLite

extension Threads {
    struct Show: ProgramCommand {
        static let configuration = CommandConfiguration(
            commandName: "show", abstract: "Print a thread: questions, tools, answers.",
            discussion: """
                On a terminal its Markdown is drawn. With --json: the whole thread, as export gives it; with -n only its \
                last turns.

                  chappie threads show -r > answer.md
                  chappie threads show -x | sh
                """)

        @OptionGroup var options: GlobalOptions

        @Flag(name: .shortAndLong, help: "Print only the last answer, as it came.")
        var response = false

        @Flag(name: [.customShort("x"), .long], help: "Print only the first code block of the last answer.")
        var extract = false

        @Flag(help: "Print only the last code block of the last answer.")
        var lastBlock = false

        @Option(name: [.customShort("n"), .customLong("turns")], help: "Print only this many turns, the last ones.")
        var turns: Int?

        @Option(
            help: ArgumentHelp("Draw Markdown: auto (on a terminal), always or never.", valueName: "when"))
        var markdown: MarkdownChoice?

        @Argument(help: "The thread (default: the last one).", completion: .threads)
        var thread: String?

        func run(in program: Program) async throws {
            let store = try Threads.store(program)
            let id = try await store.thread(named: self.thread).id
            if response || extract || lastBlock {
                // The last turn may have no answer.
                let end = try await store.thread(id, last: 1)
                let hasAnswer = end.turns.contains { !$0.outputText.isEmpty }
                return try showAnswer(of: hasAnswer ? end : try await store.thread(id), program)
            }
            let thread = if let turns { try await store.thread(id, last: turns) } else { try await store.thread(id) }
            guard !options.json else { return program.console.json(thread.json) }
            let text = ChappieThreadFormat.markdown.text(of: thread)
            let choice = markdown ?? program.settings.markdown ?? .auto
            guard var drawing = choice.stream(on: program.console) else { return program.console.write(text) }
            program.console.draw(drawing.append(text) + drawing.finish())
        }

        func validate() throws {
            if let turns, turns < 1 { throw ValidationError("-n takes a number of turns, 1 or more.") }
            if [response, extract, lastBlock].count(where: \.self) > 1 {
                throw ValidationError("-r, -x and --last-block name different parts of the answer.")
            }
        }

        private func showAnswer(of thread: ChappieThread, _ program: Program) throws {
            guard let answer = thread.turns.last(where: { !$0.outputText.isEmpty })?.outputText else {
                throw CommandLineError(
                    .unavailable, code: "answer_empty", "The thread \(thread.summary.shortID) has no answer.")
            }
            let block = extract ? CodeBlock.first(in: answer) : lastBlock ? CodeBlock.last(in: answer) : answer
            guard let text = block else {
                throw CommandLineError(
                    .unavailable, code: "no_code_block", "There is no code block in the answer.",
                    suggestion: "Print the answer: chappie threads show -r")
            }
            if options.json { return program.console.json(["text": .string(text)]) }
            program.console.write(text.hasSuffix("\n") ? text : text + "\n")
        }
    }
}
