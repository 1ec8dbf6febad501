@_spi(ChappieInternals) import ChappieCore
import ChappieRuntime
import FoundationEssentials

/// A reader of the log database of the program `llm` (`llm logs path`). It was tried with the databases of versions
/// 0.19, 0.27.1 and 0.36. In the first versions, a log is a table of responses without conversations. Up to some version
/// before 0.36, it is a list of responses in conversations. Since then it is a tree of messages, and older responses
/// stay in the list.
struct LLMLog: ThreadForm {
    let source = ChappieThreadImport.Source.llm
    private(set) var leftOut = LeftOut()
    private var conversations: ArraySlice<Conversation> = []
    private let file: LLMDatabase
    /// The date for responses without a time.
    private let fileDate: Date
    /// The contents of fragments by their ids and hashes.
    private var fragments: [String: String] = [:]
    /// The names of attached files by their ids, in brackets.
    private var attachments: [String: String] = [:]
    /// The number of pictures of the model so far.
    private var drawingCount = 0

    init(_ path: String, fileDate: Date) throws(ThreadFault) {
        file = try LLMDatabase(path)
        self.fileDate = fileDate
        var isKnown = false
        for table in Self.lists + ["turns"] where try file.has(table) { isKnown = true }
        guard isKnown else { throw .unknown }
        for row in rows(of: "fragments") {
            for name in [row["id"], row["hash"]] { if let name { fragments[name] = row["content"] } }
        }
        for row in rows(of: "attachments", "id, type, path, url") {
            let name = (row["path"] ?? row["url"])?.split(separator: "/").last.map { String($0) }
            let kind = row["type"]?.hasPrefix("image/") == true ? "image" : "attachment"
            if let id = row["id"] { attachments[id] = "[\(name ?? kind)]" }
        }
        var all = responses()
        let places = Dictionary(all.enumerated().map { ($1.id, $0) }) { first, _ in first }
        for tree in messageTrees() {
            if let index = places[tree.id] {
                all[index].add(tree)
            } else {
                all.append(tree)
            }
        }
        conversations = all[...]
    }

    mutating func next() throws(ThreadFault) -> ChappieThread? {
        while let conversation = conversations.popFirst() {
            var thread = ImportedThread(id: conversation.id, facts: "")
            if let first = conversation.turns.first { thread.name(conversation.name, at: first.startedAt) }
            var room = Self.pictureRoom
            for turn in conversation.turns {
                var turn = turn
                turn.messages = turn.messages.map { completed($0, &room) }
                turn.items = turn.items.flatMap { drawn($0, &room) }
                thread.add(turn)
            }
            leftOut.add(thread.leftOut)
            leftOut.add(conversation.leftOut)
            do throws(ThreadFault) {
                if !thread.isEmpty { return try thread.thread() }
            } catch {
                leftOut.add(damage: "damaged conversation \(conversation.id.prefix(60)), because \(error.reason)")
            }
        }
        return nil
    }

    /// Returns the rows of a table, or none if the table is missing. A table that cannot be read is counted.
    private mutating func rows(
        of table: String, _ columns: String = "*", by order: String = "rowid"
    ) -> [[String: String]] {
        do throws(ThreadFault) {
            guard try file.has(table) else { return [] }
            return try file.rows("SELECT \(columns) FROM \(table) ORDER BY \(order)", of: table)
        } catch {
            leftOut.add(damage: "unreadable table \(table)")
            return []
        }
    }

    // MARK: Attachments

    /// The largest number of bytes of the pictures in a conversation, which is in memory as a whole.
    private static let pictureRoom = 100 << 20

    /// Returns a part that stands for an attachment until its conversation is returned. Only then its content is read.
    private func attachment(_ id: String?) -> ChappieJSON {
        let name = id.flatMap { attachments[$0] } ?? "[attachment]"
        return ["type": "attachment", "id": .string(id ?? ""), "text": .string(name + "\n")]
    }

    /// Returns a message or an output with its attachments. The log has the bytes of some pictures. Other attachments
    /// become their names, and are counted.
    private mutating func completed(_ item: ChappieJSON, _ room: inout Int) -> ChappieJSON {
        guard var object = item.object else { return item }
        for member in ["content", "output"] {
            guard let parts = object[member]?.array else { continue }
            object[member] = .array(
                parts.map { part in
                    guard part["type"] == "attachment" else { return part }
                    let bytes = file.attachment(
                        part["id"]?.string ?? "", limit: min(ChatGPTAssets.pictureLimit, room))
                    if let bytes, let picture = ImportedThread.picture(bytes) {
                        room -= bytes.count
                        return picture
                    }
                    leftOut.add("attachment")
                    return ["type": "input_text", "text": part["text"] ?? ""]
                })
        }
        return .object(object)
    }

    /// Returns the items for an item with attachments. The model itself can only say text, so its pictures are drawings.
    private mutating func drawn(_ item: ChappieJSON, _ room: inout Int) -> [ChappieJSON] {
        let item = completed(item, &room)
        guard item["role"] == "assistant", let part = item["content"]?.array?.first else { return [item] }
        switch part["type"] {
        case "input_image":
            drawingCount += 1
            return ImportedThread.drawing([part], nil, id: "picture-\(drawingCount)")
        case "input_text": return [ImportedThread.message("assistant", part["text"]?.string?.trimmed ?? "")]
        default: return [item]
        }
    }

    /// A conversation in either form.
    private struct Conversation {
        let id: String
        var name: String?
        var turns: [ImportedThread.Turn] = []
        var leftOut = LeftOut()

        /// Adds the tree of the same id, in which a conversation that began as a list continues. The tree also has the
        /// older messages. The list knows more about them: their times and models.
        mutating func add(_ tree: Conversation) {
            var older = turns[...]
            var merged: [ImportedThread.Turn] = []
            for turn in tree.turns {
                if turn.id == nil || turn.id == older.first?.id, let first = older.first,
                    first.question == turn.question
                {
                    merged.append(first)
                    older = older.dropFirst()
                } else {
                    merged.append(turn)
                }
            }
            // A tree without the older messages continues the list.
            turns = older.isEmpty ? merged : turns + tree.turns.filter { $0.id != nil }
            name = tree.name ?? name
            leftOut.add(tree.leftOut)
        }
    }

    // MARK: Responses in conversations

    /// The data of all responses, by the ids of the responses.
    private struct ResponseParts {
        let calls: [String: [[String: String]]]
        let results: [String: [[String: String]]]
        let attachments: [String: [[String: String]]]
        let resultAttachments: [String: [[String: String]]]
        let promptFragments: [String: [[String: String]]]
        let systemFragments: [String: [[String: String]]]
    }

    /// The tables of lists. A log that was upgraded keeps the older ones.
    private static let lists = ["log", "logs", "responses"]

    private mutating func responses() -> [Conversation] {
        let parts = ResponseParts(
            calls: grouped("tool_calls"), results: grouped("tool_results"), attachments: grouped("prompt_attachments"),
            resultAttachments: grouped("tool_results_attachments", by: "tool_result_id"),
            promptFragments: grouped("prompt_fragments"), systemFragments: grouped("system_fragments"))
        let names = Dictionary(rows(of: "conversations").map { ($0["id"] ?? "", $0["name"]) }) { first, _ in first }
        var conversations: [Conversation] = []
        var places: [String: Int] = [:]
        var begun: [String: String] = [:]
        for table in Self.lists {
            let order = table == "responses" ? "conversation_id, rowid" : "rowid"
            for row in rows(of: table, "*, rowid AS number", by: order) {
                let own = row["conversation_id"] ?? row["id"] ?? row["number"] ?? ""
                // In the older tables, a response names the first one of its conversation, or the one before it.
                let first = row["chat_id"] ?? row["reply_to_id"].map { begun[$0] ?? $0 } ?? own
                if table != "responses" { begun[own] = first }
                let id = table == "responses" ? own : "llm-log-\(first)"
                let place = places[id] ?? conversations.count
                places[id] = place
                if place == conversations.count { conversations.append(Conversation(id: id, name: names[id] ?? nil)) }
                add(row, parts, to: &conversations[place])
            }
        }
        return conversations
    }

    private mutating func add(_ row: [String: String], _ parts: ResponseParts, to conversation: inout Conversation) {
        let id = row["id"] ?? ""
        let date =
            ImportedThread.date(row["datetime_utc"] ?? row["timestamp"]) ?? conversation.turns.last?.endedAt ?? fileDate
        var prompt = texts(parts.promptFragments[id], &conversation.leftOut).map(Self.text)
        prompt += (parts.attachments[id] ?? []).map { attachment($0["attachment_id"]) }
        if let text = row["prompt"], !text.isEmpty { prompt.append(Self.text(text)) }
        let results = parts.results[id] ?? []
        if conversation.turns.isEmpty || results.isEmpty || !prompt.isEmpty {
            var turn = ImportedThread.Turn(id: row["id"], model: row["model"] ?? "", at: date)
            var system = texts(parts.systemFragments[id], &conversation.leftOut)
            if let text = row["system"], !text.isEmpty { system.append(text) }
            // The system prompt is repeated in each response.
            let known = conversation.turns.last { $0.messages.first?["role"]?.string == "system" }?.messages.first
            let instruction = message("system", system)
            if !system.isEmpty, instruction != known { turn.messages.append(instruction) }
            if !prompt.isEmpty { turn.messages.append(ImportedThread.message("user", prompt)) }
            conversation.turns.append(turn)
        }
        let place = conversation.turns.count - 1
        for result in results {
            let pictures = (parts.resultAttachments[result["id"] ?? ""] ?? []).map { attachment($0["attachment_id"]) }
            let text = ImportedThread.output(result["output"] ?? "", pictures)
            conversation.turns[place].items.append(output(result["tool_call_id"], text))
        }
        if let text = row["response"], !text.isEmpty {
            conversation.turns[place].items.append(ImportedThread.message("assistant", text))
        }
        for made in parts.calls[id] ?? [] {
            conversation.turns[place].items.append(call(made["tool_call_id"], made["name"], made["arguments"]))
        }
        conversation.turns[place].usage = usage(row)
        conversation.turns[place].endedAt = date + duration(row)
    }

    private mutating func grouped(_ table: String, by column: String = "response_id") -> [String: [[String: String]]] {
        Dictionary(grouping: rows(of: table)) { $0[column] ?? "" }
    }

    /// Returns the texts of the fragments that rows name.
    private func texts(_ rows: [[String: String]]?, _ leftOut: inout LeftOut) -> [String] {
        let sorted = (rows ?? []).sorted { Int($0["order"] ?? "") ?? 0 < Int($1["order"] ?? "") ?? 0 }
        let texts = sorted.compactMap { fragments[$0["fragment_id"] ?? ""] }
        leftOut.add(damage: "missing fragment", sorted.count - texts.count)
        return texts
    }

    private static func text(_ text: String) -> ChappieJSON { ["type": "input_text", "text": .string(text)] }

    private func message(_ role: String, _ texts: [String]) -> ChappieJSON {
        ImportedThread.message(role, texts.map(Self.text))
    }

    // MARK: A tree of messages

    private mutating func messageTrees() -> [Conversation] {
        var tree = Tree()
        for row in rows(of: "messages", "hash, parent_hash, role") { tree.messages[row["hash"] ?? ""] = row }
        tree.parts = Dictionary(grouping: rows(of: "parts", by: "message_hash, position")) {
            $0["message_hash"] ?? ""
        }
        let names = Dictionary(rows(of: "threads").map { ($0["id"] ?? "", $0["name"]) }) { first, _ in first }
        let turns = Dictionary(grouping: rows(of: "turns", by: "thread_id, datetime_utc, rowid")) {
            $0["thread_id"] ?? ""
        }
        return turns.sorted { $0.key < $1.key }.map { id, rows in
            conversation(Conversation(id: id, name: names[id] ?? nil), rows, tree)
        }
    }

    private struct Tree {
        var messages: [String: [String: String]] = [:]
        var parts: [String: [[String: String]]] = [:]

        /// Returns the messages from the beginning, or from the first one that is not in `seen`, to the given one.
        func branch(to tip: String?, _ seen: inout Set<String>, _ leftOut: inout LeftOut) -> [[String: String]] {
            var branch: [[String: String]] = []
            var next = tip
            while let hash = next, seen.insert(hash).inserted {
                guard let message = messages[hash] else {
                    leftOut.add(damage: "missing message")
                    break
                }
                branch.append(message)
                next = message["parent_hash"]
            }
            return branch.reversed()
        }
    }

    private func conversation(_ begun: Conversation, _ rows: [[String: String]], _ tree: Tree) -> Conversation {
        var conversation = begun
        var seen: Set<String> = []
        var turn: ImportedThread.Turn?
        for row in rows {
            let date =
                ImportedThread.date(row["datetime_utc"]) ?? (turn ?? conversation.turns.last)?.endedAt ?? fileDate
            // The first turn of a fork, or of a conversation of an older version, also has the messages before it.
            var isNew = turn == nil
            for message in tree.branch(to: row["tip_message_hash"], &seen, &conversation.leftOut) {
                let role = message["role"] ?? "user"
                let parts = tree.parts[message["hash"] ?? ""] ?? []
                var asked: [ChappieJSON] = []
                var items: [ChappieJSON] = []
                // A thread is named after the end of its question.
                for part in parts.filter({ $0["type"] == "attachment" }) + parts.filter({ $0["type"] != "attachment" })
                {
                    guard let item = item(part, role, &conversation.leftOut) else { continue }
                    if item["role"] != nil, role != "assistant" {
                        asked += item["content"]?.array ?? []
                    } else {
                        items.append(item)
                    }
                }
                if !asked.isEmpty, turn?.items.isEmpty == false {
                    if let turn { conversation.turns.append(turn) }
                    turn = nil
                    isNew = true
                }
                guard !asked.isEmpty || !items.isEmpty else { continue }
                if turn == nil { turn = ImportedThread.Turn(id: nil, model: row["model"] ?? "", at: date) }
                if !asked.isEmpty { turn?.messages.append(ImportedThread.message(role, asked)) }
                turn?.items += items
            }
            if isNew { turn?.id = row["id"] }
            turn?.usage = usage(row)
            turn?.endedAt = date + duration(row)
        }
        if let turn { conversation.turns.append(turn) }
        return conversation
    }

    /// Returns a part as an item. A part that has no place here is counted.
    private func item(_ part: [String: String], _ role: String, _ leftOut: inout LeftOut) -> ChappieJSON? {
        let payload = part["payload"].flatMap { try? ChappieJSON(parsing: $0) }
        switch part["type"] {
        case "text":
            let texts = part["text"].map { [$0] } ?? texts(payload, &leftOut)
            guard !texts.isEmpty else { break }
            return role == "assistant" ? ImportedThread.message(role, texts.joined()) : message(role, texts)
        case "attachment":
            let ids = (payload?.object?.members ?? []).compactMap(\.value.string)
            return ImportedThread.message(role, [attachment(ids.first { attachments[$0] != nil })])
        case "tool_call":
            let arguments = payload?["arguments"].map { $0.string ?? $0.serialized() }
            return call(payload?["tool_call_id"]?.string, payload?["name"]?.string, arguments)
        case "tool_result":
            let text = payload?["output"].map { $0.string ?? $0.serialized() }
            return output(payload?["tool_call_id"]?.string, .string(text ?? ""))
        default: break
        }
        leftOut.add(part["type"] ?? "part")
        return nil
    }

    /// Returns the texts of a part that refers to fragments.
    private func texts(_ payload: ChappieJSON?, _ leftOut: inout LeftOut) -> [String] {
        var texts: [String] = []
        for reference in payload?["text_ref"]?.array ?? [] {
            let name = reference["fragment"].map { $0.string ?? $0.serialized() }
            if let text = reference["literal"]?.string ?? name.flatMap({ fragments[$0] }) {
                texts.append(text)
            } else {
                leftOut.add(damage: "missing fragment")
            }
        }
        return texts
    }

    // MARK: Items

    private func call(_ id: String?, _ name: String?, _ arguments: String?) -> ChappieJSON {
        [
            "type": "function_call", "name": .string(name ?? ""), "arguments": .string(arguments ?? "{}"),
            "call_id": .string(id ?? ""),
        ]
    }

    private func output(_ id: String?, _ output: ChappieJSON) -> ChappieJSON {
        ["type": "function_call_output", "call_id": .string(id ?? ""), "output": output]
    }

    /// Returns the duration in seconds, or 0 if the value cannot be a duration.
    private func duration(_ row: [String: String]) -> Double {
        let milliseconds = row["duration_ms"].flatMap(Double.init) ?? 0
        return (0...1e10).contains(milliseconds) ? milliseconds / 1000 : 0
    }

    private func usage(_ row: [String: String]) -> ChappieJSON? {
        let input = row["input_tokens"].flatMap { Int($0) }
        let output = row["output_tokens"].flatMap { Int($0) }
        guard input != nil || output != nil else { return nil }
        return [
            "inputTokens": .integer(input ?? 0), "cachedInputTokens": 0, "outputTokens": .integer(output ?? 0),
            "reasoningTokens": 0,
            "totalTokens": .integer((input ?? 0).addingReportingOverflow(output ?? 0).partialValue),
        ]
    }
}
