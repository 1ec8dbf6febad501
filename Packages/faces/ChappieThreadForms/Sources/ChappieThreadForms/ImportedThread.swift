@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieRuntime
import FoundationEssentials

/// The kinds of things that an import left out, and the number of each.
struct LeftOut {
    private(set) var counts: [String: Int] = [:]
    /// Whether something was left out because it cannot be read.
    private(set) var hasDamage = false

    mutating func add(_ what: String, _ count: Int = 1) {
        // Names from a file must not look like other lines of the report.
        let line = what.split(whereSeparator: \.isNewline).joined(separator: " ")
        if count > 0 { counts[line, default: 0] += count }
    }

    mutating func add(damage what: String, _ count: Int = 1) {
        add(what, count)
        if count > 0 { hasDamage = true }
    }

    mutating func add(_ other: LeftOut) {
        counts.merge(other.counts, uniquingKeysWith: +)
        hasDamage = hasDamage || other.hasDamage
    }
}

/// A file in a known form, from which one thread is read at a time.
protocol ThreadForm {
    var source: ChappieThreadImport.Source { get }
    /// The parts that were left out so far.
    var leftOut: LeftOut { get }
    /// Returns the next thread, or `nil` at the end.
    mutating func next() throws(ThreadFault) -> ChappieThread?
}

/// A thread that is made from another program's data, with the records that the runtime would have written.
struct ImportedThread {
    let id: String
    var leftOut = LeftOut()
    /// The time of the other program's last change, if that can be later than the last message.
    var changedAt: Date?
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

        /// The end of the user's message, without the files before it.
        var question: String? {
            messages.last { $0["role"]?.string == "user" }?["content"]?.array?.last?["text"]?.string
        }

        init(id: String?, model: String, at date: Date) {
            self.id = id
            self.model = model
            startedAt = date
            endedAt = date
        }
    }

    /// Creates a thread without records. An id that no thread can have is replaced by one that is the same in each
    /// import.
    ///
    /// - Parameters:
    ///   - id: The id in the file, or `nil` if it is missing.
    ///   - facts: Text that identifies a thread without an id, and does not change when the thread grows.
    init(id: String?, facts: String) {
        self.id = id.flatMap { ChappieThread.canHaveID($0) ? $0 : nil } ?? Self.derivedID(id ?? "", facts)
    }

    /// Returns an id for text that cannot be the id of a thread, or that two threads have.
    static func derivedID(_ id: String, _ facts: String) -> String {
        let readable = id.utf8.prefix(60).map { $0.isASCIIAlphanumeric ? $0 : UInt8(ascii: "-") }
        // FNV-1a (https://datatracker.ietf.org/doc/html/rfc9923). The number must be the same in each import.
        let number = "\(id) \(facts)".utf8.reduce(0xcbf2_9ce4_8422_2325 as UInt64) { number, byte in
            (number ^ UInt64(byte)) &* 0x100_0000_01b3
        }
        return String(decoding: readable, as: UTF8.self) + (readable.isEmpty ? "" : "-") + String(number, radix: 16)
    }

    static func message(_ role: String, _ parts: [ChappieJSON]) -> ChappieJSON {
        ["type": "message", "role": .string(role), "content": .array(parts)]
    }

    static func message(_ role: String, _ text: String) -> ChappieJSON {
        message(role, [["type": role == "assistant" ? "output_text" : "input_text", "text": .string(text)]])
    }

    mutating func leaveOut(_ what: String, _ count: Int = 1) { leftOut.add(what, count) }

    /// Returns a message of the user. The question is the last part, so that the thread is named after it.
    static func question(_ before: [String], _ text: String) -> ChappieJSON {
        let texts = before.filter { !$0.isEmpty }.map { $0 + "\n" } + (text.isEmpty ? [] : [text])
        return message("user", texts.map { ["type": "input_text", "text": .string($0)] })
    }

    /// Returns a picture as a part of a message or of a tool's output, or `nil` if models don't take it.
    static func picture(_ bytes: [UInt8]) -> ChappieJSON? {
        guard let image = try? ChappieImage(bytes: bytes, limit: ChatGPTAssets.pictureLimit),
            case .url(let url) = image.source
        else { return nil }
        return ["type": "input_image", "image_url": .string(url), "detail": "auto"]
    }

    /// Returns the output of a tool, with its pictures after the text.
    static func output(_ text: String, _ pictures: [ChappieJSON]) -> ChappieJSON {
        guard !pictures.isEmpty else { return .string(text) }
        return .array((text.isEmpty ? [] : [["type": "input_text", "text": .string(text)]]) + pictures)
    }

    /// Returns the call and the output by which a model makes pictures here.
    static func drawing(_ pictures: [ChappieJSON], _ prompt: String?, id: String) -> [ChappieJSON] {
        let arguments: ChappieJSON = prompt.map { ["prompt": .string($0)] } ?? [:]
        return [
            [
                "type": "function_call", "name": "image_generation", "arguments": .string(arguments.serialized()),
                "call_id": .string(id),
            ], ["type": "function_call_output", "call_id": .string(id), "output": output("", pictures)],
        ]
    }

    /// Adds a record. It is marked as imported, so that a later import can tell it from what was added here.
    mutating func add(_ kind: ChappieThreadRecord.Kind, at date: Date, _ body: ChappieJSONObject = [:]) {
        var body = body
        body["imported"] = true
        records.append(ChappieThreadRecord(position: records.count, kind: kind, date: date, body: .object(body)))
    }

    /// Gives the thread the name that the other program stored.
    mutating func name(_ name: String?, at date: Date) {
        guard let name = name?.trimmed, !name.isEmpty else { return }
        add(.renamed, at: date, ["title": .string(name)])
    }

    /// Removes the last turns with questions, which the user took back in the other program.
    mutating func takeBack(_ count: Int) {
        var rest = count
        while rest > 0, let last = records.last(where: { $0.kind == .turnStarted }) {
            records.removeAll { $0.turnID == last.turnID }
            leaveOut("turn that was taken back")
            if last.body["messages"]?.array?.isEmpty == false { rest -= 1 }
        }
    }

    mutating func add(_ turn: Turn) {
        var turn = turn
        dropUnpaired(&turn.items)
        guard !turn.messages.isEmpty || !turn.items.isEmpty || turn.error != nil else { return }
        let number = turnIDs.count + 1
        var turnID = turn.id ?? "\(id)-\(number)"
        if turnIDs.contains(turnID) { turnID = "\(id)-\(number)" }
        turnIDs.insert(turnID)
        let name: ChappieJSON = .string(turnID)
        add(
            .turnStarted, at: turn.startedAt,
            ["turn": name, "messages": .array(turn.messages), "model": .string(turn.model)])
        if turn.items.isEmpty {
            let failure = turn.error.map { [("turn", name), ("error", .string($0))] }
            add(
                failure == nil ? .turnInterrupted : .turnFailed, at: turn.endedAt,
                ChappieJSONObject(failure ?? [("turn", name)]))
            return
        }
        let answer = turn.items.last { $0["role"]?.string == "assistant" }
        let isAnswered = answer != nil && answer == turn.items.last
        let isDrawn = turn.items.last?["output"]?.array?.contains { $0["type"] == "input_image" } == true
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
        if turn.isCut || !isAnswered && !isDrawn { body["incompleteReason"] = .string(turn.error ?? "interrupted") }
        add(.turnFinished, at: turn.endedAt, body)
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
        leaveOut("tool call without its result", items.count - kept.count)
        items = kept
    }

    func thread() throws(ThreadFault) -> ChappieThread {
        var records = records
        if let changedAt, let first = records.first, var body = first.body.object {
            body["changedAt"] = .double(changedAt.timeIntervalSince1970)
            records[0] = ChappieThreadRecord(position: 0, kind: first.kind, date: first.date, body: .object(body))
        }
        let thread: ChappieThread
        do {
            thread = try ChappieThread(id: id, records: records.renumbered)
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

    /// Whether nobody has asked or said anything.
    var isEmpty: Bool { !records.contains { $0.kind == .turnStarted } }

    /// Returns the time that another program wrote as text, in seconds, or in milliseconds since 1970.
    static func time(_ json: ChappieJSON?) -> Date? {
        if let text = json?.string, let date = date(text) { return date }
        switch json?.double ?? json?.string.flatMap(Double.init) ?? -1 {
        case let seconds where (0..<1e11).contains(seconds): return Date(timeIntervalSince1970: seconds)
        case let milliseconds where (1e11..<1e14).contains(milliseconds):
            return Date(timeIntervalSince1970: milliseconds / 1000)
        default: return nil
        }
    }

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
