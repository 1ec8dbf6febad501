import ArgumentParser
import ChappieSDK

/// `chappie ask`: one question, one streamed answer.
struct Ask: ProgramCommand {
    static let configuration = CommandConfiguration(
        abstract: "Ask a question and stream the answer.",
        discussion: """
            The question is the arguments; standard input is added below them when it is redirected, and read for - \
            even from a terminal. A pipe that stays silent beside arguments is left out after half a second: add - to \
            wait for it.

              chappie ask "What is RFC 6455?"
              git diff | chappie ask "Write a commit message for this"

            With --json: one object a line: connected, created, reasoning_summary_delta, text_delta, item, \
            usage_limits, waiting, reconnecting, fell_back, and last completed or error.
            """)

    @OptionGroup var options: GlobalOptions
    @OptionGroup var answerOptions: AnswerOptions

    @Argument(help: "The question; - reads standard input.")
    var words: [String] = []

    func run(in program: Program) async throws {
        let question = try PromptReader(words: words).prompt()
        let client = program.client(answerOptions)
        let message = ChappieInputMessage(
            role: .user, parts: [.text(question)], options: answerOptions.messageOptions)
        var printer = AnswerPrinter(program: program)
        _ = try await printer.print(client.stream(message))
    }
}
