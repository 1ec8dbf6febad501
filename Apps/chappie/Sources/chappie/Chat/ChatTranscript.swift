@_spi(ChappieInternals) import ChappieCore
import ChappieMarkdown

/// The questions and answers of a conversation, for a file.
struct ChatTranscript {
    private var turns: [(question: String, answer: String, model: String)] = []

    var isEmpty: Bool { turns.isEmpty }

    var lastQuestion: String? { turns.last?.question }
    var lastAnswer: String? { turns.last?.answer }

    mutating func removeLast() { turns.removeLast() }

    mutating func add(question: String, answer: String, by model: String) { turns.append((question, answer, model)) }

    /// As in an export, the Markdown of a message can't affect the text around it.
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
}
