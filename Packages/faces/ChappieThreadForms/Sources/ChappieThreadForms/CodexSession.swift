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
    private var hasEnded = false
    private let empty: CodexTurns
    private var turns: CodexTurns
    /// The lines so far, if none of them is a message.
    private var linesWithoutMessages: [ChappieJSON] = []

    /// Begins a session.
    ///
    /// - Parameters:
    ///   - first: The line that names the session. Sessions of 2025 have no `payload` in it.
    ///   - fileName: The name of the file, which ends with the session's id, or `nil` if it is unknown.
    init(_ first: ChappieJSON, _ lines: ImportLines, fileName: String?, fileDate: Date) {
        let facts = first["payload"] ?? first
        self.lines = lines
        let isNamed = first["type"] == nil || first["type"]?.string == "session_meta"
        let idOfFile = String((fileName?.split(separator: ".").first ?? "").suffix(36))
        let isID = idOfFile.utf8.count { $0 == UInt8(ascii: "-") } == 4
        let thread = ImportedThread(
            id: (isNamed ? facts["id"]?.string : nil) ?? (isID ? idOfFile : nil), facts: first.serialized())
        empty = CodexTurns(
            thread, start: facts["subagent_history_start_ordinal"]?.int ?? 0,
            begun: ImportedThread.time(first["timestamp"] ?? facts["timestamp"]) ?? fileDate)
        turns = empty
        add(first)
    }

    /// Returns whether the line is the first one of a session, or one that follows a damaged first line.
    static func canBegin(with line: ChappieJSON) -> Bool {
        guard let type = line["type"]?.string else {
            return line["id"]?.string != nil && line["timestamp"]?.string != nil
        }
        if type == "message" { return line["role"]?.string != nil && line["content"]?.array != nil }
        let types = ["session_meta", "response_item", "event_msg", "turn_context", "compacted"]
        return line["payload"]?.object != nil && (types.contains(type) || line["timestamp"]?.string != nil)
    }

    mutating func next() throws(ThreadFault) -> ChappieThread? {
        guard !hasEnded else { return nil }
        hasEnded = true
        while let line = lines.next() { add(line) }
        if !turns.hasMessages {
            turns = empty.readingEvents(of: linesWithoutMessages)
            for line in linesWithoutMessages { turns.add(line) }
        }
        var thread = turns.finished()
        thread.leftOut.add(damage: "unreadable line", lines.damagedCount)
        if let failure = lines.failure { thread.leftOut.add(damage: "rest of the file, because \(failure.reason)") }
        if lines.isTorn { thread.leaveOut("half a line at the end") }
        leftOut = thread.leftOut
        return thread.isEmpty ? nil : try thread.thread()
    }

    private mutating func add(_ line: ChappieJSON) {
        turns.add(line)
        if turns.hasMessages { linesWithoutMessages = [] } else { linesWithoutMessages.append(line) }
    }
}
