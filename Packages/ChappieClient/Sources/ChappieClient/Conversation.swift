public import ChappieAuth
@_spi(ChappieInternals) public import ChappieCore
import HTTPTypes

/// What a request asks for beside its input.
struct RequestFrame: Sendable, Hashable, Codable {
    var model: String
    var options = ChappieMessageOptions()
    /// The JSON that the answer must be; `nil` for text.
    var outputSchema: ChappieJSONSchema?
    var toolChoice = "auto"
    /// The tools as they are declared, in the order of every turn. They are no part of a turn that is kept: it finds the
    /// tools that the program has then.
    var tools: [ChappieJSON] = []
    /// Whether the model wants its tools as the first item of the input.
    var wantsToolsInInput = false

    private enum CodingKeys: CodingKey { case model, options, outputSchema }

    init(model: String, options: ChappieMessageOptions = ChappieMessageOptions()) {
        self.model = model
        self.options = options
    }

    var withoutTools: RequestFrame {
        var frame = self
        (frame.tools, frame.wantsToolsInInput) = ([], false)
        return frame
    }
}

/// The words so far, and the requests that carry them. All of it belongs to one account.
struct Conversation: Sendable {
    let account: ChappieAccountInfo
    /// Names session, thread and prompt cache alike.
    let id: String
    let createdAt: Date
    private(set) var updatedAt: Date
    private(set) var items: [ChappieJSON] = []
    private(set) var compactedSummary: String?
    /// The backend's count after the last turn, if it gave one.
    private(set) var measuredTokens: Int?
    /// The model whose encrypted reasoning is among the items.
    private var reasoningModel: String?
    private let profile: ChappieEndpointProfile
    private let harnessItem: ChappieJSON?

    /// Item types that the backend takes back as input; others are shown to the host and dropped here.
    private static let sentBack: Set<String> = [
        "message", "reasoning", "function_call", "custom_tool_call", "local_shell_call", "tool_search_call",
        "web_search_call", "image_generation_call", "compaction", "context_compaction",
    ]

    init(account: ChappieAccountInfo, id: String, now: Date, configuration: ChappieConfiguration) {
        self.account = account
        self.id = id
        createdAt = now
        updatedAt = now
        profile = configuration.endpoints.profile
        harnessItem = configuration.harness.inputItem
    }

    // MARK: As a value

    /// Goes on with a conversation that was kept. In another account it gets ids of its own, and leaves out what only the
    /// earlier one can read.
    init(
        _ context: ChappieClientContext, account: ChappieAccountInfo, newID: String, now: Date,
        configuration: ChappieConfiguration
    ) {
        let isOwn = context.accountID == nil || context.accountID == account.accountID
        self.init(
            account: account, id: isOwn ? context.sessionID : newID, now: context.createdAt,
            configuration: configuration)
        updatedAt = context.updatedAt
        items = isOwn ? context.items : context.items.filter { !Self.isEncrypted($0) }
        compactedSummary = context.compactedSummary
        measuredTokens = isOwn ? context.measuredTokens : nil
        reasoningModel = context.reasoningModel
    }

    func context(model: String) -> ChappieClientContext {
        ChappieClientContext(
            sessionID: id, model: model, items: items, compactedSummary: compactedSummary, createdAt: createdAt,
            updatedAt: updatedAt, measuredTokens: measuredTokens, accountID: account.accountID,
            reasoningModel: reasoningModel)
    }

    // MARK: Changes

    /// Keeps a finished turn.
    mutating func append(_ added: [ChappieJSON], model: String, measuredTokens: Int?, now: Date) {
        items += added
        if added.contains(where: Self.isEncrypted) { reasoningModel = model }
        self.measuredTokens = measuredTokens
        updatedAt = now
    }

    /// Puts `items` in the place of everything said so far.
    mutating func compact(into items: [ChappieJSON], summary: String?, model: String, now: Date) {
        self.items = items
        compactedSummary = summary
        measuredTokens = nil
        reasoningModel = items.contains(where: Self.isEncrypted) ? model : nil
        updatedAt = now
    }

    /// Takes out what the backend can't read, or would not: reasoning is encrypted for the model that wrote it.
    mutating func dropReasoning(unreadableBy model: String? = nil) {
        guard model == nil || reasoningModel != nil && reasoningModel != model else { return }
        // A compaction stands for the whole conversation: it is tried with every model, and goes when it is refused.
        items.removeAll { Self.isEncrypted($0) && (model == nil || $0["type"]?.string == "reasoning") }
        reasoningModel = nil
    }

    static func isEncrypted(_ item: ChappieJSON) -> Bool {
        ["reasoning", "compaction", "context_compaction"].contains(item["type"]?.string)
    }

    /// The items of an answer that are sent back as input.
    static func kept(of response: ChappieResponse) -> [ChappieJSON] {
        var answered = response.items.filter { sentBack.contains($0.type) }
        if response.status != .completed {
            // The backend refuses reasoning without the item that it led to, and a call without its result.
            answered.removeAll(where: \.isToolCall)
            while answered.last?.type == "reasoning" { answered.removeLast() }
        }
        var items = answered.map(\.json)
        if !response.outputText.isEmpty, !answered.contains(where: { $0.type == "message" }) {
            // The stream delivered text but no message (it ended early, or the server has none): keep what was shown.
            items.append(ChappieInputMessage.assistant(response.outputText).inputItem)
        }
        return items
    }

    /// Some four bytes of text to a token; an image counts as a thousand tokens, and encrypted text as a quarter of its
    /// length.
    static func estimatedTokens(of items: [ChappieJSON]) -> Int {
        func size(_ json: ChappieJSON) -> Int {
            switch json {
            case .string(let text): text.hasPrefix("data:") ? 4000 : text.utf8.count
            case .array(let elements): elements.reduce(0) { $0 + size($1) }
            case .object(let object): object.members.reduce(0) { $0 + size($1.value) }
            default: 2
            }
        }
        return items.reduce(0) { $0 + size($1) / 4 + 4 }
    }

    // MARK: Requests

    /// The request's JSON, members in the order of the Codex CLI 0.163.0. The input is the harness, everything said so far,
    /// and `added`: byte for byte the same from turn to turn.
    func body(adding added: [ChappieJSON], _ frame: RequestFrame) -> ChappieJSONObject {
        let required = profile.requiredBodyFields
        let isLite = frame.wantsToolsInInput && !frame.tools.isEmpty
        var input: [ChappieJSON] = []
        if isLite { input.append(["type": "additional_tools", "role": "developer", "tools": .array(frame.tools)]) }
        if let harnessItem { input.append(harnessItem) }
        input += items + added
        var body = ChappieJSONObject([
            ("model", .string(frame.model)), ("stream", required["stream"] ?? true), ("input", .array(input)),
            ("tools", .array(frame.tools)), ("tool_choice", .string(frame.toolChoice)),
            ("parallel_tool_calls", .bool(!isLite)),
        ])
        var reasoning = ChappieJSONObject()
        let effort = frame.options.reasoningEffort
        if effort != .automatic { reasoning["effort"] = .string(effort.rawValue) }
        reasoning["summary"] = "auto"
        if isLite {
            body["tools"] = nil
            reasoning["context"] = "all_turns"
        }
        body["reasoning"] = .object(reasoning)
        for member in required.members { body[member.name] = member.value }
        body["prompt_cache_key"] = .string(id)
        var text = ChappieJSONObject()
        if let verbosity = frame.options.verbosity { text["verbosity"] = .string(verbosity.rawValue) }
        if let schema = frame.outputSchema {
            text["format"] = ["type": "json_schema", "name": "output", "strict": true, "schema": schema.json]
        }
        if !text.isEmpty { body["text"] = .object(text) }
        for name in profile.forbiddenBodyFields { body[name] = nil }
        return body
    }

    /// `body` as an HTTP request; a large one travels compressed.
    func request(_ body: ChappieJSONObject) -> HTTPExchangeRequest {
        let bytes = ChappieJSON.object(body).serializedBytes()
        let coding = bytes.count >= profile.requestCodingThreshold ? profile.requestCoding : .identity
        var fields: HTTPFields = [
            .accept: "text/event-stream", .contentType: "application/json", .sessionID: id, .threadID: id,
        ]
        if Self.isLite(body) { fields[.responsesLite] = "true" }
        return HTTPExchangeRequest(
            method: .post, url: profile.responsesURL, headerFields: fields, body: .init(bytes: bytes, coding: coding))
    }

    /// The opening handshake of the conversation's WebSocket, as a request.
    func opening() -> HTTPExchangeRequest {
        let fields = profile.webSocket?.headerFields ?? [:]
        return HTTPExchangeRequest(
            url: profile.responsesURL, headerFields: fields + [.sessionID: id, .threadID: id] as HTTPFields)
    }

    /// `body` as a WebSocket message.
    func message(_ body: ChappieJSONObject, turnState: String?) -> String {
        var body = body
        var metadata = body["client_metadata"]?.object ?? ChappieJSONObject()
        if let turnState { metadata["x-codex-turn-state"] = .string(turnState) }
        if Self.isLite(body) { metadata["ws_request_header_x_openai_internal_codex_responses_lite"] = "true" }
        if !metadata.isEmpty { body["client_metadata"] = .object(metadata) }
        let members = [.init(name: "type", value: "response.create")] + body.members
        return ChappieJSON.object(ChappieJSONObject(members: members)).serialized()
    }

    /// Whether the request declares its tools in the input, which the backend wants to be told beside the body.
    private static func isLite(_ body: ChappieJSONObject) -> Bool {
        body["reasoning"]?["context"] == "all_turns" && body["tools"] == nil
    }
}

extension HTTPField.Name {
    // The names are valid by RFC 9110's grammar; the fallback only spares a trap.
    private static func known(_ name: String) -> HTTPField.Name { HTTPField.Name(name) ?? .accept }

    static let sessionID = known("session-id")
    static let threadID = known("thread-id")
    static let turnState = known("x-codex-turn-state")
    static let modelsETag = known("x-models-etag")
    static let responsesLite = known("x-openai-internal-codex-responses-lite")
    static let activeLimit = known("x-codex-active-limit")
}

/// Time-ordered ids (RFC 9562, 5.7), as the backend's other clients use for sessions and threads.
@_spi(ChappieInternals) public enum UUIDv7 {
    /// A new id.
    public static func make(now: Date, entropy: any Entropy) -> String {
        let milliseconds = UInt64(max(now.timeIntervalSince1970 * 1000, 0)) << 16
        var bytes = withUnsafeBytes(of: milliseconds.bigEndian) { Array($0.prefix(6)) }
        // Ids are no secrets: when the system has no random bytes, the time alone has to do.
        bytes += (try? entropy.bytes(10)) ?? [UInt8](repeating: 0, count: 10)
        bytes[6] = bytes[6] & 0x0F | 0x70
        bytes[8] = bytes[8] & 0x3F | 0x80
        return UUID(uuid: bytes.withUnsafeBytes { $0.loadUnaligned(as: uuid_t.self) }).uuidString.lowercased()
    }
}
