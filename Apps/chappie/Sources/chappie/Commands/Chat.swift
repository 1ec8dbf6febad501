import ArgumentParser
import ChappieSDK

/// `chappie chat`: a conversation, line by line.
struct Chat: ProgramCommand {
    static let configuration = CommandConfiguration(
        abstract: "Have a conversation: a line is a message, end of file ends it.",
        discussion: "With --json: the lines of chappie ask, turn after turn.")

    @OptionGroup var options: GlobalOptions
    @OptionGroup var answerOptions: AnswerOptions

    func run(in program: Program) async throws {
        let client = program.client(answerOptions)
        let isInteractive = Terminal.inputIsTerminal && Terminal.outputIsTerminal && !options.json
        if isInteractive { Output.note("Type a message and press Return; Ctrl-D ends the conversation.") }
        // Connects while the person types.
        let prewarm = Task { await client.prewarm() }
        defer { prewarm.cancel() }
        var input = StandardInput()
        while true {
            if isInteractive { Output.write("\n> ") }
            guard let line = try input.readLine() else { break }
            guard line.contains(where: { !$0.isWhitespace }) else { continue }
            if !isInteractive, !options.json { Output.line("> \(line)\n") }
            let message = ChappieInputMessage(
                role: .user, parts: [.text(line)], options: answerOptions.messageOptions)
            var printer = AnswerPrinter(program: program)
            _ = try await printer.print(client.stream(message))
            if !isInteractive, !options.json { Output.line() }
        }
        if isInteractive { Output.line() }
        await client.disconnect()
    }
}
