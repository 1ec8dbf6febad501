@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieMarkdown
import ChappieRuntime
import ChappieSDK
import FoundationEssentials
import Glibc

/// The questions and answers of a conversation, for a file.
struct ChatTranscript {
    let turns: [(question: String, answer: String, model: String)]

    var isEmpty: Bool { turns.isEmpty }
    var lastAnswer: String? { turns.last?.answer }

    /// The Markdown of the conversation. As in an export, the Markdown of a message cannot affect the text around it.
    var markdown: String {
        let blocks = turns.flatMap { turn in
            [
                "## You", SafeMarkdown.passage(turn.question.trimmedEnd, headingLevel: 1),
                "## " + SafeMarkdown.line(turn.model),
                SafeMarkdown.passage(turn.answer.trimmedEnd, headingLevel: 1),
            ]
        }
        return blocks.joined(separator: "\n\n") + "\n"
    }

    /// A name with the time, in the current folder.
    private static var newName: String {
        let stem = "chappie-\(Date().localMinute.replacing(" ", with: "-").replacing(":", with: ""))"
        var name = stem + ".md"
        var number = 1
        while WholeFile.exists(name) {
            number += 1
            name = "\(stem)-\(number).md"
        }
        return name
    }

    /// Writes the Markdown to a new file, to a device or a pipe, or to the target of a link. An existing file with this
    /// name is not replaced.
    ///
    /// - Parameter path: the path of the file. `nil` means a name that contains the time.
    /// - Returns: the file's path.
    /// - Throws: ``CommandLineError``.
    func save(to path: String?, _ environment: ProgramEnvironment) async throws -> String {
        let name = path ?? Self.newName
        let file = name.hasPrefix("~/") ? (environment.folders.home ?? "") + name.dropFirst() : name
        var facts = stat()
        guard lstat(file, &facts) != 0 || facts.st_mode & S_IFMT != S_IFREG else {
            throw CommandLineError.usage("\(file) exists already.", suggestion: "Name another: /save FILE.")
        }
        try await OutputFile(file, outside: environment.threadsFolder, isPrivate: true).write(markdown)
        return file
    }
}

extension ChatTranscript {
    init(_ turns: [ChappieTurn]) {
        self.init(
            turns: turns.filter(\.isPartOfConversation).flatMap { turn in
                turn.exchanges.map { messages, answer in
                    let isFirst = messages.first == turn.messages.first
                    let texts =
                        isFirst
                        ? [turn.question] + messages.dropFirst(turn.messages.count).map(\.text) : messages.map(\.text)
                    return (texts.joined(separator: "\n\n"), answer, turn.model)
                }
            })
    }
}

extension ChappieTurn {
    /// The text that the user typed, which follows the attachments.
    var question: String {
        guard case .text(let text)? = messages.last?.parts.last else { return "" }
        return text
    }
}
