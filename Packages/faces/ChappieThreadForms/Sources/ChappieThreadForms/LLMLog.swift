@_spi(ChappieInternals) import ChappieCore
import ChappieSQLite

/// A reader of the log database of the program `llm` (`llm logs path`). It was tried with the databases of versions
/// 0.19, 0.27.1 and 0.36. Up to some version before 0.36, a log is a list of responses in conversations. Since then it
/// is a tree of messages, and older responses stay in the list.
enum LLMLog {
    static func read(_ path: String) throws(ThreadFault) -> ChappieThreadImport {
        let file = try LLMDatabase(path)
        var all = ChappieThreadImport(source: .llm, threads: [])
        let (isList, isTree) = (try file.has("responses"), try file.has("turns"))
        guard isList || isTree else { throw .unknown }
        var logs = try conversations(file)
        let places = Dictionary(logs.enumerated().map { ($1.id, $0) }) { first, _ in first }
        for tree in try messageTrees(file) {
            if let index = places[tree.id] {
                logs[index].add(tree)
            } else {
                logs.append(tree)
            }
        }
        for log in logs {
            guard var thread = ImportedThread(id: log.id) else {
                throw .table(log.table, "\(log.id) is not the id of a thread")
            }
            for turn in log.turns { thread.add(turn) }
            for (what, count) in thread.skipped.merging(log.skipped, uniquingKeysWith: +) {
                all.leftOut[what, default: 0] += count
            }
            if !thread.isEmpty { all.threads.append(try thread.thread()) }
        }
        for (table, what) in [("prompt_attachments", "attachment"), ("prompt_fragments", "fragment")] {
            let count = try file.has(table) ? file.rows("SELECT 1 FROM \(table)", of: table).count : 0
            if count > 0 { all.leftOut[what, default: 0] += count }
        }
        return all
    }

    /// A conversation in either form.
    private struct Conversation {
        let id: String
        let table: String
        var turns: [ImportedThread.Turn] = []
        var skipped: [String: Int] = [:]

        /// Adds the tree of the same id, in which a conversation that began as a list continues. The tree also has the
        /// older messages. The list knows more about them: their times and models.
        mutating func add(_ tree: Conversation) {
            var older = turns[...]
            var merged: [ImportedThread.Turn] = []
            for turn in tree.turns {
                if turn.id == nil || turn.id == older.first?.id, let first = older.first, first.asks == turn.asks {
                    merged.append(first)
                    older = older.dropFirst()
                } else {
                    merged.append(turn)
                }
            }
            // A tree without the older messages continues the list.
            turns = older.isEmpty ? merged : turns + tree.turns.filter { $0.id != nil }
            skipped.merge(tree.skipped, uniquingKeysWith: +)
        }
    }

    // MARK: Responses in conversations

    private static func conversations(_ file: LLMDatabase) throws(ThreadFault) -> [Conversation] {
        guard try file.has("responses"), try file.has("conversations") else { return [] }
        let calls = try grouped(file, "tool_calls")
        let results = try grouped(file, "tool_results")
        var threads: [Conversation] = []
        var thread: Conversation?
        var turn: ImportedThread.Turn?
        var system = ""
        func endTurn() {
            if let turn { thread?.turns.append(turn) }
            turn = nil
        }
        for row in try file.rows("SELECT * FROM responses ORDER BY conversation_id, rowid", of: "responses") {
            let id = row["conversation_id"] ?? row["id"] ?? ""
            if thread?.id != id {
                endTurn()
                if let thread { threads.append(thread) }
                thread = Conversation(id: id, table: "responses")
                system = ""
            }
            guard let date = ImportedThread.date(row["datetime_utc"]) else {
                throw .table("responses", "\(row["id"] ?? "a response") has no time")
            }
            let answers = results[row["id"] ?? ""] ?? []
            if turn == nil || answers.isEmpty || row["prompt"]?.isEmpty == false {
                endTurn()
                var next = ImportedThread.Turn(id: row["id"], model: row["model"] ?? "", at: date)
                if let now = row["system"], !now.isEmpty, now != system {
                    next.messages.append(ImportedThread.message("system", now))
                    system = now
                }
                next.messages.append(ImportedThread.message("user", row["prompt"] ?? ""))
                turn = next
            }
            for answer in answers { turn?.items.append(output(answer["tool_call_id"], answer["output"])) }
            if let text = row["response"], !text.isEmpty {
                turn?.items.append(ImportedThread.message("assistant", text))
            }
            for made in calls[row["id"] ?? ""] ?? [] {
                turn?.items.append(call(made["tool_call_id"], made["name"], made["arguments"]))
            }
            turn?.usage = usage(row)
            turn?.endedAt = date + duration(row)
        }
        endTurn()
        return threads + [thread].compactMap { $0 }
    }

    private static func grouped(
        _ file: LLMDatabase, _ table: String
    ) throws(ThreadFault) -> [String: [[String: String]]] {
        guard try file.has(table) else { return [:] }
        let rows = try file.rows("SELECT * FROM \(table) ORDER BY id", of: table)
        return Dictionary(grouping: rows) { $0["response_id"] ?? "" }
    }

    // MARK: A tree of messages

    private static func messageTrees(_ file: LLMDatabase) throws(ThreadFault) -> [Conversation] {
        guard try file.has("turns"), try file.has("messages"), try file.has("parts") else { return [] }
        var messages: [String: [String: String]] = [:]
        for row in try file.rows("SELECT hash, parent_hash, role FROM messages", of: "messages") {
            messages[row["hash"] ?? ""] = row
        }
        let parts = Dictionary(
            grouping: try file.rows("SELECT * FROM parts ORDER BY message_hash, position", of: "parts")
        ) { $0["message_hash"] ?? "" }
        let turns = Dictionary(
            grouping: try file.rows("SELECT * FROM turns ORDER BY thread_id, datetime_utc, rowid", of: "turns")
        ) { $0["thread_id"] ?? "" }
        var threads: [Conversation] = []
        for (id, rows) in turns.sorted(by: { $0.key < $1.key }) {
            var thread = Conversation(id: id, table: "turns")
            var seen: Set<String> = []
            var turn: ImportedThread.Turn?
            for row in rows {
                guard let date = ImportedThread.date(row["datetime_utc"]) else {
                    throw .table("turns", "\(row["id"] ?? "a turn") has no time")
                }
                var chain: [[String: String]] = []
                var next = row["tip_message_hash"]
                while let hash = next, seen.insert(hash).inserted {
                    guard let message = messages[hash] else {
                        throw .table("messages", "the message \(hash) is missing")
                    }
                    chain.append(message)
                    next = message["parent_hash"]
                }
                // The first turn of a fork, or of a conversation of an older version, also has the messages before it.
                var isNew = turn == nil
                for message in chain.reversed() {
                    let role = message["role"] ?? "user"
                    for part in parts[message["hash"] ?? ""] ?? [] {
                        guard let item = item(part, role) else {
                            thread.skipped[part["type"] ?? "part", default: 0] += 1
                            continue
                        }
                        let isAsked = item["role"] != nil && role != "assistant"
                        if isAsked, turn?.items.isEmpty == false {
                            if let turn { thread.turns.append(turn) }
                            turn = nil
                            isNew = true
                        }
                        if turn == nil { turn = ImportedThread.Turn(id: nil, model: row["model"] ?? "", at: date) }
                        if isAsked { turn?.messages.append(item) } else { turn?.items.append(item) }
                    }
                }
                if isNew { turn?.id = row["id"] }
                turn?.usage = usage(row)
                turn?.endedAt = date + duration(row)
            }
            if let turn { thread.turns.append(turn) }
            threads.append(thread)
        }
        return threads
    }

    /// Returns a part as an item, or `nil` for a kind that has no place here.
    private static func item(_ part: [String: String], _ role: String) -> ChappieJSON? {
        let payload = part["payload"].flatMap { try? ChappieJSON(parsing: $0) }
        switch part["type"] {
        case "text": return part["text"].map { ImportedThread.message(role, $0) }
        case "tool_call":
            let arguments = payload?["arguments"].map { $0.string ?? $0.serialized() }
            return call(payload?["tool_call_id"]?.string, payload?["name"]?.string, arguments)
        case "tool_result":
            return output(payload?["tool_call_id"]?.string, payload?["output"].map { $0.string ?? $0.serialized() })
        default: return nil
        }
    }

    // MARK: Items

    private static func call(_ id: String?, _ name: String?, _ arguments: String?) -> ChappieJSON {
        [
            "type": "function_call", "name": .string(name ?? ""), "arguments": .string(arguments ?? "{}"),
            "call_id": .string(id ?? ""),
        ]
    }

    private static func output(_ id: String?, _ text: String?) -> ChappieJSON {
        ["type": "function_call_output", "call_id": .string(id ?? ""), "output": .string(text ?? "")]
    }

    /// Returns the duration in seconds, or 0 if the value cannot be a duration.
    private static func duration(_ row: [String: String]) -> Double {
        let milliseconds = row["duration_ms"].flatMap(Double.init) ?? 0
        return (0...1e10).contains(milliseconds) ? milliseconds / 1000 : 0
    }

    private static func usage(_ row: [String: String]) -> ChappieJSON? {
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

/// A database of `llm`. It may come from an attacker.
private struct LLMDatabase {
    private let database: SQLiteDatabase<SQLiteFailure>

    init(_ path: String) throws(ThreadFault) {
        do throws(SQLiteFailure) {
            database = try SQLiteDatabase(reading: path) { $0 }
        } catch {
            throw .table("sqlite_schema", error.words)
        }
    }

    /// Returns whether the database has this table, with stored rows and without computed columns.
    func has(_ table: String) throws(ThreadFault) -> Bool {
        let tables = try rows(
            """
            SELECT name FROM sqlite_schema AS found
            WHERE type = 'table' AND rootpage > 0 AND sql LIKE 'CREATE TABLE%'
            AND NOT EXISTS (SELECT 1 FROM pragma_table_xinfo(found.name) WHERE hidden > 1)
            """, of: "sqlite_schema")
        return tables.contains { $0["name"] == table }
    }

    /// Returns the rows of a query, with each value as text. NULL values are left out.
    func rows(_ query: String, of table: String) throws(ThreadFault) -> [[String: String]] {
        do throws(SQLiteFailure) {
            return try database.rows(query) { $0.texts }
        } catch {
            throw .table(table, error.words)
        }
    }
}
