@_spi(ChappieInternals) import ChappieCore
import ChappieRuntime
import FoundationEssentials

/// The turns of a session of the Codex CLI. Each line of the session is added in order.
struct CodexTurns {
    private var thread: ImportedThread
    private var turn: ImportedThread.Turn?
    private var nextID: String?
    private var model = ""
    /// The time of the latest line.
    private var latest: Date
    private var lineCount = 0
    /// The number of the first line that belongs to this session, if it begins with a copy of its parent.
    private let start: Int
    /// The tokens that the session used so far, and before the current turn.
    private var usage = (total: [Int](), before: [Int]())
    /// The roles of the messages that occur as items.
    private var roles: Set<String> = []
    /// The number of messages in events, by their roles. Most sessions also have them as items.
    private var spoken: [String: Int] = [:]
    /// The types of the events that are read as messages.
    private var messageEvents: Set<String> = []

    init(_ thread: ImportedThread, start: Int, begun: Date) {
        self.thread = thread
        self.start = start
        latest = begun
    }

    /// Whether the session has messages as items.
    var hasMessages: Bool { !roles.isEmpty }

    /// Returns the same session without lines so far, whose messages are read from events.
    func readingEvents(of lines: [ChappieJSON]) -> Self {
        var turns = self
        let types = Set(lines.compactMap { $0["payload"]?["type"]?.string })
        let known: Set = ["user_message", "agent_message"]
        // The events for programs with a window repeat the older ones.
        turns.messageEvents = known.isDisjoint(with: types) ? ["item_completed"] : known
        return turns
    }

    mutating func finished() -> ImportedThread {
        endTurn()
        for role in ["user", "assistant"] where hasMessages && !roles.contains(role) {
            thread.leaveOut("message in an event", spoken[role] ?? 0)
        }
        thread.changedAt = latest
        return thread
    }

    mutating func add(_ line: ChappieJSON) {
        defer { lineCount += 1 }
        latest = ImportedThread.time(line["timestamp"]) ?? latest
        guard let type = line["type"]?.string else {
            // Sessions of 2025 have lines about the program without a type, and the first one names the session.
            if lineCount > 0, line["record_type"] == nil { thread.leftOut.add(damage: "unreadable line") }
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
        case "error" where turn != nil: turn?.error = event["message"]?.string
        case "thread_name_updated": thread.name(event["thread_name"]?.string ?? event["name"]?.string, at: latest)
        case "thread_rolled_back":
            endTurn()
            thread.takeBack(event["num_turns"]?.int ?? 1)
        case "token_count": addTokens(event["info"]?["total_token_usage"])
        case "user_message": addSpoken("user", event["message"]?.string, event["images"]?.array ?? [], of: type)
        case "agent_message": addSpoken("assistant", event["message"]?.string, of: type)
        case "item_completed": addCompleted(event["item"])
        default: if !Self.isRepetition(type) { thread.leaveOut("event \(type)") }
        }
    }

    private mutating func addCompleted(_ item: ChappieJSON?) {
        let role: String
        switch item?["type"]?.string {
        case "UserMessage", "user_message": role = "user"
        case "AgentMessage", "agent_message": role = "assistant"
        default: return
        }
        let texts = (item?["content"]?.array ?? []).compactMap { $0["text"]?.string }
        addSpoken(role, item?["text"]?.string ?? texts.joined(separator: "\n"), of: "item_completed")
    }

    /// Adds a message in an event, if the session has it only there.
    private mutating func addSpoken(_ role: String, _ text: String?, _ pictures: [ChappieJSON] = [], of type: String) {
        guard let text, !text.isEmpty || !pictures.isEmpty else { return }
        if type != "item_completed" { spoken[role, default: 0] += 1 }
        guard messageEvents.contains(type) else { return }
        if role == "user" {
            let parts = pictures.map { ["type": "input_image", "image_url": $0] as ChappieJSON }
            addQuestion(
                ImportedThread.message(
                    role, parts + (text.isEmpty ? [] : [["type": "input_text", "text": .string(text)]])))
        } else {
            take(ImportedThread.message(role, text))
        }
    }

    /// Returns whether the event repeats an item, or reports the progress of the program.
    private static func isRepetition(_ type: String) -> Bool {
        let endings = [
            "_begin", "_end", "_delta", "_started", "_completed", "_complete", "_diff", "_configured", "_break",
        ]
        let beginnings = ["agent_", "exec_", "mcp_", "patch_", "web_search", "stream_", "item_", "list_", "plan_"]
        return endings.contains(where: type.hasSuffix) || beginnings.contains(where: type.hasPrefix)
            || ["context_compacted", "background_event", "thread_settings_applied"].contains(type)
    }

    private mutating func addTokens(_ json: ChappieJSON?) {
        guard json?.object != nil else { return }
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
        case ("message", "user"): if addQuestion(item) { roles.insert("user") }
        case ("message", "assistant"):
            roles.insert("assistant")
            var message = Self.picked(["type", "role", "phase"], item)
            message["content"] = .array(
                (item["content"]?.array ?? []).compactMap { part in
                    let known = CodexQuestion.part(part)
                    if known == nil { thread.leaveOut(part["type"]?.string ?? "part") }
                    return known
                })
            take(.object(message))
        case ("message", _): thread.leaveOut("instruction of the program")
        case ("function_call", _), ("custom_tool_call", _):
            take(.object(Self.picked(["type", "name", "namespace", "arguments", "input", "call_id"], item)))
        case ("local_shell_call", _):
            take([
                "type": "function_call", "name": "shell", "arguments": .string((item["action"] ?? [:]).serialized()),
                "call_id": .string(item["call_id"]?.string ?? item["id"]?.string ?? ""),
            ])
        case ("function_call_output", _), ("custom_tool_call_output", _), ("local_shell_call_output", _):
            var output = Self.picked(["type", "call_id"], item)
            if type == "local_shell_call_output" { output["type"] = "function_call_output" }
            output["output"] = Self.output(item["output"])
            take(.object(output))
        case ("image_generation_call", _):
            let bytes = item["result"]?.string.flatMap { Data(base64Encoded: $0) }
            guard let picture = bytes.flatMap({ ImportedThread.picture(Array($0)) }) else {
                return thread.leaveOut(type)
            }
            let id = item["id"]?.string ?? "picture-\(lineCount)"
            for item in ImportedThread.drawing([picture], item["revised_prompt"]?.string, id: id) { take(item) }
        default: thread.leaveOut(type)
        }
    }

    /// Adds the user's question. It returns `false` for a message of the program.
    @discardableResult private mutating func addQuestion(_ item: ChappieJSON) -> Bool {
        let question = CodexQuestion(item)
        for what in question.leftOut { thread.leaveOut(what) }
        guard !question.content.isEmpty else { return false }
        if turn?.items.isEmpty == false { endTurn() }
        beginTurn()
        turn?.messages.append(ImportedThread.message("user", question.content))
        return true
    }

    /// Adds the model's text or call, or the result of a tool. A session may begin with it.
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

    /// Returns the result of a tool as text or as a list of parts. Some versions put it into an object.
    private static func output(_ json: ChappieJSON?) -> ChappieJSON {
        switch json {
        case .string?, .array?: json ?? ""
        case .object? where json?["content"] != nil: output(json?["content"])
        case nil, .null?: ""
        case let other?: .string(other.serialized())
        }
    }

    private static func picked(_ names: [String], _ json: ChappieJSON) -> ChappieJSONObject {
        ChappieJSONObject(names.compactMap { name in json[name].map { (name, $0) } })
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
