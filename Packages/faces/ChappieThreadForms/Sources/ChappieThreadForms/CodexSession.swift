@_spi(ChappieInternals) import ChappieCore
import ChappieRuntime

/// A reader of a session file of the Codex CLI, `$CODEX_HOME/sessions/YYYY/MM/DD/rollout-….jsonl`. It was tried with
/// the files of version 0.163.0.
///
/// It reads the items of the conversation and leaves out events that repeat them. It also leaves out reasoning, because
/// only the account that made it can use it.
struct CodexSession {
    private var thread: ImportedThread
    private var turn: ImportedThread.Turn?
    private var nextID: String?
    private var model = ""

    /// Begins a session.
    ///
    /// - Parameter first: the line that names the session.
    init(_ first: (line: Int, json: ChappieJSON)) throws(ThreadFault) {
        guard let id = first.json["payload"]?["id"]?.string, let thread = ImportedThread(id: id) else {
            throw .line(first.line, "it names no session")
        }
        self.thread = thread
        try add(first)
    }

    mutating func add(_ line: (line: Int, json: ChappieJSON)) throws(ThreadFault) {
        guard let type = line.json["type"]?.string, let payload = line.json["payload"],
            let date = ImportedThread.date(line.json["timestamp"]?.string)
        else { throw .line(line.line, "it has no type, no time or no content") }
        add(type, payload, at: date)
    }

    mutating func finished() throws(ThreadFault) -> ChappieThreadImport {
        endTurn()
        return ChappieThreadImport(
            source: .codex, threads: thread.isEmpty ? [] : [try thread.thread()], leftOut: thread.skipped)
    }

    private mutating func add(_ type: String, _ payload: ChappieJSON, at date: Date) {
        switch type {
        case "turn_context":
            model = payload["model"]?.string ?? model
            nextID = payload["turn_id"]?.string ?? nextID
        case "event_msg":
            switch payload["type"]?.string {
            case "task_started", "turn_started":
                endTurn()
                nextID = payload["turn_id"]?.string
            case "task_complete", "turn_complete": endTurn()
            case "turn_aborted": turn?.isCut = true
            case "error": turn?.error = payload["message"]?.string
            default: break
            }
        case "token_usage_record": turn?.usage = Self.usage(payload["turn_token_usage"])
        case "response_item": add(payload, at: date)
        case "compacted":
            guard let summary = payload["message"]?.string, !summary.isEmpty else {
                return thread.skip("compaction without words")
            }
            let items: ChappieJSON = [ImportedThread.message("user", summary)]
            thread.add(.compacted, at: date, ["context": ["items": items, "summary": .string(summary)]])
        // These lines describe the program, not the conversation.
        case "session_meta", "world_state": break
        default: thread.skip(type)
        }
    }

    private mutating func add(_ item: ChappieJSON, at date: Date) {
        let type = item["type"]?.string ?? "item"
        switch (type, item["role"]?.string) {
        case ("message", "user"):
            guard Self.isTyped(item) else { return thread.skip("instruction of the program") }
            if turn?.items.isEmpty == false { endTurn() }
            if turn == nil { turn = ImportedThread.Turn(id: nextID, model: model, at: date) }
            turn?.messages.append(
                ImportedThread.message("user", (item["content"]?.array ?? []).compactMap(Self.part)))
        case ("message", "assistant"):
            var message = Self.picked(["type", "role", "phase"], item).object ?? [:]
            message["content"] = .array((item["content"]?.array ?? []).compactMap(Self.part))
            take(.object(message), at: date)
        case ("message", _): thread.skip("instruction of the program")
        case ("function_call", _):
            take(Self.picked(["type", "name", "namespace", "arguments", "call_id"], item), at: date)
        case ("custom_tool_call", _):
            take(Self.picked(["type", "name", "namespace", "input", "call_id"], item), at: date)
        case ("function_call_output", _), ("custom_tool_call_output", _):
            take(Self.picked(["type", "call_id", "output"], item), at: date)
        default: thread.skip(type)
        }
    }

    private mutating func take(_ item: ChappieJSON, at date: Date) {
        guard turn != nil else { return thread.skip("answer without a question") }
        turn?.items.append(item)
        turn?.endedAt = date
    }

    private mutating func endTurn() {
        guard var ended = turn else { return }
        if ended.model.isEmpty { ended.model = model }
        thread.add(ended)
        turn = nil
        nextID = nil
    }

    /// Returns whether the user wrote this message of the user's role. The program also sends instructions in that
    /// role.
    private static func isTyped(_ item: ChappieJSON) -> Bool {
        let kinds = item["internal_chat_message_metadata_passthrough"]?["content_item_kinds"]?.array
        if let kinds { return kinds.contains { $0.string?.hasPrefix("user.") == true } }
        let text = item["content"]?[0]?["text"]?.string ?? ""
        let marks = [
            "<environment_context>", "<user_instructions>", "<INSTRUCTIONS>", "<turn_aborted>",
            "# AGENTS.md instructions",
        ]
        return !marks.contains(where: text.hasPrefix)
    }

    private static func part(_ part: ChappieJSON) -> ChappieJSON? {
        switch part["type"]?.string {
        case "input_text", "output_text": picked(["type", "text"], part)
        case "input_image":
            .object(
                ChappieJSONObject([
                    ("type", "input_image"), ("image_url", part["image_url"] ?? ""),
                    ("detail", part["detail"]?.string.map { .string($0) } ?? "auto"),
                ]))
        default: nil
        }
    }

    private static func picked(_ names: [String], _ json: ChappieJSON) -> ChappieJSON {
        .object(ChappieJSONObject(names.compactMap { name in json[name].map { (name, $0) } }))
    }

    private static func usage(_ json: ChappieJSON?) -> ChappieJSON? {
        guard let json else { return nil }
        let counts = [
            ("inputTokens", "input_tokens"), ("cachedInputTokens", "cached_input_tokens"),
            ("outputTokens", "output_tokens"), ("reasoningTokens", "reasoning_output_tokens"),
            ("totalTokens", "total_tokens"),
        ]
        return .object(ChappieJSONObject(counts.map { ($0.0, .integer(json[$0.1]?.int ?? 0)) }))
    }
}
