@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieRuntime
import FoundationEssentials

/// A thread that is made from another program's data, with the records that the runtime would have written.
struct ImportedThread {
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
        /// The model's messages and calls, and the results of its tools.
        var items: [ChappieJSON] = []
        var usage: ChappieJSON?
        var error: String?
        var isCut = false

        /// The user's messages.
        var asks: [ChappieJSON] { messages.filter { $0["role"]?.string == "user" } }

        init(id: String?, model: String, at date: Date) {
            self.id = id
            self.model = model
            startedAt = date
            endedAt = date
        }
    }

    /// Creates a thread without records.
    ///
    /// - Returns: `nil` for an id that a thread cannot have.
    init?(id: String) {
        guard ChappieThread.canHaveID(id) else { return nil }
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
            // The runtime would not take this text for the answer.
            body["text"] = .string(answer.text)
        }
        body["usage"] = turn.usage
        if turn.isCut || !isAnswered { body["incompleteReason"] = .string(turn.error ?? "interrupted") }
        add(.turnFinished, at: turn.endedAt, .object(body))
    }

    /// Removes each call without its output and each output without its call, because the backend accepts neither.
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
        let thread: ChappieThread
        do {
            thread = try ChappieThread(id: id, records: records)
        } catch {
            throw ThreadFault(error)
        }
        return try Self.checked(thread)
    }

    /// Returns the thread, or throws if a store cannot keep it.
    static func checked(_ thread: ChappieThread) throws(ThreadFault) -> ChappieThread {
        for record in thread.records {
            guard (try? record.storedBody()) != nil else { throw .tooDeep }
        }
        return thread
    }

    var isEmpty: Bool { records.isEmpty }

    /// Returns the date of a text in ISO 8601 with any number of digits after the second. It is in UTC if it names no
    /// other zone.
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
