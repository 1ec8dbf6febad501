@_spi(ChappieInternals) import ChappieCore
import ChappieMarkdown
import FoundationEssentials

/// The turns of a branch of ChatGPT's export. Each message of the branch is added in order.
struct ChatGPTTurns {
    private var thread: ImportedThread
    private var turn: ImportedThread.Turn?
    private let model: String
    /// The calls without a result so far.
    private var calls: [(id: String, tool: String)] = []
    /// The time of the latest message.
    private(set) var latest: Date

    /// Creates a branch without messages.
    ///
    /// - Parameter model: The model of answers that name none.
    init(_ thread: ImportedThread, model: String, begun: Date) {
        self.thread = thread
        self.model = model
        latest = begun
    }

    mutating func finished() -> ImportedThread {
        endTurn()
        return thread
    }

    mutating func add(_ message: ChappieJSON) {
        guard message != .null else { return }
        latest = ImportedThread.time(message["create_time"]) ?? latest
        let isHidden = message["metadata"]?["is_visually_hidden_from_conversation"]?.bool == true
        let isForAll = ["all", nil].contains(message["recipient"]?.string)
        switch message["author"]?["role"]?.string {
        case "user" where !isHidden: addQuestion(message)
        case "assistant" where !isForAll: addCall(message)
        case "assistant" where !isHidden: addAnswer(message)
        case "tool": addResult(message)
        // These messages describe the program and the user's settings, not the conversation.
        default: if !ChatGPTContent(message).isEmpty { thread.leaveOut("instruction of the program") }
        }
        for name in ["chatgpt_sdk", "tool_response_metadata", "venus_widget_state"] {
            guard let report = Self.report(in: message["metadata"]?[name]) else { continue }
            answer(ChatGPTContent(report).text, report)
            break
        }
    }

    /// Returns the research report in the data of a program that the page shows, or `nil` if there is none. Its place
    /// differs between versions, and the data may be JSON text.
    private static func report(in json: ChappieJSON?, depth: Int = 0) -> ChappieJSON? {
        let json = json?.string.flatMap { try? ChappieJSON(parsing: $0) } ?? json
        guard depth < 5, let members = json?.object?.members else { return nil }
        if let report = json?["report_message"], report.object != nil { return report }
        return members.lazy.compactMap { report(in: $0.value, depth: depth + 1) }.first
    }

    private mutating func endTurn() {
        if let turn { thread.add(turn) }
        turn = nil
        calls = []
    }

    // MARK: Questions and answers

    private mutating func addQuestion(_ message: ChappieJSON) {
        let content = ChatGPTContent(message)
        guard !content.isSetting else { return thread.leaveOut("instruction of the program") }
        thread.leaveOut("attachment", content.attachments.count)
        let question = ImportedThread.question([content.quotation] + content.attachments, take(content))
        if turn?.items.isEmpty == false { endTurn() }
        beginTurn(message)
        if question["content"]?.array?.isEmpty == false {
            turn?.messages.append(question)
        } else {
            thread.leaveOut("question without text")
        }
        turn?.endedAt = latest
    }

    private mutating func addAnswer(_ message: ChappieJSON) {
        let content = ChatGPTContent(message)
        guard !content.isReasoning, !content.isSetting else { return thread.leaveOut(content.kind) }
        answer(take(content), message)
    }

    /// Adds the model's text. A conversation may begin with it.
    private mutating func answer(_ text: String, _ message: ChappieJSON) {
        guard !text.isEmpty else { return }
        beginTurn(message)
        let (resolved, missing) = ChatGPTCitations.resolved(text, message["metadata"])
        thread.leaveOut("citation without a link", missing)
        turn?.items.append(ImportedThread.message("assistant", resolved))
        turn?.endedAt = latest
        if let model = message["metadata"]?["model_slug"]?.string { turn?.model = model }
    }

    private mutating func beginTurn(_ message: ChappieJSON) {
        if turn == nil { turn = ImportedThread.Turn(id: message["id"]?.string, model: model, at: latest) }
    }

    /// Returns the text of the message, and counts what else it has.
    private mutating func take(_ content: ChatGPTContent) -> String {
        for kind in content.otherParts { thread.leaveOut(kind) }
        guard content.text.isEmpty, content.hasPicture, content.attachments.isEmpty else { return content.text }
        return "[image]"
    }

    // MARK: Tools

    private mutating func addCall(_ message: ChappieJSON) {
        let content = ChatGPTContent(message)
        let tool = message["recipient"]?.string ?? ""
        for kind in content.otherParts { thread.leaveOut(kind) }
        if tool.hasPrefix("canmore.") { return answer(Self.document(content.plainText), message) }
        beginTurn(message)
        let id = message["id"]?.string ?? "call-\(turn?.items.count ?? 0)"
        calls.append((id, tool))
        turn?.items.append([
            "type": "function_call", "name": .string(Self.name(tool)), "arguments": .string(content.plainText),
            "call_id": .string(id),
        ])
        turn?.endedAt = latest
    }

    private mutating func addResult(_ message: ChappieJSON) {
        let content = ChatGPTContent(message)
        // A research report is a result that the user reads as an answer.
        if message["metadata"]?["is_async_task_result_message"]?.bool == true { return answer(take(content), message) }
        for kind in content.otherParts { thread.leaveOut(kind) }
        let tool = message["author"]?["name"]?.string
        if let index = calls.firstIndex(where: { $0.tool == tool }) ?? calls.indices.first {
            let call = calls.remove(at: index)
            turn?.items.append([
                "type": "function_call_output", "call_id": .string(call.id), "output": .string(content.plainText),
            ])
            turn?.endedAt = latest
        } else if !addToLastResult(content.plainText, of: tool) {
            thread.leaveOut("tool result")
        }
        if content.hasPicture { answer("[image]", message) }
    }

    /// Adds text to the result of the last call, if the same tool gave that result in several messages.
    private mutating func addToLastResult(_ text: String, of tool: String?) -> Bool {
        guard !text.isEmpty, let items = turn?.items, let last = items.last?.object,
            last["type"]?.string == "function_call_output",
            items.contains(where: { $0["call_id"] == last["call_id"] && $0["name"]?.string == tool.map(Self.name) })
        else { return false }
        var result = last
        result["output"] = .string((last["output"]?.string ?? "") + "\n" + text)
        turn?.items[items.count - 1] = .object(result)
        return true
    }

    /// Returns the tool's name with the characters that a function's name may have.
    private static func name(_ tool: String) -> String {
        String(decoding: tool.utf8.prefix(64).map { $0.isASCIIAlphanumeric ? $0 : UInt8(ascii: "_") }, as: UTF8.self)
    }

    /// Returns the text of a document that the model wrote next to the conversation, or the changes and comments that
    /// it made. The argument is returned if it has an unknown form.
    private static func document(_ arguments: String) -> String {
        guard let json = try? ChappieJSON(parsing: arguments) else { return arguments }
        let changes = (json["updates"]?.array ?? []) + (json["comments"]?.array ?? [])
        let texts = [json["content"]?.string] + changes.map { $0["replacement"]?.string ?? $0["comment"]?.string }
        let text = texts.compactMap(\.self).joined(separator: "\n\n")
        guard !text.isEmpty else { return arguments }
        return json["name"]?.string.map { "**\(SafeMarkdown.line($0))**\n\n\(text)" } ?? text
    }
}

/// The content of a message of ChatGPT's export.
struct ChatGPTContent {
    let kind: String
    /// The text without marks for code.
    let plainText: String
    /// The kinds of the parts without text.
    private(set) var otherParts: [String] = []
    /// The names of the attached files, in brackets.
    let attachments: [String]
    /// The part of an earlier answer that the question is about.
    let quotation: String
    private let language: String

    init(_ message: ChappieJSON) {
        let content = message["content"]
        kind = content?["content_type"]?.string ?? "text"
        language = content?["language"]?.string ?? ""
        var texts: [String] = []
        for part in content?["parts"]?.array ?? [] {
            if let text = part.string ?? part["text"]?.string ?? part["content"]?.string {
                texts.append(text)
            } else {
                otherParts.append(part["content_type"]?.string ?? "attachment")
            }
        }
        // Code, quoted pages, output of programs and errors have their text in other members.
        let terms = ["content_type", "language", "response_format_name", "source_analysis_msg_id", "tether_id"]
        for member in content?.object?.members ?? [] where !terms.contains(member.name) {
            if let text = member.value.string { texts.append(text) }
        }
        plainText = texts.filter { !$0.isEmpty }.joined(separator: "\n")
        let files = message["metadata"]?["attachments"]?.array ?? []
        attachments = files.map { "[\($0["name"]?.string ?? $0["id"]?.string ?? "attachment")]" }
        let reply = message["metadata"]?["targeted_reply"]?.string ?? ""
        quotation = reply.split(separator: "\n").map { "> \($0)\n" }.joined()
    }

    /// The text in Markdown.
    var text: String {
        guard kind == "code", !plainText.isEmpty else { return plainText }
        return SafeMarkdown.fenced(plainText, language.utf8.allSatisfy(\.isASCIIAlphanumeric) ? language : "")
    }

    var isEmpty: Bool { plainText.isEmpty && otherParts.isEmpty && attachments.isEmpty }
    var hasPicture: Bool { otherParts.contains { $0.hasPrefix("image") } }
    var isReasoning: Bool { ["thoughts", "reasoning_recap"].contains(kind) }
    /// Whether this is the user's profile or the model's memory.
    var isSetting: Bool { kind.hasSuffix("_editable_context") }
}
