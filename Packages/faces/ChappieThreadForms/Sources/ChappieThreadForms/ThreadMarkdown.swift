@_spi(ChappieInternals) import ChappieCore
import ChappieMarkdown
import ChappieRuntime

/// A thread as Markdown. Questions are quoted, output of tools is in fences, and an answer's headings are moved down.
enum ThreadMarkdown {
    static func text(of thread: ChappieThread) -> String {
        let summary = thread.summary
        var blocks = [
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
            case .turn(let turn): add(turn, to: &blocks)
            case .compaction(let summary):
                blocks.append("---\n\n*The conversation was made shorter here.*")
                if let summary { blocks.append(SafeMarkdown.quoted(summary, headingLevel: 4)) }
            }
        }
        return blocks.joined(separator: "\n\n") + "\n"
    }

    private static func add(_ entry: ThreadTranscript.Turn, to blocks: inout [String]) {
        let turn = entry.turn
        blocks.append("---\n\n## \(turn.number). \(turn.startedAt.minute)")
        for message in turn.messages { add(message, to: &blocks) }
        for step in entry.steps {
            switch step {
            case .message(let message): add(message, to: &blocks)
            case .answer(let text):
                // The answer's headings are lower than the transcript's, so they cannot be confused with them.
                blocks += ["### Answer", SafeMarkdown.passage(text, headingLevel: 4)]
            case .commentary(let text): blocks += ["### Commentary", SafeMarkdown.quoted(text, headingLevel: 4)]
            case .reasoning(let text): blocks += ["### Reasoning", SafeMarkdown.quoted(text, headingLevel: 4)]
            case .call(let call):
                blocks.append(
                    "### Tool \(SafeMarkdown.code(call.name))"
                        + (call.remark.map { ": " + SafeMarkdown.line($0) } ?? ""))
                let isJSON = (try? ChappieJSON(parsing: call.arguments)) != nil
                blocks.append(SafeMarkdown.fenced(call.arguments, isJSON ? "json" : ""))
                if let output = call.output { blocks.append(SafeMarkdown.fenced(output)) }
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

    private static func add(_ message: ChappieInputMessage, to blocks: inout [String]) {
        if message.role != .user { blocks.append("*\(SafeMarkdown.line(message.role.rawValue)):*") }
        for part in message.parts {
            if case .text(let text) = part {
                blocks.append(SafeMarkdown.quoted(text, headingLevel: 4))
            } else {
                blocks.append("*[\(SafeMarkdown.line(part.placeholder))]*")
            }
        }
    }
}
