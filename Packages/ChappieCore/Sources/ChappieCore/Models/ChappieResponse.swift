/// A response, whole or as far as it came.
public struct ChappieResponse: Sendable, Hashable, Codable {
    /// The backend's id; empty when it sent none.
    public var id: String
    /// How far the response has come.
    public var status: ChappieResponseStatus
    /// The model that answered, as the backend says.
    public var model: String?
    /// The answer: the text of the messages in ``items``, in order, without commentary. If messages say that they are the
    /// answer, it is their text alone; if a turn ends with nothing but commentary, that is the answer.
    public var outputText: String
    /// What the model said while it worked, in the whole turn: its messages, with a blank line between two; empty if there
    /// are none.
    public var commentary: String {
        get { progress ?? "" }
        set { progress = newValue.isEmpty ? nil : newValue }
    }
    /// The sentences with which the model refused, instead of an answer or beside it; empty as a rule.
    public var refusals: [String] {
        items.filter { $0.type == "message" }.flatMap { $0.json["content"]?.array ?? [] }.compactMap { part in
            part["type"]?.string == "refusal" ? part["refusal"]?.string : nil
        }
    }
    /// Optional, so that responses without it can be decoded.
    private var progress: String?
    /// The items that were completed, in order, unknown ones included.
    public var items: [ChappieOutputItem]
    /// The tokens that it took.
    public var usage: ChappieTokenUsage?
    /// Why it failed.
    public var error: ChappieResponseError?
    /// Why an incomplete response ended, in the backend's word: `max_output_tokens`, `content_filter`, …
    public var incompleteReason: String?
    /// The name under which the server knows the exchange (`x-request-id`): for a question to its operator. Over a kept
    /// WebSocket it is that of the opening handshake.
    public var requestID: String?
    /// The response object as it came.
    public var raw: ChappieJSON

    /// A response with the given properties; its words are those of `items` unless `outputText` says otherwise.
    public init(
        id: String = "", status: ChappieResponseStatus = .completed, model: String? = nil, outputText: String? = nil,
        items: [ChappieOutputItem] = [], usage: ChappieTokenUsage? = nil, error: ChappieResponseError? = nil,
        incompleteReason: String? = nil, requestID: String? = nil, raw: ChappieJSON = .null
    ) {
        self.id = id
        self.status = status
        self.model = model
        self.outputText = outputText ?? items.answer
        self.items = items
        self.usage = usage
        self.error = error
        self.incompleteReason = incompleteReason
        self.requestID = requestID
        self.raw = raw
        commentary = items.commentary
    }

    private enum CodingKeys: String, CodingKey {
        case id, status, model, outputText, items, usage, error, incompleteReason, requestID, raw
        case progress = "commentary"
    }
}

@_spi(ChappieInternals) extension ChappieResponse {
    /// Reads a response object; `fallback` is its status when it does not say.
    public init(_ json: ChappieJSON, _ fallback: ChappieResponseStatus) {
        self.init(
            id: json["id"]?.string ?? "",
            status: json["status"]?.string.map(ChappieResponseStatus.init(rawValue:)) ?? fallback,
            model: json["model"]?.string, items: (json["output"]?.array ?? []).map(ChappieOutputItem.init),
            usage: json["usage"].flatMap { $0.object == nil ? nil : ChappieTokenUsage($0) },
            error: json["error"].flatMap { $0.isNull ? nil : ChappieResponseError($0) },
            incompleteReason: json["incomplete_details"]?["reason"]?.string, raw: json)
    }

    /// The same response with the items that its stream delivered; those win over the ones in the object, and their words
    /// over `text` and `commentary`.
    public func with(items streamed: [ChappieOutputItem], text: String, commentary: String = "") -> ChappieResponse {
        var response = self
        if !streamed.isEmpty { response.items = streamed }
        response.outputText = response.items.answer
        if response.outputText.isEmpty { response.outputText = text }
        response.commentary = response.items.commentary
        if response.commentary.isEmpty { response.commentary = commentary }
        let saysMore = response.items.contains { $0.isToolCall || $0.type == "message" && $0.phase != .commentary }
        if status == .completed, !wantsToGoOn, !saysMore, response.outputText.isEmpty {
            response.outputText = response.commentary
        }
        return response
    }

    /// Whether the model wants to be asked again at once, with what it has said.
    public var wantsToGoOn: Bool { status == .completed && raw["end_turn"] == false }
}

extension [ChappieOutputItem] {
    /// The text of the messages that say that they are the answer; without one, of those that are no commentary.
    fileprivate var answer: String {
        let answers = filter { $0.phase == .finalAnswer || $0.phase == .partialAnswer }
        return (answers.isEmpty ? filter { $0.phase != .commentary } : answers).map(\.text).joined()
    }

    /// The text of the messages that say that they are commentary, a blank line between them.
    @_spi(ChappieInternals) public var commentary: String {
        filter { $0.phase == .commentary }.map(\.text).filter { !$0.isEmpty }.joined(separator: "\n\n")
    }
}

/// The part that a message has in the model's work; unknown values survive.
public struct ChappieMessagePhase: RawRepresentable, Sendable, Hashable, Codable {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }

    /// It says what the model is doing.
    public static let commentary = ChappieMessagePhase(rawValue: "commentary")
    /// It is a part of the answer.
    public static let partialAnswer = ChappieMessagePhase(rawValue: "partial_answer")
    /// It is the answer.
    public static let finalAnswer = ChappieMessagePhase(rawValue: "final_answer")
}

/// How far a response has come; unknown values survive.
public struct ChappieResponseStatus: RawRepresentable, Sendable, Hashable, Codable {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }

    /// The answer is still being written.
    public static let inProgress = ChappieResponseStatus(rawValue: "in_progress")
    /// The answer is whole.
    public static let completed = ChappieResponseStatus(rawValue: "completed")
    /// There is no answer; ``ChappieResponse/error`` says why.
    public static let failed = ChappieResponseStatus(rawValue: "failed")
    /// Ended early, for example at a length limit or a content filter; the text so far is there.
    public static let incomplete = ChappieResponseStatus(rawValue: "incomplete")
    /// Ended by the caller.
    public static let cancelled = ChappieResponseStatus(rawValue: "cancelled")
}

/// One item of a response: a message, reasoning, a tool call, or something this version does not know.
///
/// The JSON is kept whole, so that an item goes back to the backend exactly as it came.
public struct ChappieOutputItem: Sendable, Hashable, Codable {
    /// The item as the backend sent it.
    public let json: ChappieJSON

    /// An item as the backend sends it.
    public init(_ json: ChappieJSON) { self.json = json }

    /// The kind of item: `message`, `reasoning`, `function_call`, `custom_tool_call`, …; empty when it has none.
    public var type: String { json["type"]?.string ?? "" }
    public var id: String? { json["id"]?.string }
    /// The name of the tool that a call is for.
    public var name: String? { json["name"]?.string }
    /// The id that a tool's result must name.
    public var callID: String? { json["call_id"]?.string }

    /// The text of a message, its `output_text` parts joined; empty for other items.
    public var text: String {
        guard type == "message", let parts = json["content"]?.array else { return "" }
        return parts.reduce(into: "") { text, part in
            if part["type"]?.string == "output_text" { text += part["text"]?.string ?? "" }
        }
    }

    /// The part that a message has in the model's work; `nil` for other items, and where the backend does not say.
    public var phase: ChappieMessagePhase? {
        guard type == "message" else { return nil }
        return json["phase"]?.string.map(ChappieMessagePhase.init(rawValue:))
    }

    /// Whether the model asks the host to run something.
    public var isToolCall: Bool { type == "function_call" || type == "custom_tool_call" }

    /// Decodes the bare JSON of the item.
    public init(from decoder: any Decoder) throws { json = try ChappieJSON(from: decoder) }
    public func encode(to encoder: any Encoder) throws { try json.encode(to: encoder) }
}

/// Tokens that one response took; zero where the backend says nothing.
public struct ChappieTokenUsage: Sendable, Hashable, Codable {
    /// Tokens of the input, cached ones included.
    public var inputTokens: Int
    /// Of the input: read from the prompt cache.
    public var cachedInputTokens: Int
    /// Tokens of the output, reasoning included.
    public var outputTokens: Int
    /// Of the output: reasoning.
    public var reasoningTokens: Int
    /// Input and output together.
    public var totalTokens: Int

    /// The given counts.
    public init(
        inputTokens: Int = 0, cachedInputTokens: Int = 0, outputTokens: Int = 0, reasoningTokens: Int = 0,
        totalTokens: Int = 0
    ) {
        self.inputTokens = inputTokens
        self.cachedInputTokens = cachedInputTokens
        self.outputTokens = outputTokens
        self.reasoningTokens = reasoningTokens
        self.totalTokens = totalTokens
    }

    init(_ json: ChappieJSON) {
        let input = json["input_tokens"]?.int ?? 0
        let output = json["output_tokens"]?.int ?? 0
        self.init(
            inputTokens: input,
            cachedInputTokens: json["input_tokens_details"]?["cached_tokens"]?.int ?? 0,
            outputTokens: output,
            reasoningTokens: json["output_tokens_details"]?["reasoning_tokens"]?.int ?? 0,
            totalTokens: json["total_tokens"]?.int ?? input.addingReportingOverflow(output).partialValue)
    }
}

/// The error that a response, an error event or an HTTP error body carries. Every field may be missing.
public struct ChappieResponseError: Sendable, Hashable, Codable {
    /// The backend's word for the kind of error.
    public var type: String?
    /// The backend's word for the error.
    public var code: String?
    /// The backend's sentence; may be shown to a person: without control characters, and not longer than
    /// ``messageLimit`` Unicode scalars.
    public var message: String?
    /// The account's plan.
    public var plan: ChappiePlan?
    /// When a limit that was reached starts anew.
    public var resetsAt: Date?
    /// How long until then, as the backend said when it answered.
    public var resetsInSeconds: Double?
    /// The object as it came.
    public var raw: ChappieJSON

    /// How much of a message is kept, in Unicode scalars.
    public static let messageLimit = 1000

    /// An error with the given properties.
    public init(
        type: String? = nil, code: String? = nil, message: String? = nil, plan: ChappiePlan? = nil,
        resetsAt: Date? = nil, resetsInSeconds: Double? = nil, raw: ChappieJSON = .null
    ) {
        self.type = type
        self.code = code
        self.message = message.map { UntrustedText.forTerminal(String($0.unicodeScalars.prefix(Self.messageLimit))) }
        self.plan = plan
        self.resetsAt = resetsAt
        self.resetsInSeconds = resetsInSeconds
        self.raw = raw
    }
}

@_spi(ChappieInternals) extension ChappieResponseError {
    /// Reads the object under `error`, or a bare string there.
    public init(_ json: ChappieJSON) { self.init(json, message: json["message"]?.string ?? json.string) }

    /// Reads an error body in any of the shapes seen: `{"error":{…}}`, `{"error":"…"}`, `{"detail":"…"}`, or the bare
    /// object.
    public init(body: ChappieJSON) {
        let error = body["error"].flatMap { $0.isNull ? nil : $0 }
        let beside = body["error_description"]?.string ?? body["message"]?.string ?? body["detail"]?.string
        if let word = error?.string {
            // OAuth's shape (RFC 6749, 5.2): the word is a code, and the sentence stands beside it.
            self.init(.string(word), message: beside ?? word)
            code = word
        } else {
            self.init(error ?? body, message: error?["message"]?.string ?? body.string ?? beside)
        }
    }

    private init(_ json: ChappieJSON, message: String?) {
        self.init(
            type: json["type"]?.string, code: json["code"]?.string, message: message,
            plan: json["plan_type"]?.string.map(ChappiePlan.init),
            resetsAt: PeerNumber.date(json["resets_at"]?.double),
            resetsInSeconds: json["resets_in_seconds"]?.double.map { min(max($0, -PeerNumber.end), PeerNumber.end) },
            raw: json)
    }
}
