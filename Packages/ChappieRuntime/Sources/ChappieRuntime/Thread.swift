@_spi(ChappieInternals) public import ChappieClient
@_spi(ChappieInternals) public import ChappieCore

/// A thread, whole: everything that was said and done in it, as its records tell.
///
/// ```swift
/// let thread = try await runtime.openThread(id)
/// for turn in thread.turns { print(turn.messages.first?.text ?? "", "→", turn.outputText) }
/// try Data(thread.json.serializedBytes()).write(to: file)        // complete; `ChappieThread(json:)` reads it
/// ```
public struct ChappieThread: Sendable, Hashable, Identifiable {
    /// What lists show of it.
    public private(set) var summary: ChappieThreadSummary
    /// What happened, in order.
    public private(set) var records: [ChappieThreadRecord] = []
    /// The turns, in the order in which they began.
    public private(set) var turns: [ChappieTurn] = []
    /// What compactions made of the conversation, where it is words.
    public private(set) var compactionSummaries: [String] = []

    /// The conversation so far.
    private var items: [ChappieJSON] = []
    private var compactedSummary: String?
    private var measuredTokens: Int?
    private(set) var accountID: String?
    private var sessionID: String?
    private var reasoningModel: String?
    /// Where each turn is in ``turns``.
    private var places: [String: Int] = [:]

    /// The id; the backend is told it as well.
    public var id: String { summary.id }

    /// A thread without records.
    public init(id: String, createdAt: Date, model: String = "") {
        summary = ChappieThreadSummary(id: id, model: model, createdAt: createdAt)
    }

    /// A thread of these records.
    ///
    /// - Throws: ``ChappieThreadStoreError/damaged(thread:_:)`` when their positions have gaps.
    public init(id: String, records: [ChappieThreadRecord]) throws(ChappieThreadStoreError) {
        self.init(id: id, createdAt: records.first?.date ?? Date(timeIntervalSince1970: 0))
        for (position, record) in records.enumerated() {
            guard record.position == position else {
                throw .damaged(thread: id, "the record \(position) is missing")
            }
            add(record)
        }
    }

    /// The conversation as the client goes on with it.
    public var context: ChappieClientContext {
        ChappieClientContext(
            sessionID: sessionID ?? id, model: summary.model.isEmpty ? ChappieClient.defaultModel : summary.model,
            items: items, compactedSummary: compactedSummary, createdAt: summary.createdAt,
            updatedAt: summary.updatedAt,
            measuredTokens: measuredTokens, accountID: accountID, reasoningModel: reasoningModel)
    }

    /// The last turn, where it can be gone on with: it waits for an approval, was cut, or failed after tools were called,
    /// which a new turn would call again.
    public var resumableTurn: ChappieTurn? { turns.last.flatMap { $0.isOpen ? $0 : nil } }

    // MARK: Records

    /// Follows a record that was added.
    mutating func add(_ record: ChappieThreadRecord) {
        records.append(record)
        summary.add(record)
        switch record.kind {
        case .turnStarted:
            guard let id = record.turnID else { return }
            places[id] = turns.count
            turns.append(ChappieTurn(id: id, number: turns.count + 1, startedBy: record))
        case .compacted:
            guard let context = record.body["context"] else { return }
            items = context["items"]?.array ?? []
            compactedSummary = context["summary"]?.string
            if let compactedSummary { compactionSummaries.append(compactedSummary) }
            measuredTokens = nil
            reasoningModel = context["reasoningModel"]?.string
        default:
            guard let index = record.turnID.flatMap({ places[$0] }) else { return }
            // Of two programs that both finish a turn, the first has it.
            guard turns[index].status != .finished else { return }
            turns[index].add(record)
            if record.kind == .turnFinished { join(turns[index], record.body) }
        }
    }

    /// A finished turn becomes part of the conversation.
    private mutating func join(_ turn: ChappieTurn, _ body: ChappieJSON) {
        let account = body["account"]?.string
        // Like the client: what is encrypted for another account is of no use in this one.
        if body["droppedReasoning"]?.bool == true || accountID != nil && account != accountID {
            items.removeAll(where: ChappieClientContext.isEncrypted)
            reasoningModel = nil
        }
        items += turn.items
        if turn.items.contains(where: ChappieClientContext.isEncrypted) { reasoningModel = body["model"]?.string }
        measuredTokens = body["measuredTokens"]?.int
        accountID = account
        sessionID = body["session"]?.string
    }

    /// A copy up to the end of a turn, in a thread of its own. An open turn is left out: it goes on in one thread alone.
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
        for record in records {
            if let turn = record.turnID {
                if later.contains(turn) { isPast = true }
                if later.contains(turn) || open.contains(turn) { continue }
            } else if isPast {
                continue
            }
            // The backend knows the copy by an id of its own.
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

    /// The style cuts, and a millisecond as a binary fraction may be a little less than one.
    private static func text(_ date: Date) -> String { (date + 0.0004).formatted(dates) }

    /// The whole thread, nothing left out: an object with `format`, `version`, `id`, what lists show, and `records`.
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

    /// One record as JSON, as in ``json``: a line of an export as JSON lines.
    public static func json(of record: ChappieThreadRecord) -> ChappieJSONValue {
        [
            "position": .integer(record.position), "kind": .string(record.kind.rawValue),
            "date": .string(text(record.date)), "body": record.body,
        ]
    }

    /// Reads what ``json`` gives; the list of records alone counts.
    ///
    /// - Throws: ``ChappieThreadStoreError``: `damaged` says what is wrong where, `tooNew` is for a later version.
    public init(json: ChappieJSONValue) throws(ChappieThreadStoreError) {
        guard json["format"]?.string == Self.format, let id = json["id"]?.string, !id.isEmpty,
            let list = json["records"]?.array
        else { throw .damaged(thread: nil, "it is no exported thread") }
        if let version = json["version"]?.int, version > 1 { throw .tooNew(found: version, known: 1) }
        var records: [ChappieThreadRecord] = []
        for (index, json) in list.enumerated() {
            guard let position = json["position"]?.int, let kind = json["kind"]?.string,
                let date = json["date"]?.string.flatMap({ try? Self.dates.parse($0) }), let body = json["body"]
            else { throw .damaged(thread: id, "records[\(index)] lacks its position, kind, date or body") }
            records.append(ChappieThreadRecord(position: position, kind: .init(rawValue: kind), date: date, body: body))
        }
        try self.init(id: id, records: records)
    }
}

/// A turn of a thread: a question, what tools did for it, an answer.
public struct ChappieTurn: Sendable, Hashable, Identifiable {
    /// How a turn stands; unknown values survive.
    public struct Status: RawRepresentable, Sendable, Hashable, Codable {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }

        /// It has begun and has no end: a program works on it, or ended without a word.
        public static let running = Status(rawValue: "running")
        /// It is part of the conversation.
        public static let finished = Status(rawValue: "finished")
        /// It ended in an error, and is no part of the conversation.
        public static let failed = Status(rawValue: "failed")
        /// It was cut, and can be gone on with.
        public static let interrupted = Status(rawValue: "interrupted")
        /// Tool calls of it wait for the user.
        public static let waitingForApproval = Status(rawValue: "waiting_for_approval")
    }

    /// A tool call of a turn.
    public struct ToolCall: Sendable, Hashable, Identifiable {
        /// The call, with the arguments that were used.
        public var call: ChappieToolCall
        /// Whether it was begun. What was begun and has no ``result`` may have been carried out, or not.
        public var hasStarted = false
        /// How it ended.
        public var result: ChappieToolExecutionResult?

        /// The call's id.
        public var id: String { call.callID }
    }

    /// The turn's id.
    public let id: String
    /// The place among the thread's turns, counted from 1.
    public let number: Int
    /// How it stands.
    public private(set) var status = Status.running
    /// When it began.
    public let startedAt: Date
    /// When it ended, or was cut.
    public private(set) var endedAt: Date?
    /// The model that was asked.
    public private(set) var model: String
    /// What the user, or the program, said.
    public let messages: [ChappieInputMessage]
    /// The answer's text; empty before it is whole.
    public private(set) var outputText = ""
    /// The tool calls, in order.
    public private(set) var toolCalls: [ToolCall] = []
    /// Everything that the turn adds to the conversation, as the backend takes it.
    public private(set) var items: [ChappieJSONValue]
    /// The items of the last answer, those included that are not sent back.
    public private(set) var outputItems: [ChappieOutputItem] = []
    /// The questions that wait for the user.
    public private(set) var approvals: [ChappieApprovalRequest] = []
    /// The tokens that it took.
    public private(set) var usage: ChappieTokenUsage?
    /// What went wrong, as a sentence.
    public private(set) var error: String?
    /// The backend's id of the last answer.
    public private(set) var responseID: String?
    /// Whether the answer ended early, in the backend's word why.
    public private(set) var incompleteReason: String?

    /// How often a program has taken the turn over.
    private(set) var resumptions = 0
    /// Whether it can be gone on with.
    var isOpen: Bool {
        [.waitingForApproval, .interrupted, .running].contains(status) || status == .failed && !toolCalls.isEmpty
    }
    /// What was asked.
    private let request: ChappieResponseRequest
    /// The record that began the open round of tool calls.
    private var round: ChappieJSON?

    init(id: String, number: Int, startedBy record: ChappieThreadRecord) {
        self.id = id
        self.number = number
        startedAt = record.date
        model = record.body["model"]?.string ?? ""
        items = record.body["messages"]?.array ?? []
        let options: ChappieMessageOptions = Records.value(record.body["options"]) ?? ChappieMessageOptions()
        var messages = items.compactMap(ChappieInputMessage.init(item:))
        if let last = messages.indices.last { messages[last].options = options }
        self.messages = messages
        request = ChappieResponseRequest(
            messages: messages, options: options,
            model: model.isEmpty ? nil : model, outputSchema: record.body["schema"].map(ChappieJSONSchema.init))
    }

    mutating func add(_ record: ChappieThreadRecord) {
        let body = record.body
        switch record.kind {
        case .toolsCalled:
            add(items: body)
            round = body
            toolCalls += Records.values(body["calls"]).map { ToolCall(call: $0) }
        case .toolsStarted:
            for call: ChappieToolCall in Records.values(body["calls"]) {
                change(call.callID) {
                    $0.call = call
                    $0.hasStarted = true
                }
            }
        case .toolFinished:
            guard let result: ChappieToolExecutionResult = Records.value(body["result"]) else { return }
            change(result.call.callID) {
                $0.call = result.call
                $0.result = result
            }
        case .approvalPending:
            approvals = Records.values(body["approvals"])
            status = .waitingForApproval
        case .turnResumed:
            resumptions += 1
            (status, approvals, endedAt, error) = (.running, [], nil, nil)
        case .turnFinished:
            add(items: body)
            if let model = body["model"]?.string { self.model = model }
            outputItems = (body["output"]?.array ?? []).map(ChappieOutputItem.init)
            outputText = body["text"]?.string ?? ""
            usage = Records.value(body["usage"])
            responseID = body["response"]?.string
            incompleteReason = body["incompleteReason"]?.string
            end(.finished, record)
        case .turnFailed:
            error = body["error"]?.string
            end(.failed, record)
        case .turnInterrupted: end(.interrupted, record)
        default: break
        }
    }

    private mutating func end(_ status: Status, _ record: ChappieThreadRecord) {
        self.status = status
        endedAt = record.date
        if status == .finished { (error, approvals) = (nil, []) }
    }

    private mutating func add(items body: ChappieJSON) {
        items = Array(items.prefix(max(body["from"]?.int ?? items.count, 0))) + (body["items"]?.array ?? [])
    }

    private mutating func change(_ callID: String, _ change: (inout ToolCall) -> Void) {
        if let index = toolCalls.lastIndex(where: { $0.id == callID }) { change(&toolCalls[index]) }
    }

    // MARK: Going on

    /// The answer as a response, as far as it was kept.
    public var response: ChappieResponse {
        ChappieResponse(
            id: responseID ?? "", status: incompleteReason == nil ? .completed : .incomplete, model: model,
            outputText: outputText, items: outputItems, usage: usage, incompleteReason: incompleteReason)
    }

    /// The work that goes on with the turn. A call that was begun and has no result is not made again: the model is told
    /// that nobody knows.
    ///
    /// - Throws: where the calls can't be read, because a newer version wrote them: to ask anew might repeat them.
    func remainder(
        in context: ChappieClientContext, _ decisions: [String: ChappieApprovalDecision]
    ) throws(ChappieRuntimeError) -> TurnJob {
        guard let round else { return .new(request) }
        let calls: [ChappieToolCall] = Records.values(round["calls"])
        guard calls.count == round["calls"]?.array?.count, let number = round["round"]?.int,
            let frame = round["frame"]?.serialized(),
            let progress = try? TurnProgress(calls: calls, items: items, round: number, frameText: frame)
        else { throw .nothingToResume }
        let completed = progress.calls.compactMap { call -> ChappieToolExecutionResult? in
            guard let made = toolCalls.last(where: { $0.id == call.callID }) else { return nil }
            if let result = made.result { return result }
            guard made.hasStarted else { return nil }
            return ChappieToolExecutionResult(
                call: made.call, outcome: .interrupted,
                result: ChappieToolResult(
                    output: """
                        The program ended while this tool ran. It may have done its work, or a part of it; it was not run \
                        again.
                        """, isError: true))
        }
        return .resumed(
            ChappiePendingTurn(approvals: approvals, completed: completed, context: context, progress: progress),
            decisions)
    }
}

extension ChappieToolExecutionResult.Outcome {
    /// The program ended while the handler ran: nobody knows how far it came.
    public static let interrupted = Self(rawValue: "interrupted")
}

/// Values in records.
enum Records {
    static func value<Value: Decodable>(_ json: ChappieJSON?) -> Value? {
        json.flatMap { try? JSONDecoder().decode(Value.self, from: Data($0.serializedBytes())) }
    }

    static func values<Value: Decodable>(_ json: ChappieJSON?) -> [Value] {
        (json?.array ?? []).compactMap { value($0) }
    }

    static func json(_ value: some Encodable) -> ChappieJSON {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        return (try? encoder.encode(value)).flatMap { try? ChappieJSON(parsing: Array($0)) } ?? .null
    }
}
