@_spi(ChappieInternals) import ChappieCore
import ChappieRuntime
import ChappieSDK
import FoundationEssentials

/// Threads read from a file: one of our own exports, or another program's history. The ids of what is read are the file's, so
/// that a store notices a second import.
struct ThreadImport {
    /// Where threads come from.
    enum Source: String, CaseIterable {
        /// An export as ``ThreadFormat/json`` or ``ThreadFormat/jsonl``.
        case chappie
        /// A session file of the Codex CLI.
        case codex
        /// The log database of the program `llm`.
        case llm
    }

    /// In bytes; a session of many months has some hundred megabytes.
    static let limit = 2 << 30

    let source: Source
    /// The threads, as a store takes them.
    var threads: [ChappieThread]
    /// The kinds of things that were left out, and how often.
    var skipped: [String: Int] = [:]

    /// Reads a file whole; blocks as long as the disk does.
    ///
    /// - Throws: ``CommandLineError`` that names the file, and the line or the table where it is damaged.
    init(path: String) throws {
        let bytes: [UInt8]
        do { bytes = try RegularFile.contents(of: path, limit: Self.limit) } catch {
            throw CommandLineError.usage(
                "\(path) can't be read: \(Self.reason(of: error)).", suggestion: "Check the path.")
        }
        do throws(ThreadFault) {
            if bytes.starts(with: "SQLite format 3\0".utf8) {
                self = try LLMLog.read(path)
            } else {
                try self.init(bytes)
            }
        } catch {
            throw CommandLineError(.badData, code: "thread_import", "\(path) can't be imported: \(error.sentence)")
        }
    }

    /// Reads an export or a session.
    init(_ bytes: [UInt8]) throws(ThreadFault) {
        if let json = try? ChappieJSON(parsing: bytes), json["format"]?.string == "chappie.thread",
            json["records"] != nil
        {
            self = ThreadImport(source: .chappie, threads: [try Self.thread(json)])
            return
        }
        var lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).map(Array.init)
        // A line without its end may be half a line: its program ended while it wrote.
        let end = lines.popLast() ?? []
        let isTorn = !end.isEmpty && (try? ChappieJSON(parsing: end)) == nil
        if !end.isEmpty, !isTorn { lines.append(end) }
        var values: [(line: Int, json: ChappieJSON)] = []
        for (index, line) in lines.enumerated() where !line.allSatisfy({ [0x20, 0x09, 0x0D].contains($0) }) {
            guard let json = try? ChappieJSON(parsing: line), json.object != nil else {
                throw index == 0 ? .unknown : .line(index + 1, "it is no JSON object")
            }
            values.append((index + 1, json))
        }
        guard let first = values.first?.json else { throw .unknown }
        if first["format"]?.string == "chappie.thread" {
            guard !isTorn else { throw .line(lines.count + 1, "it is cut") }
            var document = first.object ?? [:]
            document["records"] = .array(values.dropFirst().map(\.json))
            self = ThreadImport(source: .chappie, threads: [try Self.thread(.object(document))])
        } else if first["type"]?.string == "session_meta" {
            self = try CodexSession.read(values)
            if isTorn { skipped["half a line at the end"] = 1 }
        } else {
            throw .unknown
        }
    }

    init(source: Source, threads: [ChappieThread], skipped: [String: Int] = [:]) {
        (self.source, self.threads, self.skipped) = (source, threads, skipped)
    }

    /// Reads what a path names. A file that the user named must be fit to be read; one in a folder is left out otherwise.
    ///
    /// - Throws: ``CommandLineError``, as ``init(path:)``.
    static func all(at path: String) throws -> [ThreadImport] {
        try files(at: path).map { file in
            do { return try ThreadImport(path: file) } catch {
                guard file != path else { throw error }
                return ThreadImport(source: .codex, threads: [], skipped: ["unreadable file \(file)": 1])
            }
        }
    }

    /// The files that a path names: itself, or the session files in a folder and below, the oldest first.
    static func files(at path: String) -> [String] {
        var isFolder: Bool = false
        guard FileManager.default.fileExists(atPath: path, isDirectory: &isFolder), isFolder else { return [path] }
        let all = (try? FileManager.default.subpathsOfDirectory(atPath: path)) ?? []
        let sessions = all.filter { name in
            let last = name.split(separator: "/").last ?? ""
            return last.hasPrefix("rollout-") && last.hasSuffix(".jsonl")
        }
        return sessions.sorted().map { path + "/" + $0 }
    }

    private static func thread(_ json: ChappieJSON) throws(ThreadFault) -> ChappieThread {
        let thread: ChappieThread
        do { thread = try ChappieThread(json: json) } catch { throw ThreadFault(error) }
        guard ForeignThread(id: thread.id) != nil else { throw .name }
        guard !thread.records.isEmpty else { throw .empty }
        return thread
    }

    private static func reason(of failure: RegularFile.Failure) -> String {
        switch failure {
        case .missing: "there is none"
        case .directory: "it is a folder"
        case .special: "it is not a plain file"
        case .tooLarge: "it is over \(limit >> 30) GiB"
        case .system(let reason): reason
        }
    }
}

/// The reason why a file can't be imported.
struct ThreadFault: Error, Equatable {
    let sentence: String

    static let unknown = ThreadFault(
        sentence: "It is no thread that chappie exported, no session of the Codex CLI and no log of llm.")
    static let name = ThreadFault(sentence: "The thread has an id that no thread can have.")
    static let empty = ThreadFault(sentence: "The thread has no records.")
    static func line(_ number: Int, _ reason: String) -> ThreadFault {
        ThreadFault(sentence: "Line \(number) is damaged: \(reason).")
    }
    static func table(_ name: String, _ reason: String) -> ThreadFault {
        ThreadFault(sentence: "The table \(name) can't be read: \(reason).")
    }

    private init(sentence: String) { self.sentence = sentence }
    init(_ error: ChappieThreadStoreError) { sentence = error.errorDescription ?? "\(error)" }
}

/// Makes a thread of what another program has kept: the records that the runtime would have written.
struct ForeignThread {
    let id: String
    private(set) var skipped: [String: Int] = [:]
    private var records: [ChappieThreadRecord] = []
    private var turnIDs: Set<String> = []

    /// A turn that is being read.
    struct Turn {
        var id: String?
        var model = ""
        var startedAt: Date
        var endedAt: Date
        var messages: [ChappieJSON] = []
        /// The model's words and calls, and the answers of its tools.
        var items: [ChappieJSON] = []
        var usage: ChappieJSON?
        var error: String?
        var isCut = false

        init(id: String?, model: String, at date: Date) {
            (self.id, self.model, startedAt, endedAt) = (id, model, date, date)
        }
    }

    /// - Returns: `nil` for an id that a thread can't have.
    init?(id: String) {
        let allowed = { (byte: UInt8) in
            switch Unicode.Scalar(byte) {
            case "a"..."z", "A"..."Z", "0"..."9", "-": true
            default: false
            }
        }
        guard !id.isEmpty, id.utf8.count <= 100, id.utf8.allSatisfy(allowed) else { return nil }
        self.id = id
    }

    static func message(_ role: String, _ parts: [ChappieJSON]) -> ChappieJSON {
        ["type": "message", "role": .string(role), "content": .array(parts)]
    }

    static func message(_ role: String, _ text: String) -> ChappieJSON {
        message(role, [["type": role == "assistant" ? "output_text" : "input_text", "text": .string(text)]])
    }

    mutating func skip(_ what: String) { skipped[what, default: 0] += 1 }

    mutating func add(_ kind: ChappieThreadRecord.Kind, at date: Date, _ body: ChappieJSON) {
        records.append(ChappieThreadRecord(position: records.count, kind: kind, date: date, body: body))
    }

    mutating func add(_ turn: Turn) {
        var turn = turn
        let number = turnIDs.count + 1
        var turnID = turn.id ?? "\(id)-\(number)"
        if turnIDs.contains(turnID) { turnID = "\(id)-\(number)" }
        turnIDs.insert(turnID)
        let name: ChappieJSON = .string(turnID)
        add(
            .turnStarted, at: turn.startedAt,
            ["turn": name, "messages": .array(turn.messages), "model": .string(turn.model)])
        dropUnpaired(&turn.items)
        if turn.items.isEmpty {
            let failure = turn.error.map { [("turn", name), ("error", .string($0))] }
            add(
                failure == nil ? .turnInterrupted : .turnFailed, at: turn.endedAt,
                .object(ChappieJSONObject(failure ?? [("turn", name)])))
            return
        }
        let answer = turn.items.last { $0["role"]?.string == "assistant" }
        let isAnswered = answer != nil && answer == turn.items.last
        var body: ChappieJSONObject = [
            "turn": name, "from": .integer(turn.messages.count), "items": .array(turn.items),
            "model": .string(turn.model),
            // The answer's place among the turn's items.
            "output": isAnswered ? [.integer(turn.messages.count + turn.items.count - 1)] : [],
        ]
        if isAnswered, let answer = answer.map(ChappieOutputItem.init), answer.phase == .commentary {
            // Words that would not be taken for the answer.
            body["text"] = .string(answer.text)
        }
        body["usage"] = turn.usage
        if turn.isCut || !isAnswered { body["incompleteReason"] = .string(turn.error ?? "interrupted") }
        add(.turnFinished, at: turn.endedAt, .object(body))
    }

    /// The backend takes no call without its output, and no output without its call.
    private mutating func dropUnpaired(_ items: inout [ChappieJSON]) {
        let isOutput = { (item: ChappieJSON) in item["type"]?.string?.hasSuffix("_output") == true }
        let isCall = { (item: ChappieJSON) in ChappieOutputItem(item).isToolCall }
        let outputs = Set(items.filter(isOutput).compactMap { $0["call_id"]?.string })
        let calls = Set(items.filter(isCall).compactMap { $0["call_id"]?.string })
        let paired = outputs.intersection(calls)
        let kept = items.filter { item in
            guard isCall(item) || isOutput(item) else { return true }
            return item["call_id"]?.string.map(paired.contains) ?? false
        }
        for _ in 0..<items.count - kept.count { skip("tool call without its result") }
        items = kept
    }

    func thread() throws(ThreadFault) -> ChappieThread {
        do { return try ChappieThread(id: id, records: records) } catch { throw ThreadFault(error) }
    }

    var isEmpty: Bool { records.isEmpty }

    /// A date of ISO 8601 with any number of digits after the second, and with the time of UTC where none is named.
    static func date(_ text: String?) -> Date? {
        guard let text, text.utf8.count >= 19 else { return nil }
        let head = text.prefix(19).replacing(" ", with: "T")
        guard let base = try? Date.ISO8601FormatStyle().parse(head + "Z") else { return nil }
        var rest = text.dropFirst(19)
        var fraction = 0.0
        if rest.first == "." {
            let digits = rest.dropFirst().prefix { $0.isASCII && $0.isNumber }
            fraction = Double("0." + digits) ?? 0
            rest = rest.dropFirst(1 + digits.count)
        }
        guard let sign = rest.first, sign != "Z" else { return base + fraction }
        guard rest.utf8.count == 6 else { return nil }
        let numbers = rest.dropFirst().split(separator: ":").compactMap { Int($0) }
        guard sign == "+" || sign == "-", numbers.count == 2 else { return nil }
        let offset = Double(numbers[0] * 3600 + numbers[1] * 60)
        return base + fraction + (sign == "+" ? -offset : offset)
    }
}
