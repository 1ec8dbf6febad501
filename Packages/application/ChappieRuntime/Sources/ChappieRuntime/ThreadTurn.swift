@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieClient
@_spi(ChappieInternals) public import ChappieCore
import ChappieJSONSchema

/// A turn of a thread, with a question, its tool calls and an answer.
public struct ChappieTurn: Sendable, Hashable, Identifiable {
    /// The status of a turn. Unknown values are kept.
    public struct Status: RawRepresentable, Sendable, Hashable, Codable {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The turn has begun and has not ended. A program works on it, or the program ended without a record.
        public static let running = Status(rawValue: "running")
        /// The turn has its answer, and belongs to the conversation.
        public static let finished = Status(rawValue: "finished")
        /// The turn ended in an error. If the model had written or done anything, the turn belongs to the conversation
        /// from the next turn on.
        public static let failed = Status(rawValue: "failed")
        /// The turn was interrupted, and can be resumed. From the next turn on, it belongs to the conversation.
        public static let interrupted = Status(rawValue: "interrupted")
        /// Some of the turn's tool calls wait for the user.
        public static let waitingForApproval = Status(rawValue: "waiting_for_approval")
    }

    /// A tool call of a turn.
    public struct ToolCall: Sendable, Hashable, Identifiable {
        /// The call, with the arguments that were used.
        public var call: ChappieToolCall
        /// Whether the call has begun. A call that has begun and has no ``result`` may or may not have run.
        public var hasStarted = false
        /// The result with which the call ended.
        public var result: ChappieToolExecutionResult?

        /// The call's id.
        public var id: String { call.callID }
    }

    /// The turn's id.
    public let id: String
    /// The turn's position among the thread's turns, counted from 1.
    public internal(set) var number: Int
    /// The status of the turn.
    public private(set) var status = Status.running
    /// The time when the turn began.
    public let startedAt: Date
    /// The time when the turn ended or was interrupted.
    public private(set) var endedAt: Date?
    /// The model that was asked.
    public private(set) var model: String
    /// The model that answered, if the service names another one than ``model``.
    public private(set) var answeringModel: String?
    /// The messages of the user or the program with which the turn began.
    public let messages: [ChappieInputMessage]
    /// The messages that the user sent while the turn was running, in order. ``items`` shows where they joined the turn.
    public private(set) var steeringMessages: [ChappieInputMessage] = []
    /// The answer's text. For a turn that ended early, it is the text that was shown.
    public private(set) var outputText = ""
    /// The model's messages about its work, separated by blank lines. Empty if there are none.
    public var commentary: String { items.map(ChappieOutputItem.init).commentary }
    /// The tool calls, in order.
    public private(set) var toolCalls: [ToolCall] = []
    /// Everything that the turn adds to the conversation, in the backend's form.
    public private(set) var items: [ChappieJSONValue]
    /// The items of the last answer, including those that are not sent back.
    public private(set) var outputItems: [ChappieOutputItem] = []
    /// The questions that wait for the user.
    public private(set) var approvals: [ChappieApprovalRequest] = []
    /// The tokens that the turn used.
    public private(set) var usage: ChappieTokenUsage?
    /// The error, as a sentence.
    public private(set) var error: String?
    /// The backend's id of the last answer.
    public private(set) var responseID: String?
    /// The reason why the answer ended early, in the backend's spelling.
    public private(set) var incompleteReason: String?

    /// The account that works on the turn, or `nil` if no record names one.
    private var account: ChappieAccountInfo?
    /// The number of times that a program has taken over the turn.
    private(set) var resumptions = 0
    /// The id of the turn that this attempt replaces as soon as the model calls tools or the answer is complete. Until
    /// then, and if the attempt fails, it does not belong to the conversation.
    let replacedTurn: String?
    /// Whether the turn belongs to the conversation, or will belong to it from the next turn on.
    public var isPartOfConversation: Bool {
        replacedTurn == nil && (status == .finished || isIncluded || isToBeIncluded)
    }
    /// Whether the turn can be resumed.
    var isOpen: Bool {
        guard !isIncluded else { return false }
        return [.waitingForApproval, .interrupted, .running].contains(status)
            || status == .failed && !toolCalls.isEmpty
    }
    /// Whether the turn belongs to the conversation although it has no complete answer.
    private(set) var isIncluded = false
    /// Whether the next turn makes this turn part of the conversation. A turn that failed before the model wrote or did
    /// anything is left out.
    var isToBeIncluded: Bool { isOpen || !isIncluded && status == .failed && items.count > questionCount }
    /// Whether the items end as those of a turn that ended early.
    private var hasEnd = false
    /// The number of items that are from the user or the program.
    private let questionCount: Int
    /// The number of items from which a resumed turn continues.
    private var resumableCount: Int
    /// The request that began the turn.
    private let request: ChappieResponseRequest
    /// The record that began the open round of tool calls.
    private var round: ChappieJSON?

    init(id: String, number: Int, replacing replacedTurn: String?, startedBy record: ChappieThreadRecord) {
        self.id = id
        self.number = number
        self.replacedTurn = replacedTurn
        startedAt = record.date
        model = record.body["model"]?.string ?? ""
        account = Records.account(record.body)
        items = record.body["messages"]?.array ?? []
        questionCount = items.count
        resumableCount = items.count
        let options: ChappieMessageOptions = Records.value(record.body["options"]) ?? ChappieMessageOptions()
        var messages = items.compactMap(ChappieInputMessage.init(item:))
        if let last = messages.indices.last { messages[last].options = options }
        self.messages = messages
        request = ChappieResponseRequest(
            messages: messages, options: options,
            model: record.body["isNamed"] == true ? model : nil,
            outputSchema: record.body["schema"].map(ChappieJSONSchema.init))
    }

    mutating func add(_ record: ChappieThreadRecord) {
        let body = record.body
        switch record.kind {
        case .toolsCalled:
            add(items: body)
            resumableCount = items.count
            round = body
            if let model = body["frame"]?["model"]?.string, !model.isEmpty { self.model = model }
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
                // The user refused the call in one program after another program had run it.
                guard !$0.hasStarted || ![.denied, .answered].contains(result.outcome) else { return }
                $0.call = result.call
                $0.result = result
            }
        case .turnSteered:
            if let message = body["message"].flatMap(ChappieInputMessage.init(item:)) {
                steeringMessages.append(message)
            }
        case .approvalPending:
            approvals = Records.values(body["approvals"])
            status = .waitingForApproval
        case .turnResumed:
            resumptions += 1
            account = Records.account(body) ?? account
            status = .running
            approvals = []
            endedAt = nil
            error = nil
            outputText = ""
            hasEnd = false
            items = Array(items.prefix(resumableCount))
        case .turnFinished:
            add(items: body)
            if let model = body["model"]?.string { self.model = model }
            answeringModel = body["answeredBy"]?.string
            outputItems = Records.output(body, of: items)
            outputText = body["text"]?.string ?? ChappieResponse(items: outputItems).outputText
            usage = Records.value(body["usage"])
            responseID = body["response"]?.string
            incompleteReason = body["incompleteReason"]?.string
            end(.finished, record)
        case .turnFailed:
            error = body["error"]?.string
            add(partial: body)
            end(.failed, record)
        case .turnInterrupted:
            add(partial: body)
            if body["isIncluded"]?.bool == true { isIncluded = true }
            // A turn that has failed had already ended.
            if status != .failed { end(.interrupted, record) }
        default: break
        }
    }

    private mutating func end(_ status: Status, _ record: ChappieThreadRecord) {
        self.status = status
        endedAt = record.date
        if status == .finished { (error, approvals) = (nil, []) }
    }

    private mutating func add(items body: ChappieJSON) {
        items.removeSubrange(min(max(body["from"]?.int ?? items.count, 0), items.count)...)
        items += (body["items"]?.array ?? []).map(restored)
    }

    /// Adds the text and the calls that the model had written when the turn ended.
    private mutating func add(partial body: ChappieJSON) {
        guard body["items"] != nil else { return }
        add(items: body)
        hasEnd = true
        if let text = body["text"]?.string { outputText = text }
        if let model = body["model"]?.string, !model.isEmpty { self.model = model }
    }

    private mutating func change(_ callID: String, _ change: (inout ToolCall) -> Void) {
        if let index = toolCalls.lastIndex(where: { $0.id == callID }) { change(&toolCalls[index]) }
    }

    /// The turn as questions and answers. There are several if the user sent messages while the turn was running: a
    /// message that came after an answer begins another exchange, and others belong to the question before them.
    public var exchanges: [(messages: [ChappieInputMessage], answer: String)] {
        var done: [(messages: [ChappieInputMessage], answer: String)] = []
        var asked = messages
        var answer = ""
        var left = steeringMessages
        for item in items.dropFirst(questionCount).map(ChappieOutputItem.init) where item.type == "message" {
            if item.json["role"]?.string == "assistant", item.phase != .commentary { answer += item.text }
            guard let index = left.firstIndex(where: { $0.inputItem == item.json }) else { continue }
            if !answer.isEmpty {
                done.append((asked, answer))
                asked = []
                answer = ""
            }
            asked.append(left.remove(at: index))
        }
        // An interrupted turn has the text that was shown, which may be the answer to an earlier message.
        let shown = outputText == done.last?.answer ? answer : outputText
        return done + [(asked + left, shown)]
    }

    // MARK: Going on

    /// The answer as a response, with the data that was kept.
    public var response: ChappieResponse {
        var response = ChappieResponse(
            id: responseID ?? "", status: incompleteReason == nil ? .completed : .incomplete, model: model,
            outputText: outputText, items: outputItems, usage: usage, incompleteReason: incompleteReason)
        response.commentary = commentary
        response.toolOutputs = ServiceOutputs(in: items)
        return response
    }

    /// The pages that the answer cites. If it cites none, these are the pages that the turn's searches found.
    public var sources: [ChappieSource] { response.sources }
    /// The pictures that the service made in the turn: those of its tool, and those that it made within an answer.
    public var images: [ChappieGeneratedImage] {
        response.images
            + items.filter { $0["type"] == "image_generation_call" }.compactMap { item in
                let url = "data:;base64," + (item["result"]?.string ?? "")
                return ChappieGeneratedImage(part: ["type": "input_image", "image_url": .string(url)])
            }
    }

    /// Returns the work that continues the turn. A call that has begun and has no result is not run again. The model is
    /// informed that its outcome is unknown. Another account continues without the reasoning of the first account.
    ///
    /// - Throws: ``ChappieRuntimeError/nothingToResume`` if the calls can't be read because a newer version wrote them.
    ///   If the model were asked again, it might repeat them.
    func remainder(
        in context: ChappieClientContext, _ decisions: [String: ChappieApprovalDecision], by account: ChappieAccountInfo
    ) throws(ChappieRuntimeError) -> ChappieTurnWork {
        guard let round else {
            var request = request
            request.messages += unsentMessages
            return .new(request)
        }
        let isOwn = self.account?.isSameAccount(as: account) ?? context.belongs(to: account)
        let known = items.prefix(resumableCount)
        let items = isOwn ? Array(known) : known.filter { !ChappieClientContext.isEncrypted($0) }
        let calls: [ChappieToolCall] = Records.values(round["calls"])
        guard calls.count == round["calls"]?.array?.count, let number = round["round"]?.int,
            let frame = round["frame"]?.serialized(),
            let progress = try? TurnProgress(
                calls: calls, items: items + unsentMessages.map(\.inputItem), round: number, frameText: frame)
        else { throw .nothingToResume }
        let completed = progress.calls.compactMap { call -> ChappieToolExecutionResult? in
            guard let made = toolCalls.last(where: { $0.id == call.callID }) else { return nil }
            if let result = made.result { return result }
            guard made.hasStarted else { return nil }
            return .interrupted(made.call, hasStarted: true)
        }
        return .resumption(
            ChappiePendingTurn(approvals: approvals, completed: completed, context: context, progress: progress),
            decisions: decisions)
    }
}

// MARK: Ending early

extension ChappieTurn {
    /// The items with which the turn becomes part of the conversation. Each call has a result, and the last item is a
    /// message to the model.
    var itemsSoFar: [ChappieJSON] {
        guard !hasEnd else { return items + unsentMessages.map(\.inputItem) }
        let results = ChappieToolExecutionResult.missing(in: items) { id in
            guard let made = toolCalls.last(where: { $0.id == id }) else { return nil }
            return made.result ?? (made.hasStarted ? .interrupted(made.call, hasStarted: true) : nil)
        } hasStarted: { _ in
            false
        }
        return items + results.map(\.inputItem) + unsentMessages.map(\.inputItem) + [Self.endItem]
    }

    /// The messages that the user sent while the turn was running, and that no request has contained as far as is known.
    private var unsentMessages: [ChappieInputMessage] {
        var left = items.dropFirst(questionCount)
        return steeringMessages.filter { message in
            guard let place = left.firstIndex(of: message.inputItem) else { return true }
            left = left[(place + 1)...]
            return false
        }
    }

    /// The names of the tools that may have run and have no result.
    var toolsWithoutResult: [String] {
        toolCalls.filter { $0.hasStarted && $0.result == nil }.map(\.call.name)
    }

    private static let endItem = ChappieInputMessage.developer(
        "This turn was interrupted before the answer was complete. The text above is all that is known about it."
    ).inputItem

    func noteAccount(in body: inout ChappieJSONObject) {
        Records.note(&body, account?.ownerID, account?.userID)
    }
}

// MARK: Writing

extension ChappieTurn {
    /// Returns the body of the record that a turn begins with.
    ///
    /// - Parameter replaced: The turn that this turn is to replace.
    static func body(
        of request: ChappieResponseRequest, id: String, replacing replaced: ChappieTurn?, model: String,
        account: ChappieAccountInfo
    ) -> ChappieJSON {
        var body: ChappieJSONObject = [
            "turn": .string(id), "messages": .array(request.messages.map(\.inputItem)),
            "options": Records.json(request.turnOptions),
        ]
        if let question = request.question { body["question"] = .string(question) }
        if let schema = request.outputSchema { body["schema"] = schema.json }
        if !model.isEmpty { body["model"] = .string(model) }
        if request.model != nil { body["isNamed"] = true }
        if let replaced { body["replaces"] = .string(replaced.id) }
        Records.note(&body, account.ownerID, account.userID)
        return .object(body)
    }
}
