import ArgumentParser
@_spi(ChappieInternals) import ChappieCore
import ChappieMarkdown
import ChappieRuntime
import ChappieSDK
import FoundationEssentials

/// The forms in which a thread leaves the store.
enum ThreadFormat: String, ExpressibleByArgument, CaseIterable {
    /// One JSON document, complete.
    case json
    /// A line that names the thread, then one for each record; complete.
    case jsonl
    /// For reading, and for other programs that know Markdown.
    case markdown
    /// A page for a browser and for paper, which needs no other file.
    case html

    /// The form that a file's name asks for; `nil` where it asks for none.
    init?(fileName: String) {
        switch fileName.split(separator: ".").last?.lowercased() {
        case "json": self = .json
        case "jsonl": self = .jsonl
        case "md", "markdown": self = .markdown
        case "html", "htm": self = .html
        default: return nil
        }
    }
    /// The thread in this form, with a line feed at the end.
    func text(of thread: ChappieThread) -> String {
        switch self {
        case .json: return thread.json.serialized() + "\n"
        case .jsonl:
            var head = thread.json.object ?? [:]
            head["records"] = nil
            let lines = [.object(head)] + thread.records.map(ChappieThread.json(of:))
            return lines.map { $0.serialized() + "\n" }.joined()
        case .markdown: return ThreadMarkdown.text(of: thread)
        case .html: return ThreadPage.text(of: thread)
        }
    }
}

/// A thread as Markdown. What was said can't break out of its place: questions are quoted, what tools said is in fences that
/// are longer than any in it, and so is an answer that leaves a block open; an answer's headings are moved down. A terminal
/// has nothing to obey in it.
enum ThreadMarkdown {
    static func text(of thread: ChappieThread) -> String {
        let summary = thread.summary
        var blocks = [
            "# " + line(summary.name),
            """
            - Thread: \(code(thread.id))
            - Model: \(code(summary.model))
            - Begun: \(summary.createdAt.minute) UTC
            - Last change: \(summary.updatedAt.minute) UTC
            """,
        ]
        for entry in ThreadTranscript(of: thread).entries {
            switch entry {
            case .turn(let turn): add(turn, to: &blocks)
            case .compaction(let summary):
                blocks.append("---\n\n*The conversation was made shorter here.*")
                if let summary { blocks.append(quoted(summary)) }
            }
        }
        return blocks.joined(separator: "\n\n") + "\n"
    }

    private static func add(_ entry: ThreadTranscript.Turn, to blocks: inout [String]) {
        let turn = entry.turn
        blocks.append("---\n\n## \(turn.number). \(turn.startedAt.minute) UTC")
        for message in turn.messages {
            if message.role != .user { blocks.append("*\(line(message.role.rawValue)):*") }
            for part in message.parts {
                if case .text(let text) = part {
                    blocks.append(quoted(text))
                } else {
                    blocks.append("*[\(line(part.placeholder))]*")
                }
            }
        }
        for step in entry.steps {
            switch step {
            case .answer(let text):
                blocks.append("### Answer")
                let safe = lines(of: text).joined(separator: "\n")
                // Its headings stand below those of the transcript, and can't be taken for them.
                blocks.append(EmbeddedMarkdown.text(of: safe, headingLevel: 4) ?? fenced(safe, "markdown"))
            case .commentary(let text): blocks += ["### Commentary", quoted(text)]
            case .reasoning(let text): blocks += ["### Reasoning", quoted(text)]
            case .call(let call):
                blocks.append("### Tool \(code(call.name))" + (call.remark.map { ": " + line($0) } ?? ""))
                let isJSON = (try? ChappieJSON(parsing: call.arguments)) != nil
                blocks.append(fenced(call.arguments, isJSON ? "json" : ""))
                if let output = call.output { blocks.append(fenced(output)) }
            case .other(let kind): blocks.append("*[\(line(kind))]*")
            }
        }
        if let remark = turn.remark { blocks.append("**\(line(remark))**") }
        if let usage = turn.usage {
            blocks.append(
                "*\(code(turn.model)), \(usage.inputTokens) tokens in, \(usage.outputTokens) tokens out*")
        }
    }

    /// Text as a quote: what it opens ends with it.
    static func quoted(_ text: String) -> String {
        lines(of: text).map { $0.isEmpty ? ">" : "> " + $0 }.joined(separator: "\n")
    }

    /// Text in a block of code, whatever it says.
    static func fenced(_ text: String, _ language: String = "") -> String {
        let text = lines(of: text).joined(separator: "\n")
        let fence = String(repeating: "`", count: max(3, longestTicks(text) + 1))
        return [fence + language, text, fence].joined(separator: "\n")
    }

    /// A word in a line, as it is.
    static func code(_ text: String) -> String {
        let text = oneLine(text)
        guard !text.isEmpty else { return "-" }
        let ticks = String(repeating: "`", count: longestTicks(text) + 1)
        let pad = text.hasPrefix("`") || text.hasSuffix("`") ? " " : ""
        return ticks + pad + text + pad + ticks
    }

    /// Text in a line: no character of it means anything (https://spec.commonmark.org/0.31.2/#backslash-escapes).
    static func line(_ text: String) -> String {
        oneLine(text).unicodeScalars.reduce(into: "") { line, scalar in
            if "\\`*_[]<>#|~&$".unicodeScalars.contains(scalar) { line += "\\" }
            line.unicodeScalars.append(scalar)
        }
    }

    private static func oneLine(_ text: String) -> String {
        UntrustedText.forTerminal(
            text.unicodeScalars.split { $0.properties.isWhitespace }.map { String($0) }.joined(separator: " "))
    }

    /// Lines as Markdown has them, a carriage return ends one too; fit for a terminal before anybody counts marks in them,
    /// since what is taken out may stand between two.
    private static func lines(of text: String) -> [String] {
        var lines = [[UInt8]()]
        var wasReturn = false
        for byte in text.utf8 {
            if byte == 0x0A || byte == 0x0D {
                if !(byte == 0x0A && wasReturn) { lines.append([]) }
            } else {
                lines[lines.count - 1].append(byte)
            }
            wasReturn = byte == 0x0D
        }
        if lines.count > 1, lines.last?.isEmpty == true { lines.removeLast() }
        return lines.map { UntrustedText.forTerminal(String(decoding: $0, as: UTF8.self)) }
    }

    private static func longestTicks(_ text: String) -> Int {
        var (longest, run) = (0, 0)
        for byte in text.utf8 {
            run = byte == UInt8(ascii: "`") ? run + 1 : 0
            longest = max(longest, run)
        }
        return longest
    }
}
