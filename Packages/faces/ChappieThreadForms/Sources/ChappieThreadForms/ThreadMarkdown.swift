@_spi(ChappieInternals) import ChappieCore
import ChappieMarkdown
@_spi(ChappieInternals) import ChappieRuntime

/// A thread as Markdown. Questions are quoted, output of tools is in fences, and an answer's headings are moved down.
struct ThreadMarkdown {
    private var blocks: [String]
    /// The pictures that the text refers to as files.
    private(set) var pictures: [ChappieThreadPicture] = []
    /// The beginning of the names of these files, or `nil` if each picture is only a line.
    private let pictureName: String?

    var text: String { blocks.joined(separator: "\n\n") + "\n" }

    init(of thread: ChappieThread, hasPictureFiles: Bool = false) {
        let summary = thread.summary
        pictureName = hasPictureFiles ? (ChappieThread.canHaveID(thread.id) ? thread.id : "thread") : nil
        blocks = [
            "# " + SafeMarkdown.line(summary.name),
            """
            - Thread: \(SafeMarkdown.code(thread.id))
            - Model: \(SafeMarkdown.code(summary.model))
            - Begun: \(summary.createdAt.minute)
            - Last change: \(summary.updatedAt.minute)
            """,
        ]
        for entry in ThreadTranscript(of: thread).entries {
            switch entry {
            case .turn(let turn): add(turn)
            case .compaction(let summary):
                blocks.append("---\n\n*The conversation was made shorter here.*")
                if let summary { blocks.append(SafeMarkdown.quoted(summary, headingLevel: 4)) }
            }
        }
    }

    private mutating func add(_ entry: ThreadTranscript.Turn) {
        let turn = entry.turn
        blocks.append("---\n\n## \(turn.number). \(turn.startedAt.minute)")
        for message in turn.messages { add(message) }
        for step in entry.steps {
            switch step {
            case .message(let message): add(message)
            case .answer(let text):
                // The answer's headings are lower than the transcript's, so they cannot be confused with them.
                blocks += ["### Answer", SafeMarkdown.passage(text, headingLevel: 4)]
            case .commentary(let text): blocks += ["### Commentary", SafeMarkdown.quoted(text, headingLevel: 4)]
            case .reasoning(let text): blocks += ["### Reasoning", SafeMarkdown.quoted(text, headingLevel: 4)]
            case .call(let call): add(call)
            case .picture(let picture): add(picture)
            case .search(let sentence): blocks.append("*\(SafeMarkdown.line(sentence))*")
            case .sources(let sources): blocks.append(sources.markdown)
            case .other(let kind): blocks.append("*[\(SafeMarkdown.line(kind))]*")
            }
        }
        if let remark = turn.remark { blocks.append("**\(SafeMarkdown.line(remark))**") }
        let asked = turn.answeringModel == nil ? "" : " instead of \(SafeMarkdown.code(turn.model))"
        if let usage = turn.usage {
            blocks.append(
                "*\(SafeMarkdown.code(turn.answeringModel ?? turn.model))\(asked), \(usage.inputTokens) tokens in, \(usage.outputTokens) tokens out*"
            )
        }
    }

    private mutating func add(_ call: ThreadTranscript.Call) {
        blocks.append(
            "### Tool \(SafeMarkdown.code(call.name))" + (call.remark.map { ": " + SafeMarkdown.line($0) } ?? ""))
        let isJSON = (try? ChappieJSON(parsing: call.arguments)) != nil
        blocks.append(SafeMarkdown.fenced(call.arguments, isJSON ? "json" : ""))
        if let output = call.output { blocks.append(SafeMarkdown.fenced(output)) }
        for picture in call.pictures { add(picture) }
    }

    private mutating func add(_ message: ChappieInputMessage) {
        if message.role != .user { blocks.append("*\(SafeMarkdown.line(message.role.rawValue)):*") }
        for part in message.parts {
            if case .text(let text) = part {
                blocks.append(SafeMarkdown.quoted(text, headingLevel: 4))
            } else if let picture = part.picture {
                add(picture)
            } else {
                blocks.append("*[\(SafeMarkdown.line(part.placeholder))]*")
            }
        }
    }

    private mutating func add(_ picture: ThreadPicture) {
        guard let pictureName else { return blocks.append("*[\(picture.words)]*") }
        let file = ChappieThreadPicture(picture, named: "\(pictureName)-\(pictures.count + 1)")
        pictures.append(file)
        blocks.append("![\(picture.words)](\(file.fileName))")
    }
}
