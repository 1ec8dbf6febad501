@_spi(ChappieInternals) import ChappieCore
import ChappieRuntime
import FoundationEssentials

/// A reader of a session file of the Codex CLI, `$CODEX_HOME/sessions/YYYY/MM/DD/rollout-….jsonl`. It was tried with
/// the files of version 0.163.0.
///
/// It reads the items of the conversation and leaves out events that repeat them. It also leaves out reasoning, because
/// only the account that made it can use it.
struct CodexSession: ThreadForm {
    let source = ChappieThreadImport.Source.codex
    private(set) var leftOut = LeftOut()
    private var lines: ImportLines
    private var lineCount = 0
    private var hasEnded = false
    private var thread: ImportedThread
    private var turn: ImportedThread.Turn?
    private var nextID: String?
    private var model = ""
    /// The time of the latest line.
    private var latest: Date
    /// The number of the first line that belongs to this session, if it begins with a copy of its parent.
    private let start: Int
    /// The messages that occur in events. Most sessions also have them as items.
    private var spoken: [(role: String, text: String, date: Date)] = []
    /// The roles of the messages that occur as items.
    private var roles: Set<String> = []
    /// The tokens that the session used so far, and before the current turn.
    private var usage = (total: [Int](), before: [Int]())

    /// Begins a session.
    ///
    /// - Parameters:
    ///   - first: The line that names the session. Sessions of 2025 have no `payload` in it.
    ///   - fileName: The name of the file, which ends with the session's id, or `nil` if it is unknown.
    init(_ first: ChappieJSON, _ lines: ImportLines, fileName: String?, fileDate: Date) {
        let facts = first["payload"] ?? first
        self.lines = lines
        self.lines.leavesOutDamage = true
        let idOfFile = String((fileName?.split(separator: ".").first ?? "").suffix(36))
        let isID = idOfFile.utf8.count { $0 == UInt8(ascii: "-") } == 4
        thread = ImportedThread(
            id: facts["id"]?.string ?? (isID ? idOfFile : nil), facts: first.serialized())
        start = facts["subagent_history_start_ordinal"]?.int ?? 0
        latest = ImportedThread.time(first["timestamp"] ?? facts["timestamp"]) ?? fileDate
        add(first)
    }

    /// Returns whether the line is the first one of a session.
    static func canBegin(with line: ChappieJSON) -> Bool {
        if line["type"] == nil { return line["id"]?.string != nil && line["timestamp"]?.string != nil }
        let types = ["session_meta", "response_item", "event_msg", "turn_context", "compacted"]
        return line["payload"]?.object != nil && types.contains(line["type"]?.string ?? "")
    }

    mutating func next() throws(ThreadFault) -> ChappieThread? {
        guard !hasEnded else { return nil }
        hasEnded = true
        while let line = try lines.next() { add(line.json) }
        endTurn()
        addSpokenMessages()
        thread.leaveOut("unreadable line", lines.damagedCount)
        if lines.tornLine != nil { thread.leaveOut("half a line at the end") }
        leftOut = thread.leftOut
        return thread.isEmpty ? nil : try thread.thread()
    }

    private mutating func add(_ line: ChappieJSON) {
        defer { lineCount += 1 }
        latest = ImportedThread.time(line["timestamp"]) ?? latest
        guard let type = line["type"]?.string else {
            // Sessions of 2025 have lines about the program without a type, and the first one names the session.
            if lineCount > 0, line["record_type"] == nil { thread.leaveOut("unreadable line") }
            return
        }
        guard lineCount == 0 || (line["ordinal"]?.int ?? lineCount) >= start else {
            if type == "response_item" { thread.leaveOut("message of the parent session") }
            return
        }
        guard let payload = line["payload"] else { return addItem(line) }
        switch type {
        case "turn_context":
            model = payload["model"]?.string ?? model
            nextID = payload["turn_id"]?.string ?? nextID
        case "event_msg": addEvent(payload)
        case "token_usage_record": turn?.usage = Self.usage(Self.counts(payload["turn_token_usage"]))
        case "response_item": addItem(payload)
        case "compacted": addCompaction(payload)
        // These lines describe the program, not the conversation.
        case "session_meta", "world_state": break
        default: thread.leaveOut(type)
        }
    }

    // MARK: Events

    private mutating func addEvent(_ event: ChappieJSON) {
        let type = event["type"]?.string ?? "event"
        switch type {
        case "task_started", "turn_started":
            endTurn()
            nextID = event["turn_id"]?.string
        case "task_complete", "turn_complete": endTurn()
        case "turn_aborted": turn?.isCut = true
        case "error": turn?.error = event["message"]?.string
        case "thread_name_updated": thread.name(event["thread_name"]?.string ?? event["name"]?.string, at: latest)
        case "thread_rolled_back":
            endTurn()
            thread.takeBack(event["num_turns"]?.int ?? 1)
        case "token_count": addTokens(event["info"]?["total_token_usage"])
        case "user_message": spoken.append(("user", event["message"]?.string ?? "", latest))
        case "agent_message": spoken.append(("assistant", event["message"]?.string ?? "", latest))
        default: if !Self.isRepetition(type) { thread.leaveOut("event \(type)") }
        }
    }

    /// Returns whether the event repeats an item, or reports the progress of the program.
    private static func isRepetition(_ type: String) -> Bool {
        let endings = [
            "_begin", "_end", "_delta", "_started", "_completed", "_complete", "_diff", "_configured", "_break",
        ]
        let beginnings = ["agent_", "exec_", "mcp_", "patch_", "web_search", "stream_", "item_", "list_", "plan_"]
        return endings.contains(where: type.hasSuffix) || beginnings.contains(where: type.hasPrefix)
            || ["context_compacted", "shutdown_complete", "background_event", "thread_settings_applied"].contains(type)
    }

    /// Uses the messages in events if the session has no others.
    private mutating func addSpokenMessages() {
        guard roles.isEmpty else {
            for role in ["user", "assistant"] where !roles.contains(role) {
                thread.leaveOut("message in an event", spoken.count { $0.role == role })
            }
            return
        }
        for (role, text, date) in spoken where !text.isEmpty {
            latest = date
            if role == "user" {
                ask(ImportedThread.message(role, text))
            } else {
                take(ImportedThread.message(role, text))
            }
        }
        endTurn()
    }

    private mutating func addTokens(_ json: ChappieJSON?) {
        guard json != nil else { return }
        usage.total = Self.counts(json)
        let counts = usage.before.isEmpty ? usage.total : zip(usage.total, usage.before).map { max($0 - $1, 0) }
        turn?.usage = Self.usage(counts)
    }

    private mutating func addCompaction(_ payload: ChappieJSON) {
        guard let summary = payload["message"]?.string, !summary.isEmpty else {
            return thread.leaveOut("compaction without words")
        }
        // The summary replaces an answer before it, but not a question that has just been asked.
        if turn?.items.isEmpty == false { endTurn() }
        let items: ChappieJSON = [ImportedThread.message("user", summary)]
        thread.add(.compacted, at: latest, ["context": ["items": items, "summary": .string(summary)]])
    }

    // MARK: Items

    private mutating func addItem(_ item: ChappieJSON) {
        let type = item["type"]?.string ?? "item"
        switch (type, item["role"]?.string) {
        case ("message", "user"):
            let parts = CodexQuestion(item)
            for what in parts.leftOut { thread.leaveOut(what) }
            guard !parts.content.isEmpty else { return }
            roles.insert("user")
            ask(ImportedThread.message("user", parts.content))
        case ("message", "assistant"):
            roles.insert("assistant")
            var message = Self.picked(["type", "role", "phase"], item).object ?? [:]
            message["content"] = .array(
                (item["content"]?.array ?? []).compactMap { part in
                    let known = CodexQuestion.part(part)
                    if known == nil { thread.leaveOut(part["type"]?.string ?? "part") }
                    return known
                })
            take(.object(message))
        case ("message", _): thread.leaveOut("instruction of the program")
        case ("function_call", _): take(Self.picked(["type", "name", "namespace", "arguments", "call_id"], item))
        case ("custom_tool_call", _): take(Self.picked(["type", "name", "namespace", "input", "call_id"], item))
        case ("local_shell_call", _):
            take([
                "type": "function_call", "name": "shell", "arguments": .string((item["action"] ?? [:]).serialized()),
                "call_id": item["call_id"] ?? item["id"] ?? "",
            ])
        case ("function_call_output", _), ("custom_tool_call_output", _):
            var output = Self.picked(["type", "call_id"], item).object ?? [:]
            output["output"] = Self.output(item["output"])
            take(.object(output))
        default: thread.leaveOut(type)
        }
    }

    /// Returns the result of a tool as text or as a list of parts. Some versions put it into an object.
    private static func output(_ json: ChappieJSON?) -> ChappieJSON {
        switch json {
        case .string?, .array?: json ?? ""
        case .object? where json?["content"] != nil: output(json?["content"])
        case nil, .null?: ""
        case let other?: .string(other.serialized())
        }
    }

    private mutating func ask(_ message: ChappieJSON) {
        if turn?.items.isEmpty == false { endTurn() }
        beginTurn()
        turn?.messages.append(message)
    }

    /// Adds the model's text or call, or the result of a tool. The model may also speak first.
    private mutating func take(_ item: ChappieJSON) {
        beginTurn()
        turn?.items.append(item)
        turn?.endedAt = latest
    }

    private mutating func beginTurn() {
        if turn == nil { turn = ImportedThread.Turn(id: nextID, model: model, at: latest) }
    }

    private mutating func endTurn() {
        usage.before = usage.total
        guard var ended = turn else { return }
        if ended.model.isEmpty { ended.model = model }
        thread.add(ended)
        turn = nil
        nextID = nil
    }

    private static func picked(_ names: [String], _ json: ChappieJSON) -> ChappieJSON {
        .object(ChappieJSONObject(names.compactMap { name in json[name].map { (name, $0) } }))
    }

    private static func counts(_ json: ChappieJSON?) -> [Int] {
        ["input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens", "total_tokens"].map {
            json?[$0]?.int ?? 0
        }
    }

    private static func usage(_ counts: [Int]) -> ChappieJSON? {
        guard counts.contains(where: { $0 != 0 }) else { return nil }
        let names = ["inputTokens", "cachedInputTokens", "outputTokens", "reasoningTokens", "totalTokens"]
        return .object(ChappieJSONObject(zip(names, counts).map { ($0, .integer($1)) }))
    }
}

/// A message of the user's role in a session of the Codex CLI. The program also sends instructions in that role, and
/// adds text to the user's.
struct CodexQuestion {
    /// The parts that the user wrote.
    private(set) var content: [ChappieJSON] = []
    private(set) var leftOut: [String] = []

    init(_ item: ChappieJSON) {
        let parts = item["content"]?.array ?? []
        let kinds = item["internal_chat_message_metadata_passthrough"]?["content_item_kinds"]?.array ?? []
        let hasPicture = parts.contains { $0["type"]?.string == "input_image" }
        for (index, part) in parts.enumerated() {
            let kind = kinds.indices.contains(index) ? kinds[index].string : nil
            guard let text = part["text"]?.string else {
                let known = Self.part(part)
                if let known { content.append(known) } else { leftOut.append(part["type"]?.string ?? "part") }
                continue
            }
            if hasPicture, Self.isMarkupOfPicture(text) { continue }
            let isTyped = kind.map { $0.hasPrefix("user.") } ?? !Self.isInstruction(text)
            guard isTyped else {
                leftOut.append("instruction of the program")
                continue
            }
            let request = Self.request(in: text)
            if request != text { leftOut.append("context of an editor") }
            content.append(["type": "input_text", "text": .string(request)])
        }
    }

    /// Returns a part as the backend accepts it, or `nil` for an unknown one.
    static func part(_ part: ChappieJSON) -> ChappieJSON? {
        let names: [String]
        switch part["type"]?.string {
        case "input_text", "output_text": names = ["type", "text"]
        case "refusal": names = ["type", "refusal"]
        case "input_image":
            return [
                "type": "input_image", "image_url": part["image_url"] ?? "",
                "detail": .string(part["detail"]?.string ?? "auto"),
            ]
        default: return nil
        }
        return .object(ChappieJSONObject(names.compactMap { name in part[name].map { (name, $0) } }))
    }

    /// Returns whether the program wrote the text. Its texts are within a tag, whose name is that of no tag of HTML.
    private static func isInstruction(_ text: String) -> Bool {
        let text = text.trimmed.lowercased()
        if text.hasPrefix("# agents.md instructions") { return true }
        guard text.first == "<", let end = text.firstIndex(of: ">") else { return false }
        let name = text[..<end].dropFirst()
        let word = name.prefix { !$0.isWhitespace }
        let known = [
            "environment_context", "user_instructions", "instructions", "turn_aborted", "permissions instructions",
            "user_shell_command", "skill", "user_action", "subagent_notification",
        ]
        return known.contains(String(name)) || known.contains(String(word))
            || word.contains("_") && text.hasSuffix("</\(word)>")
    }

    private static func isMarkupOfPicture(_ text: String) -> Bool {
        let text = text.trimmed
        return text == "</image>" || text.hasPrefix("<image") && text.firstIndex(of: ">") == text.indices.last
    }

    /// Returns the user's request. Editors put the names of open files before it.
    private static func request(in text: String) -> String {
        let start = text.drop { $0 == "#" || $0.isWhitespace }
        guard start.hasPrefix("Context from my IDE setup"),
            let mark = text.firstRange(of: "## My request for Codex:")
        else { return text }
        return String(text[mark.upperBound...]).trimmed
    }
}
