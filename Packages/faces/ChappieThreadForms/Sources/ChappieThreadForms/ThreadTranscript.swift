@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieMarkdown
@_spi(ChappieInternals) import ChappieRuntime
import FoundationEssentials

/// A thread for readers, from top to bottom. The Markdown and the page show it.
struct ThreadTranscript {
    enum Entry {
        case turn(Turn)
        /// A shorter conversation replaced the earlier one. The value is `nil` if the shorter one cannot be shown as
        /// text.
        case compaction(String?)
    }

    struct Turn {
        let turn: ChappieTurn
        let steps: [Step]
    }

    enum Step {
        /// A message that the user sent while the turn was running.
        case message(ChappieInputMessage)
        /// The model's text, in Markdown.
        case answer(String)
        /// The model's text on its way to the answer, in Markdown.
        case commentary(String)
        /// The summary of the model's reasoning, in Markdown.
        case reasoning(String)
        case call(Call)
        /// A picture that the service has made.
        case picture(ThreadPicture)
        /// A step of the backend on the web, as a sentence.
        case search(String)
        /// The pages that the answer cites.
        case sources([ChappieSource])
        /// An item of the backend that is not shown, by its kind.
        case other(String)
    }

    struct Call {
        let name: String
        let arguments: String
        /// The text that the model received, or `nil` if there is none.
        let output: String?
        /// The pictures that the model received.
        let pictures: [ThreadPicture]
        /// A remark on the end of a call that did not simply succeed.
        let remark: String?
    }

    let entries: [Entry]

    init(of thread: ChappieThread) {
        let turns = Dictionary(thread.turns.map { ($0.id, $0) }) { first, _ in first }
        var entries: [Entry] = []
        var open: String?
        for record in thread.records where !thread.positionsTakenBack.contains(record.position) {
            switch record.kind {
            case .turnStarted:
                guard let turn = record.turnID.flatMap({ turns[$0] }) else { continue }
                entries.append(.turn(Turn(turn: turn, steps: Self.steps(of: turn))))
                open = turn.id
            case .turnFinished, .turnFailed, .turnInterrupted: if record.turnID == open { open = nil }
            case .compacted:
                // A compaction at the beginning of a turn comes before that turn.
                let place = entries.count - (open == nil ? 0 : 1)
                entries.insert(.compaction(record.body["context"]?["summary"]?.string), at: max(place, 0))
            default: continue
            }
        }
        self.entries = entries
    }

    private static func steps(of turn: ChappieTurn) -> [Step] {
        let items = turn.items.dropFirst(turn.messages.count).map(ChappieOutputItem.init)
        let outputs = Dictionary(
            items.compactMap { item in item.type.hasSuffix("_output") ? item.callID.map { ($0, item.json) } : nil }
        ) { first, _ in first }
        let known = Dictionary(turn.toolCalls.map { ($0.id, $0) }) { _, last in last }
        var steps: [Step] = []
        var shown: Set<String> = []
        var unsent = turn.steeringMessages
        for item in items {
            switch item.type {
            // This message from the program informs the model that the answer was interrupted.
            case "message" where item.json["role"]?.string == "developer": continue
            // Other messages of the user are a compaction's copies.
            case "message" where item.json["role"]?.string == "user":
                guard let index = unsent.firstIndex(where: { $0.inputItem == item.json }) else { continue }
                steps.append(.message(unsent.remove(at: index)))
            case "message" where item.text.isEmpty:
                steps += ChappieResponse(items: [item]).refusals.map { .answer($0) }
            // An answer may consist only of commentary.
            case "message" where item.phase == .commentary && item.text != turn.outputText:
                steps.append(.commentary(item.text))
            case "message": steps.append(.answer(item.text))
            case "reasoning":
                let summary = (item.json["summary"]?.array ?? []).compactMap { $0["text"]?.string }
                if !summary.isEmpty { steps.append(.reasoning(summary.joined(separator: "\n\n"))) }
            case _ where item.isToolCall:
                let id = item.callID ?? ""
                shown.insert(id)
                steps.append(.call(known[id].map(call) ?? call(item, outputs[id])))
            case _ where item.type.hasSuffix("_output"): continue
            case "image_generation_call":
                let picture = ThreadPicture(result: item.json["result"]?.string)
                steps.append(picture.map { .picture($0) } ?? .other(item.type))
            case _ where item.webSearch != nil: steps.append(.search(item.webSearch?.sentence ?? ""))
            case "tool_search_call":
                steps.append(.search("Searched for tools: \(item.json["arguments"]?["query"]?.string ?? "")"))
            default: steps.append(.other(item.type))
            }
        }
        steps += turn.toolCalls.filter { !shown.contains($0.id) }.map { .call(call($0)) }
        steps += unsent.map { .message($0) }
        let answer = steps.reduce(into: "") { answer, step in if case .answer(let text) = step { answer += text } }
        if !answer.hasSuffix(turn.outputText) { steps.append(.answer(turn.outputText)) }
        var response = ChappieResponse(items: items)
        response.toolOutputs = ServiceOutputs(in: turn.items)
        let sources = response.sources
        return sources.isEmpty ? steps : steps + [.sources(sources)]
    }

    private static func call(_ tool: ChappieTurn.ToolCall) -> Call {
        let remark: String? =
            switch tool.result?.outcome {
            case .succeeded: tool.result?.result.isError == true ? "failed" : nil
            case let outcome?: outcome.rawValue
            case nil: tool.hasStarted ? "no result" : "not run"
            }
        let text: [ChappieJSON] = tool.result.map { [["text": .string($0.output)]] } ?? []
        return Call(
            name: tool.call.name, arguments: tool.call.arguments, parts: text + (tool.result?.result.parts ?? []),
            remark: remark)
    }

    private static func call(_ item: ChappieOutputItem, _ output: ChappieJSON?) -> Call {
        let arguments = item.json["arguments"]?.string ?? item.json["input"]?.string ?? ""
        let result = output?["output"]
        return Call(
            name: item.name ?? "", arguments: arguments,
            parts: result?.array ?? result.map { [["text": $0]] } ?? [], remark: output == nil ? "no result" : nil)
    }
}

extension ThreadTranscript.Call {
    /// Creates a call with the parts of its output.
    fileprivate init(name: String, arguments: String, parts: [ChappieJSON], remark: String?) {
        var texts: [String] = []
        var pictures: [ThreadPicture] = []
        for part in parts {
            if let picture = ThreadPicture(part) {
                pictures.append(picture)
            } else {
                texts.append(part["text"]?.string ?? "[\(part["type"]?.string ?? "part")]")
            }
        }
        let text = texts.filter { !$0.isEmpty }.joined(separator: "\n")
        let hasOutput = !parts.isEmpty && !(text.isEmpty && !pictures.isEmpty)
        self.init(
            name: name, arguments: arguments, output: hasOutput ? text : nil, pictures: pictures, remark: remark)
    }
}

extension ChappieTurn {
    /// A remark on how the turn ended, in addition to the answer.
    var remark: String? {
        switch status {
        case .finished where response.isInterrupted: "The answer was interrupted."
        case .finished where incompleteReason == ChappieResponse.lostConnection:
            "The connection broke before the answer was complete."
        case .finished: incompleteReason.map { "The answer ended early: \($0)." }
        case .failed: error ?? "It failed."
        case .interrupted: "It was interrupted."
        case .waitingForApproval: "It waits for an approval."
        case .running: "It has no end yet."
        default: status.rawValue
        }
    }
}

extension ChappieInputMessage.Part {
    /// The text for an image or a file that cannot be shown.
    var placeholder: String {
        switch self {
        case .text(let text): text
        case .image(let image):
            switch image.source {
            case .url(let url): "image: " + Self.name(of: url)
            case .fileID(let id): "image: " + id
            }
        case .file(let file):
            switch file.source {
            case .data(let url): "file: " + [file.name, Self.name(of: url)].compactMap { $0 }.joined(separator: ", ")
            case .url(let url): "file: " + [file.name, Self.name(of: url)].compactMap { $0 }.joined(separator: ", ")
            case .fileID(let id): "file: " + (file.name ?? id)
            }
        case .other(let json): json["type"]?.string ?? "part"
        }
    }

    /// Returns an address. If the address contains its content (`data:`), the result is only the kind and the size.
    private static func name(of url: String) -> String {
        guard url.utf8.prefix(5).elementsEqual("data:".utf8) else { return String(url.prefix(2000)) }
        let type = url.utf8.dropFirst(5).prefix { $0 != UInt8(ascii: ";") && $0 != UInt8(ascii: ",") }.prefix(100)
        return "\(String(Substring(type))), \(max(1, url.utf8.count / 1366)) KB"
    }
}

extension [ChappieSource] {
    /// A numbered list in Markdown. Its text comes from the model and the pages.
    var markdown: String {
        let lines = enumerated().map { index, source in
            "\(index + 1). \(source.title.map { SafeMarkdown.line($0) + ": " } ?? "")\(SafeMarkdown.address(source.url))"
        }
        return "Sources:\n\n" + lines.joined(separator: "\n")
    }
}

extension Date {
    /// The date to the second, in UTC: 2026-11-22T12:17:34Z.
    var timestamp: String { formatted(Date.ISO8601FormatStyle()) }

    /// The date to the minute in the machine's time zone, with its offset: 2026-11-22 12:17 +0100.
    var minute: String { local("%Y-%m-%d %H:%M %z") }
}
