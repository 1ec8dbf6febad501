/// A response, complete or in part.
public struct ChappieResponse: Sendable, Hashable, Codable {
    /// The backend's id. Empty if it sent none.
    public var id: String
    /// The progress of the response.
    public var status: ChappieResponseStatus
    /// The model that answered, according to the backend.
    public var model: String?
    /// The answer, which is the text of the messages in ``items``, in order, without commentary. If some messages are
    /// marked as the answer, it is only their text. If a turn ends with no text except commentary, the commentary is
    /// the answer.
    public var outputText: String
    /// The model's messages about its work in the entire turn, separated by blank lines. Empty if there are none.
    public var commentary: String {
        get { progress ?? "" }
        set { progress = newValue.isEmpty ? nil : newValue }
    }
    /// The sentences with which the model refused, instead of an answer or in addition to it. Usually empty.
    public var refusals: [String] {
        items.filter { $0.type == "message" }.flatMap { $0.json["content"]?.array ?? [] }.compactMap { part in
            part["type"]?.string == "refusal" ? part["refusal"]?.string : nil
        }
    }
    /// Whether the user interrupted the answer. The response has the text so far, and the conversation continues from
    /// there.
    public var isInterrupted: Bool { status == .incomplete && incompleteReason == Self.interruption }
    /// The ``incompleteReason`` of an answer that the user interrupted.
    @_spi(ChappieInternals) public static let interruption = "interrupted"
    /// The ``incompleteReason`` of an answer whose connection broke for good.
    @_spi(ChappieInternals) public static let lostConnection = "connection_lost"
    /// The pages that the answer cites, in the order in which it first cites them. Each occurs only once. Only
    /// addresses of the web are included. If the answer cites none, these are the pages that the turn's searches found.
    public var sources: [ChappieSource] {
        let cited = ChappieSource.cited(in: items.lazy.map(\.json))
        return cited.isEmpty ? toolOutputs.sources(for: outputText) : cited
    }
    /// The pictures that the service made in the turn, in their order.
    public var images: [ChappieGeneratedImage] { toolOutputs.images }
    /// The outputs of the service's tools in the turn.
    @_spi(ChappieInternals) public var toolOutputs: ServiceOutputs {
        get { outputs ?? ServiceOutputs() }
        set { outputs = newValue.isEmpty ? nil : newValue }
    }
    /// The stored ``toolOutputs``. They are optional, so that responses without them can be decoded.
    private var outputs: ServiceOutputs?
    /// The stored ``commentary``. It is optional, so that responses without it can be decoded.
    private var progress: String?
    /// The completed items, in order, including unknown ones.
    public var items: [ChappieOutputItem]
    /// The tokens that the response used.
    public var usage: ChappieTokenUsage?
    /// The reason why the response failed.
    public var error: ChappieResponseError?
    /// The reason why a response is incomplete, in the backend's spelling, such as `max_output_tokens` or
    /// `content_filter`. It is `interrupted` if the user interrupted the response, and `connection_lost` if the
    /// connection broke for good.
    public var incompleteReason: String?
    /// The server's id of the exchange (`x-request-id`), for questions to its operator. Over a WebSocket that stays
    /// open, it is the id of the opening handshake.
    public var requestID: String?
    /// The response object in its original form.
    public var raw: ChappieJSON

    /// Creates a response with the given properties. Unless `outputText` is given, the text comes from `items`.
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
        case outputs = "toolOutputs"
    }
}

@_spi(ChappieInternals) extension ChappieResponse {
    /// Reads a response object. `fallback` is its status if the object has none.
    public init(_ json: ChappieJSON, _ fallback: ChappieResponseStatus) {
        self.init(
            id: json["id"]?.string ?? "",
            status: json["status"]?.string.map(ChappieResponseStatus.init(rawValue:)) ?? fallback,
            model: json["model"]?.string, items: (json["output"]?.array ?? []).map(ChappieOutputItem.init),
            usage: json["usage"].flatMap { $0.object == nil ? nil : ChappieTokenUsage($0) },
            error: json["error"].flatMap { $0.isNull ? nil : ChappieResponseError($0) },
            incompleteReason: json["incomplete_details"]?["reason"]?.string, raw: json)
    }

    /// Returns the same response with the items from its stream. They replace the items of the object, and their text
    /// replaces `text` and `commentary`.
    public func with(items streamed: [ChappieOutputItem], text: String, commentary: String = "") -> ChappieResponse {
        var response = self
        if !streamed.isEmpty { response.items = streamed }
        response.outputText = response.items.answer
        if response.outputText.isEmpty { response.outputText = text }
        response.commentary = response.items.commentary
        if response.commentary.isEmpty { response.commentary = commentary }
        let saysMore = response.items.contains(where: \.isToolCall) || !response.refusals.isEmpty
        if status == .completed, !wantsToGoOn, !saysMore, response.outputText.isEmpty {
            response.outputText = response.commentary
        }
        return response
    }

    /// Whether the model asks for another request at once, with its output so far.
    public var wantsToGoOn: Bool { status == .completed && raw["end_turn"] == false }
}

extension [ChappieOutputItem] {
    /// The text of the messages that are marked as the answer. If there are none, the text of the messages that are not
    /// commentary.
    fileprivate var answer: String {
        let answers = filter { $0.phase == .finalAnswer || $0.phase == .partialAnswer }
        return (answers.isEmpty ? filter { $0.phase != .commentary } : answers).map(\.text).joined()
    }

    /// The text of the messages that are marked as commentary, separated by blank lines.
    @_spi(ChappieInternals) public var commentary: String {
        filter { $0.phase == .commentary }.map(\.text).filter { !$0.isEmpty }.joined(separator: "\n\n")
    }
}

/// The role of a message in the model's work. Unknown values are kept.
public struct ChappieMessagePhase: RawRepresentable, Sendable, Hashable, Codable {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }

    /// The message describes the model's work.
    public static let commentary = ChappieMessagePhase(rawValue: "commentary")
    /// The message is a part of the answer.
    public static let partialAnswer = ChappieMessagePhase(rawValue: "partial_answer")
    /// The message is the answer.
    public static let finalAnswer = ChappieMessagePhase(rawValue: "final_answer")
}

/// The progress of a response. Unknown values are kept.
public struct ChappieResponseStatus: RawRepresentable, Sendable, Hashable, Codable {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }

    /// The model is still writing the answer.
    public static let inProgress = ChappieResponseStatus(rawValue: "in_progress")
    /// The answer is complete.
    public static let completed = ChappieResponseStatus(rawValue: "completed")
    /// The response failed. See ``ChappieResponse/error``.
    public static let failed = ChappieResponseStatus(rawValue: "failed")
    /// The answer ended early, for example at a length limit or a content filter. It has the text so far.
    public static let incomplete = ChappieResponseStatus(rawValue: "incomplete")
    /// The caller ended the response.
    public static let cancelled = ChappieResponseStatus(rawValue: "cancelled")
}

/// One item of a response: a message, reasoning, a tool call, or a kind that this version does not know.
///
/// The JSON is kept unchanged, so that an item is sent back to the backend exactly as it was received.
public struct ChappieOutputItem: Sendable, Hashable, Codable {
    /// The item in the backend's form.
    public let json: ChappieJSON

    /// Creates an item in the backend's form.
    public init(_ json: ChappieJSON) { self.json = json }

    /// The kind of item: `message`, `reasoning`, `function_call`, `custom_tool_call`, …. Empty if the item has none.
    public var type: String { json["type"]?.string ?? "" }
    public var id: String? { json["id"]?.string }
    /// The name of the called tool.
    public var name: String? { json["name"]?.string }
    /// The id that a tool's result must name.
    public var callID: String? { json["call_id"]?.string }

    /// The text of a message, which is its `output_text` parts joined. Empty for other items. Marks of sources, which
    /// the service writes for its own clients, are left out. ``json`` contains them.
    public var text: String {
        guard type == "message", let parts = json["content"]?.array else { return "" }
        let text = parts.reduce(into: "") { text, part in
            if part["type"]?.string == "output_text" { text += part["text"]?.string ?? "" }
        }
        return SourceMarks.removed(from: text)
    }

    /// The role of a message in the model's work. `nil` for other items, and if the backend does not mark it.
    public var phase: ChappieMessagePhase? {
        guard type == "message" else { return nil }
        return json["phase"]?.string.map(ChappieMessagePhase.init(rawValue:))
    }

    /// Whether the item asks the host to run a tool.
    public var isToolCall: Bool { type == "function_call" || type == "custom_tool_call" }

    /// Decodes the bare JSON of the item.
    public init(from decoder: any Decoder) throws { json = try ChappieJSON(from: decoder) }
    public func encode(to encoder: any Encoder) throws { try json.encode(to: encoder) }
}

/// The tokens that one response used. A count is zero if the backend does not report it.
public struct ChappieTokenUsage: Sendable, Hashable, Codable {
    /// The tokens of the input, including cached ones.
    public var inputTokens: Int
    /// The input tokens that were read from the prompt cache.
    public var cachedInputTokens: Int
    /// The tokens of the output, including reasoning.
    public var outputTokens: Int
    /// The output tokens of reasoning.
    public var reasoningTokens: Int
    /// The tokens of input and output together.
    public var totalTokens: Int

    /// Creates token counts with these values.
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

    /// Reads the counts that a response has.
    @_spi(ChappieInternals) public init(_ json: ChappieJSON) {
        // Counts are added up. The bound prevents an overflow by a wrong count.
        func count(_ json: ChappieJSON?) -> Int? { json?.int.map { min(max($0, 0), 1 << 40) } }
        let input = count(json["input_tokens"]) ?? 0
        let output = count(json["output_tokens"]) ?? 0
        self.init(
            inputTokens: input, cachedInputTokens: count(json["input_tokens_details"]?["cached_tokens"]) ?? 0,
            outputTokens: output, reasoningTokens: count(json["output_tokens_details"]?["reasoning_tokens"]) ?? 0,
            totalTokens: count(json["total_tokens"]) ?? input + output)
    }
}

/// The error in a response, an error event or an HTTP error body. Every field may be missing.
public struct ChappieResponseError: Sendable, Hashable, Codable {
    /// The backend's name for the kind of error.
    public var type: String?
    /// The backend's code for the error.
    public var code: String?
    /// The backend's sentence. It is safe to show to the user. It has no control characters and at most
    /// ``messageLimit`` Unicode scalars.
    public var message: String?
    /// The account's plan.
    public var plan: ChappiePlan?
    /// The time when a limit that was reached resets.
    public var resetsAt: Date?
    /// The time until the reset, from the moment of the backend's answer.
    public var resetsInSeconds: Double?
    /// The object in its original form.
    public var raw: ChappieJSON

    /// The longest message that is kept, in Unicode scalars.
    public static let messageLimit = 1000

    /// Creates an error with the given properties.
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
    /// The member of the request that the error is about.
    public var parameter: String? { raw["param"]?.string ?? raw["detail"]?["param"]?.string }

    /// Reads the value of `error`, an object or a string.
    public init(_ json: ChappieJSON) { self.init(json, message: json["message"]?.string ?? json.string) }

    /// Reads an error body in any known form: `{"error":{…}}`, `{"errors":[{…}]}`, `{"error":"…"}`, `{"detail":"…"}`,
    /// `{"detail":{"code":…}}`, `{"detail":[{"loc":…,"msg":…}]}`, or the bare object.
    public init(body: ChappieJSON) {
        let error = body["error"].flatMap { $0.isNull ? nil : $0 } ?? body["errors"]?.array?.first
        let beside = body["error_description"]?.string ?? body["message"]?.string ?? body["detail"]?.string
        if let word = error?.string {
            // This is OAuth's form (RFC 6749, 5.2). The string is a code, and the sentence is another member next to
            // it.
            self.init(.string(word), message: beside ?? word)
            code = word
        } else {
            let detail = error == nil ? body["detail"].flatMap { $0.isNull ? nil : $0 } : nil
            let inner = (detail?["error"] ?? detail).map { ChappieResponseError($0) }
            self.init(
                error ?? body,
                message: error?["message"]?.string ?? body.string ?? beside ?? inner?.message
                    ?? detail?.array.flatMap(Self.complaints))
            code = code ?? inner?.code ?? detail?["error_code"]?.string
            type = type ?? inner?.type
            plan = plan ?? inner?.plan
            resetsAt = resetsAt ?? inner?.resetsAt
            resetsInSeconds = resetsInSeconds ?? inner?.resetsInSeconds
        }
    }

    /// Reads the body of an HTTP error, which is JSON in any known form, or a sentence. A web page has no sentence.
    public init(text: String) {
        if let json = try? ChappieJSON(parsing: text) {
            self.init(body: json)
        } else {
            let isSentence = !BlockingPage.isWebPage(contentType: nil, body: Array(text.utf8.prefix(100)))
            let text = text.split(whereSeparator: \.isNewline).joined(separator: " ")
            self.init(message: isSentence && !text.isEmpty ? text : nil)
        }
    }

    /// Returns a sentence for a list of complaints, each with its place and its text.
    private static func complaints(_ list: [ChappieJSON]) -> String? {
        let words = list.compactMap { complaint -> String? in
            let place = (complaint["loc"]?.array ?? []).compactMap { $0.string ?? $0.int.map { "\($0)" } }
            guard let text = complaint["msg"]?.string ?? complaint["message"]?.string ?? complaint.string else {
                return place.isEmpty ? nil : place.joined(separator: ".")
            }
            return place.isEmpty ? text : "\(place.joined(separator: ".")): \(text)"
        }
        return words.isEmpty ? nil : words.joined(separator: "; ")
    }

    private init(_ json: ChappieJSON, message: String?) {
        self.init(
            type: json["type"]?.string, code: json["code"]?.string, message: message,
            plan: json["plan_type"]?.string.map(ChappiePlan.init),
            resetsAt: PeerNumber.reset(PeerNumber.number(json["resets_at"])),
            resetsInSeconds: PeerNumber.duration(PeerNumber.number(json["resets_in_seconds"])),
            raw: json)
    }
}

extension ChappieOutputItem {
    /// The backend's step on the web, or `nil` for an item of another type.
    public var webSearch: ChappieWebSearch? { ChappieWebSearch(json) }
}
