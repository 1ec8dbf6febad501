@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieLineEditor
@_spi(ChappieInternals) import ChappieProcess
import Glibc
import SystemPackage

/// A question in its form on the screen.
struct Question: Sendable {
    /// The text above the prompt. Every line includes its end.
    var lines = ""
    var prompt: String
    /// The initial text of the answer, if it can be edited.
    var initial = ""
}

/// A reader that asks the user for a line.
protocol LineReader: Sendable {
    /// Shows the question below everything that was written before it, and waits for the answer. Drops the keys that
    /// the user pressed before the question.
    ///
    /// - Returns: the answer, or `nil` if the process has no terminal or shares its keys with a program such as a
    ///   pager.
    /// - Throws: `CancellationError`.
    func read(_ question: Question) async throws -> LineEditor.Entry?
}

extension LineReader {
    /// Asks whether to do something.
    ///
    /// - Returns: `nil` if the user did not answer, as with Ctrl-C and Ctrl-D.
    func confirms(_ prompt: String) async throws -> Bool? {
        guard case .text(let answer) = try await read(Question(prompt: "\(prompt) [y/N] ")) else { return nil }
        return ["y", "yes"].contains(answer.shortAnswer)
    }
}

extension String {
    /// The text in lower case without blanks, for a short answer.
    var shortAnswer: String { filter { !$0.isWhitespace }.lowercased() }
}

/// A reader at the terminal of this process. Standard input may be a pipe.
struct TerminalLineReader: LineReader {
    /// The maximum length of a line, in bytes.
    private static let limit = 64 << 10

    let console: Console

    func read(_ question: Question) async throws -> LineEditor.Entry? {
        // A text that the user changes needs an editor.
        if !question.initial.isEmpty, !ProgramEnvironment.process.isTerminalPlain,
            let editor = LineEditor(name: "chappie", historyLimit: 1)
        {
            return try await EditorLineReader(console: console, editor: editor).read(question)
        }
        console.clearStatus()
        try await console.drained()
        let text = UntrustedText.forTerminal(question.lines + question.prompt)
        return try await ringing { bell in Self.ask(text, until: bell) }
    }

    private static func ask(_ question: String, until bell: CInt) -> LineEditor.Entry? {
        guard let terminal = try? Descriptor("/dev/tty", .readWrite) else { return nil }
        guard TerminalState.awaitForeground(terminal.number) else { return nil }
        // A pager reads single keys, and a key for the pager must not be an answer.
        var settings = termios()
        guard tcgetattr(terminal.number, &settings) == 0, settings.c_lflag & tcflag_t(ICANON) != 0 else { return nil }
        tcflush(terminal.number, TCIFLUSH)
        do {
            try terminal.write(Array(question.utf8))
        } catch {
            return nil
        }
        var line: [UInt8] = []
        while line.count < limit {
            var waiting = [terminal.number, bell].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
            while poll(&waiting, 2, -1) < 0, errno == EINTR {}
            guard waiting[1].revents == 0, let byte = try? terminal.read(atMost: 1).first else { break }
            if byte == UInt8(ascii: "\n") { return .text(String(decoding: line, as: UTF8.self)) }
            line.append(byte)
        }
        return .end
    }
}

/// A reader in the chat's editor.
struct EditorLineReader: LineReader {
    let console: Console
    let editor: LineEditor

    func read(_ question: Question) async throws -> LineEditor.Entry? {
        // The text is not written to standard error, which may be a file. The prompt does not contain the question.
        console.write(question.lines)
        try await console.drained()
        let prompt = LineEditor.Prompt(
            UntrustedText.forTerminal(question.prompt), initial: question.initial, endsWhenInterrupted: true,
            dropsTypeAhead: true)
        return try await ringing { bell in editor.read(prompt, until: bell) }
    }
}

/// Runs `work` on a thread with a descriptor that becomes readable when this task is cancelled. A thread that waits for
/// a key must not take the next line, which is for another reader.
private func ringing<Output: Sendable>(_ work: @escaping @Sendable (_ bell: CInt) throws -> Output) async throws
    -> Output
{
    let bell = try Descriptor.pipe()
    return try await withTaskCancellationHandler {
        try await onThread { try work(bell.reader.number) }
    } onCancel: {
        try? bell.writer.write([0])
    }
}
