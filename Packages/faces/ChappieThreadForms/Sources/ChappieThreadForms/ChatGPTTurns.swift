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
    private let assets: ChatGPTAssets
    /// The number of bytes that further pictures may have. A conversation is in memory as a whole.
    private var room = 100 << 20

    /// Creates a branch without messages.
    ///
    /// - Parameters:
    ///   - model: The model of answers that name none.
    ///   - assets: The files that messages name.
    init(_ thread: ImportedThread, model: String, begun: Date, _ assets: ChatGPTAssets) {
        self.thread = thread
        self.model = model
        self.assets = assets
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
        let pictures = takePictures(content)
        let kept = Set(pictures.compactMap { ChatGPTAssets.id(in: $0.pointer) })
        let attachments = content.attachments.filter { $0.id.map { !kept.contains($0) } ?? true }
        thread.leaveOut("attachment", attachments.count)
        let isOnlyMissing = content.hasPicture && pictures.isEmpty && content.attachments.isEmpty
        let text = content.text.isEmpty && isOnlyMissing ? "[image]" : content.text
        let question = ImportedThread.question([content.quotation] + attachments.map(\.name), text)
        let parts = pictures.map(\.part) + (question["content"]?.array ?? [])
        if turn?.items.isEmpty == false { endTurn() }
        beginTurn(message)
        if !parts.isEmpty {
            turn?.messages.append(ImportedThread.message("user", parts))
        } else {
            thread.leaveOut("question without text")
        }
        turn?.endedAt = latest
    }

    private mutating func addAnswer(_ message: ChappieJSON) {
        let content = ChatGPTContent(message)
        guard !content.isReasoning, !content.isSetting else { return thread.leaveOut(content.kind) }
        let pictures = takePictures(content)
        draw(pictures, message)
        answer(content.text.isEmpty && content.hasPicture && pictures.isEmpty ? "[image]" : content.text, message)
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

    // MARK: Pictures

    private typealias Picture = (pointer: String, prompt: String?, part: ChappieJSON)

    /// Returns the pictures of the message that the export has, and counts what else the message has.
    private mutating func takePictures(_ content: ChatGPTContent) -> [Picture] {
        var pictures: [Picture] = []
        for other in content.otherParts {
            guard let pointer = other.pointer, let bytes = assets.bytes(of: pointer), bytes.count <= room,
                let part = ImportedThread.picture(bytes)
            else {
                thread.leaveOut(other.kind)
                continue
            }
            room -= bytes.count
            pictures.append((pointer, other.prompt, part))
        }
        return pictures
    }

    /// Adds pictures of the model that no tool of the export has returned.
    private mutating func draw(_ pictures: [Picture], _ message: ChappieJSON) {
        guard let first = pictures.first else { return }
        beginTurn(message)
        let id = message["id"]?.string ?? "picture-\(turn?.items.count ?? 0)"
        turn?.items += ImportedThread.drawing(pictures.map(\.part), first.prompt, id: id)
        turn?.endedAt = latest
    }

    // MARK: Tools

    private mutating func addCall(_ message: ChappieJSON) {
        let content = ChatGPTContent(message)
        let tool = message["recipient"]?.string ?? ""
        for other in content.otherParts { thread.leaveOut(other.kind) }
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
        let pictures = takePictures(content)
        if message["metadata"]?["is_async_task_result_message"]?.bool == true {
            draw(pictures, message)
            return answer(content.text, message)
        }
        let tool = message["author"]?["name"]?.string
        if let index = calls.firstIndex(where: { $0.tool == tool }) ?? calls.indices.first {
            let call = calls.remove(at: index)
            turn?.items.append([
                "type": "function_call_output", "call_id": .string(call.id),
                "output": ImportedThread.output(content.plainText, pictures.map(\.part)),
            ])
            turn?.endedAt = latest
        } else if pictures.isEmpty {
            if !addToLastResult(content.plainText, of: tool) { thread.leaveOut("tool result") }
        } else {
            draw(pictures, message)
        }
        if content.hasPicture, pictures.isEmpty { answer("[image]", message) }
    }

    /// Adds text to the result of the last call, if the same tool gave that result in several messages.
    private mutating func addToLastResult(_ text: String, of tool: String?) -> Bool {
        guard !text.isEmpty, let items = turn?.items, let last = items.last?.object, last["output"]?.array == nil,
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
    /// The parts without text: their kinds, the addresses of their files, and the prompts of pictures of the model.
    private(set) var otherParts: [(kind: String, pointer: String?, prompt: String?)] = []
    /// The names of the attached files, in brackets, and their ids.
    let attachments: [(name: String, id: String?)]
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
                otherParts.append(
                    (
                        part["content_type"]?.string ?? "attachment", part["asset_pointer"]?.string,
                        part["metadata"]?["dalle"]?["prompt"]?.string
                    ))
            }
        }
        // Code, quoted pages, output of programs and errors have their text in other members.
        let terms = ["content_type", "language", "response_format_name", "source_analysis_msg_id", "tether_id"]
        for member in content?.object?.members ?? [] where !terms.contains(member.name) {
            if let text = member.value.string { texts.append(text) }
        }
        plainText = texts.filter { !$0.isEmpty }.joined(separator: "\n")
        let files = message["metadata"]?["attachments"]?.array ?? []
        attachments = files.map { file in
            let id = file["id"]?.string
            return ("[\(file["name"]?.string ?? id ?? "attachment")]", id.flatMap(ChatGPTAssets.id))
        }
        let reply = message["metadata"]?["targeted_reply"]?.string ?? ""
        quotation = reply.split(separator: "\n").map { "> \($0)\n" }.joined()
    }

    /// The text in Markdown.
    var text: String {
        guard kind == "code", !plainText.isEmpty else { return plainText }
        return SafeMarkdown.fenced(plainText, language.utf8.allSatisfy(\.isASCIIAlphanumeric) ? language : "")
    }

    var isEmpty: Bool { plainText.isEmpty && otherParts.isEmpty && attachments.isEmpty }
    var hasPicture: Bool { otherParts.contains { $0.kind.hasPrefix("image") } }
    var isReasoning: Bool { ["thoughts", "reasoning_recap"].contains(kind) }
    /// Whether this is the user's profile or the model's memory.
    var isSetting: Bool { kind.hasSuffix("_editable_context") }
}
