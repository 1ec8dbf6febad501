@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) public import ChappieClient
@_spi(ChappieInternals) public import ChappieCore

/// A complete thread with all messages, answers and tool calls, which are built from its records.
///
/// ```swift
/// let thread = try await runtime.openThread(id)
/// for turn in thread.turns { print(turn.messages.first?.text ?? "", "→", turn.outputText) }
/// try Data(thread.json.serializedBytes()).write(to: file)        // complete; `ChappieThread(json:)` reads it
/// ```
public struct ChappieThread: Sendable, Hashable, Identifiable {
    /// The thread's summary for a list.
    public private(set) var summary: ChappieThreadSummary
    /// The records of everything that happened, in order.
    public private(set) var records: [ChappieThreadRecord] = []
    /// The turns, in the order in which they began, without those that were taken back.
    public private(set) var turns: [ChappieTurn] = []
    /// The positions of the records of turns that were taken back.
    @_spi(ChappieInternals) public private(set) var positionsTakenBack: Set<Int> = []
    /// The summaries that compactions made of the conversation, if they are text.
    public private(set) var compactionSummaries: [String] = []

    /// The conversation so far.
    private var items: [ChappieJSON] = []
    /// The conversation without its compactions, and without encrypted items.
    private(set) var history: [ChappieJSON] = []
    private var compactionCount = 0
    private var compactedSummary: String?
    private var measuredTokens: Int?
    private var accountID: String?
    private var userID: String?
    private var sessionID: String?
    /// The model of the last answer. The conversation does not keep the model of a turn that failed.
    private var model: String
    private var reasoningModel: String?
    private var compactionHash: String?
    /// The items of turns that were included without a complete answer, by the turns' ids.
    private var included: [String: [ChappieJSON]] = [:]
    /// The index of each turn in ``turns``.
    private var places: [String: Int] = [:]

    /// The id, which the backend also gets.
    public var id: String { summary.id }

    /// Returns whether a thread from elsewhere may have this id, which names files and is shown on terminals.
    @_spi(ChappieInternals) public static func canHaveID(_ id: String) -> Bool {
        (1...100).contains(id.utf8.count)
            && id.utf8.allSatisfy { $0.isASCIIAlphanumeric || $0 == UInt8(ascii: "-") }
    }

    /// Creates a thread without records.
    public init(id: String, createdAt: Date, model: String = "") {
        summary = ChappieThreadSummary(id: id, model: model, createdAt: createdAt)
        self.model = model
    }

    /// Creates a thread of these records.
    ///
    /// - Throws: ``ChappieThreadStoreError/damaged(thread:_:)`` if their positions have gaps.
    public init(id: String, records: [ChappieThreadRecord]) throws(ChappieThreadStoreError) {
        self.init(id: id, createdAt: records.first?.date ?? Date(timeIntervalSince1970: 0))
        for (position, record) in records.enumerated() {
            guard record.position == position else {
                throw .damaged(thread: id, "the record \(position) is missing")
            }
        }
        read(records)
    }

    /// Creates the end of a thread for display, from its last records.
    init(endOf summary: ChappieThreadSummary, records: [ChappieThreadRecord]) {
        self.init(id: summary.id, createdAt: summary.createdAt)
        read(records)
        self.summary = summary
        numberTurns(to: summary.turnCount)
    }

    /// Numbers the turns so that the last one has this number.
    private mutating func numberTurns(to last: Int) {
        for index in turns.indices { turns[index].number = last - turns.count + index + 1 }
    }

    /// The conversation with which the client continues.
    public var context: ChappieClientContext {
        var context = ChappieClientContext(
            sessionID: sessionID ?? id, model: model, items: items, compactedSummary: compactedSummary,
            createdAt: summary.createdAt,
            updatedAt: summary.updatedAt,
            measuredTokens: measuredTokens, accountID: accountID, userID: userID, reasoningModel: reasoningModel,
            compactionHash: compactionHash)
        context.window = compactionCount == 0 ? nil : compactionCount
        return context
    }

    /// Returns whether the conversation belongs to this account, or to no account yet.
    func belongs(to account: ChappieAccountInfo) -> Bool { context.belongs(to: account) }

    /// The last turn, if it can be resumed because it waits for an approval, was interrupted, or failed after tools
    /// were called.
    public var resumableTurn: ChappieTurn? { latestTurn.flatMap { $0.isOpen ? $0 : nil } }

    /// The last turn, without attempts that did not replace an earlier turn.
    var latestTurn: ChappieTurn? { turns.last { $0.replacedTurn == nil } }

    /// The turn that another attempt at the last question replaces. It is `nil` if the question has no answer, or an
    /// incomplete one with tool calls, about which the model must know.
    var replaceableTurn: ChappieTurn? {
        guard let last = turns.last else { return nil }
        let turn = last.replacedTurn.flatMap { places[$0] }.map { turns[$0] } ?? last
        guard turn.isPartOfConversation, turn.status == .finished || turn.toolCalls.isEmpty else { return nil }
        return turn
    }

    // MARK: Records

    /// Adds records in their order, including those that take back others.
    private mutating func read(_ records: [ChappieThreadRecord]) {
        positionsTakenBack = records.positionsTakenBack
        for record in records { read(record) }
    }

    /// Updates the thread with a record that was added.
    mutating func add(_ record: ChappieThreadRecord) {
        guard record.kind == .turnTakenBack else { return read(record) }
        // The conversation before a turn is known only from the records before it.
        var thread = ChappieThread(id: id, createdAt: summary.createdAt)
        thread.read(records + [record])
        self = thread
    }

    private mutating func read(_ record: ChappieThreadRecord) {
        records.append(record)
        summary.add(record)
        guard !positionsTakenBack.contains(record.position) else { return }
        switch record.kind {
        case .turnStarted:
            guard let id = record.turnID else { return }
            let replaced = record.body["replaces"]?.string.flatMap { places[$0] == nil ? nil : $0 }
            places[id] = turns.count
            turns.append(ChappieTurn(id: id, number: turns.count + 1, replacing: replaced, startedBy: record))
            // The items of an earlier turn belong to the account of that turn.
            if accountID == nil, items.isEmpty { setOwner(record.body) }
        case .compacted:
            guard let context = record.body["context"], turn(of: record)?.replacedTurn == nil else { return }
            items = context["items"]?.array ?? []
            compactionCount += 1
            compactedSummary = context["summary"]?.string
            if let compactedSummary { compactionSummaries.append(compactedSummary) }
            measuredTokens = nil
            reasoningModel = context["reasoningModel"]?.string
            compactionHash = context["compactionHash"]?.string
        default:
            guard let index = record.turnID.flatMap({ places[$0] }) else { return }
            // If two programs both finish a turn, the first record counts.
            guard turns[index].status != .finished else { return }
            turns[index].add(record)
            // An attempt that replaces no turn does not belong to the conversation.
            guard turns[index].replacedTurn == nil else { return }
            if record.kind == .turnFinished {
                // Another process ran the turn, and the turn was included in the meantime.
                if let early = included.removeValue(forKey: turns[index].id), let range = items.firstRange(of: early) {
                    items.removeSubrange(range)
                }
                if let model = record.keptModel { self.model = model }
                join(turns[index], record.body)
            } else if record.kind == .turnInterrupted, record.body["isIncluded"]?.bool == true {
                included[turns[index].id] = turns[index].items
                join(turns[index], record.body)
            }
        }
    }

    private func turn(of record: ChappieThreadRecord) -> ChappieTurn? {
        record.turnID.flatMap { places[$0] }.map { turns[$0] }
    }

    /// Makes a turn part of the conversation.
    private mutating func join(_ turn: ChappieTurn, _ body: ChappieJSON) {
        let isOwn = Records.account(body).map(context.belongs) ?? (accountID == nil)
        // As in the client, items that are encrypted for another account can't be used in this one.
        if body["rebuilt"]?.bool == true {
            items = history
            compactedSummary = nil
            reasoningModel = nil
            compactionHash = nil
        } else if body["droppedReasoning"]?.bool == true || !isOwn {
            items = ChappieClientContext.withoutReasoning(items)
            reasoningModel = nil
            compactionHash = nil
        } else if let writer = reasoningModel, writer != body["model"]?.string {
            items.removeAll { $0["type"]?.string == "reasoning" }
        }
        items += turn.items
        history += turn.items.filter { !ChappieClientContext.isEncrypted($0) }
        if turn.items.contains(where: ChappieClientContext.isEncrypted) { reasoningModel = body["model"]?.string }
        measuredTokens = body["measuredTokens"]?.int.map { min(max($0, 0), 1 << 40) }
        setOwner(body)
        sessionID = body["session"]?.string
    }

    private mutating func setOwner(_ body: ChappieJSON) {
        accountID = body["account"]?.string
        userID = body["accountUser"]?.string
    }

    /// Returns the thread from its last `count` turns on, for display.
    @_spi(ChappieInternals) public func last(_ count: Int) -> ChappieThread {
        guard count < turns.count, count > 0 else { return self }
        let shown = Set(turns.suffix(count).map(\.id))
        let start = records.firstIndex { $0.turnID.map(shown.contains) == true } ?? records.endIndex
        var part = ChappieThread(id: id, createdAt: summary.createdAt)
        part.read(
            records[start...].filter { record in
                !positionsTakenBack.contains(record.position) && record.turnID.map(shown.contains) ?? true
            })
        part.summary = summary
        part.numberTurns(to: turns.last?.number ?? 0)
        return part
    }

    /// Returns a copy up to the end of a turn, as a separate thread. What was taken back is left out, and so is an open
    /// turn, because it can continue in only one thread.
    func forked(at turn: Int?, id: String, now: Date) throws(ChappieRuntimeError) -> ChappieThread {
        let last = turn ?? turns.count
        guard (0...turns.count).contains(last), turn != 0 else { throw .noSuchTurn(last, of: turns.count) }
        var fork = ChappieThread(id: id, createdAt: now)
        fork.add(
            ChappieThreadRecord(
                position: 0, kind: .forked, date: now, body: ["from": .string(self.id), "turn": .integer(last)]))
        let open = Set(turns.filter(\.isOpen).map(\.id))
        let later = Set(turns.dropFirst(last).map(\.id))
        var isPast = false
        for record in records
        where record.kind != .turnTakenBack && !positionsTakenBack.contains(record.position) {
            if let turn = record.turnID {
                if later.contains(turn) { isPast = true }
                if later.contains(turn) || open.contains(turn) { continue }
            } else if isPast {
                continue
            }
            // The backend knows the copy under another id.
            var body = record.body.object
            body?["session"] = nil
            if record.kind == .archived || record.kind == .unarchived || record.kind == .forked { continue }
            fork.add(
                ChappieThreadRecord(
                    position: fork.records.count, kind: record.kind, date: record.date,
                    body: body.map(ChappieJSON.object) ?? record.body))
        }
        return fork
    }

    // MARK: As JSON

    private static let format = "chappie.thread"
    private static let dates = Date.ISO8601FormatStyle(includingFractionalSeconds: true)

    /// Formats a date in milliseconds. The style rounds down, and a millisecond as a binary fraction may be too small.
    private static func text(_ date: Date) -> String { (date + 0.0004).formatted(dates) }

    /// The complete thread as an object with `format`, `version`, `id`, the facts for lists, and `records`.
    public var json: ChappieJSONValue {
        var object = ChappieJSONObject([
            ("format", .string(Self.format)), ("version", 1), ("id", .string(id)),
            ("title", summary.title.map { .string($0) } ?? .null), ("model", .string(summary.model)),
            ("createdAt", .string(Self.text(summary.createdAt))),
            ("updatedAt", .string(Self.text(summary.updatedAt))), ("isArchived", .bool(summary.isArchived)),
        ])
        object["records"] = .array(records.map(Self.json(of:)))
        return .object(object)
    }

    /// Returns a record as JSON, as in ``json``. This is a line of an export as JSON lines.
    public static func json(of record: ChappieThreadRecord) -> ChappieJSONValue {
        [
            "position": .integer(record.position), "kind": .string(record.kind.rawValue),
            "date": .string(text(record.date)), "body": record.body,
        ]
    }

    /// Creates a thread from the form of ``json``. Only the list of records counts.
    ///
    /// - Throws: ``ChappieThreadStoreError``. `damaged` names the mistake and its place. `tooNew` is for a later
    ///   version.
    public init(json: ChappieJSONValue) throws(ChappieThreadStoreError) {
        guard json["format"]?.string == Self.format, let id = json["id"]?.string, !id.isEmpty,
            let list = json["records"]?.array
        else { throw .damaged(thread: nil, "it is not an exported thread") }
        if let version = json["version"]?.int, version > 1 { throw .tooNew(found: version, known: 1) }
        var records: [ChappieThreadRecord] = []
        for (index, json) in list.enumerated() {
            guard let position = json["position"]?.int, let kind = json["kind"]?.string, kind.utf8.count <= 100,
                let date = json["date"]?.string.flatMap({ try? Self.dates.parse($0) }), let body = json["body"]
            else { throw .damaged(thread: id, "records[\(index)] has no valid position, kind, date or body") }
            records.append(ChappieThreadRecord(position: position, kind: .init(rawValue: kind), date: date, body: body))
        }
        try self.init(id: id, records: records)
    }
}
