@_spi(ChappieInternals) public import ChappieAuth
@_spi(ChappieInternals) public import ChappieCore
import ChappieJSONSchema
import HTTPTypes

/// The items of a conversation as the model gets them, and the requests made from them. All of it belongs to one
/// account.
struct Transcript: Sendable {
    let account: ChappieAccountInfo
    /// The id of the session, of the thread and of the prompt cache.
    let id: String
    let createdAt: Date
    private(set) var updatedAt: Date
    private(set) var items: [ChappieJSON] = []
    private(set) var compactedSummary: String?
    /// The backend's token count after the last turn, if it gave one.
    private(set) var measuredTokens: Int?
    /// The model of the next turn, or `nil` until a turn has chosen one.
    private(set) var model: String?
    /// The model whose encrypted reasoning is among the items.
    private(set) var reasoningModel: String?
    /// The family of models that can read the compaction among the items, if it is known.
    private var compactionHash: String?
    /// The number of compactions. Each request names its window of the conversation to the backend.
    private(set) var window = 0
    /// Whether the backend can no longer read the encrypted items. They are kept until a turn has succeeded without
    /// them.
    var isUnreadable = false
    /// Whether a compaction is missing that replaced a part of the conversation.
    private var lacksCompaction = false
    /// Whether the plan's backend has refused tools in a namespace. It then gets them without namespaces.
    var hasFlatTools = false
    /// The namespaces of the tools that the turn's requests do not declare, and that the model may call nevertheless.
    var deferredNamespaces: Set<String> = []
    private let endpoints: ChappieEndpoints
    private let harnessItem: ChappieJSON?

    /// The item types that the backend takes back as input. Others are shown to the host and dropped here.
    private static let sentBack: Set<String> = [
        "message", "reasoning", "function_call", "custom_tool_call", "local_shell_call", "tool_search_call",
        "web_search_call", "image_generation_call", "compaction", "context_compaction",
    ]

    init(account: ChappieAccountInfo, id: String, now: Date, configuration: ChappieConfiguration) {
        self.account = account
        self.id = id
        createdAt = now
        updatedAt = now
        endpoints = configuration.endpoints
        harnessItem = configuration.harness.inputItem
    }

    // MARK: As a value

    /// Continues a kept conversation. In another account the conversation gets its own ids, and loses the items that
    /// only the earlier account can read.
    init(
        _ context: ChappieClientContext, account: ChappieAccountInfo, newID: String, now: Date,
        configuration: ChappieConfiguration
    ) {
        let isOwn = context.belongs(to: account)
        self.init(
            account: account, id: isOwn ? context.sessionID : newID, now: context.createdAt,
            configuration: configuration)
        updatedAt = context.updatedAt
        items = isOwn ? context.items : context.items.filter { !ChappieClientContext.isEncrypted($0) }
        lacksCompaction = !isOwn && context.items.contains(where: ChappieClientContext.isCompaction)
        compactedSummary = context.compactedSummary
        measuredTokens = isOwn ? context.measuredTokens : nil
        model = context.model.isEmpty ? nil : context.model
        reasoningModel = context.reasoningModel
        compactionHash = context.compactionHash
        window = context.window ?? 0
    }

    /// Returns the conversation as a value.
    ///
    /// - Parameter model: the model that the program has named for the next turn. `nil` means the conversation's model.
    func context(model named: String? = nil) -> ChappieClientContext {
        var context = ChappieClientContext(
            sessionID: id, model: named ?? model ?? "", items: items, compactedSummary: compactedSummary,
            createdAt: createdAt, updatedAt: updatedAt, measuredTokens: measuredTokens, accountID: account.ownerID,
            userID: account.userID, reasoningModel: reasoningModel, compactionHash: compactionHash)
        context.window = window == 0 ? nil : window
        return context
    }

    // MARK: Changes

    /// Adds a finished turn.
    ///
    /// - Parameter isForOneTurn: whether the conversation keeps its earlier model.
    mutating func append(
        _ added: [ChappieJSON], model: String, isForOneTurn: Bool, measuredTokens: Int?, now: Date
    ) {
        items += added
        if !isForOneTurn { self.model = model }
        if added.contains(where: ChappieClientContext.isEncrypted) { reasoningModel = model }
        self.measuredTokens = measuredTokens
        updatedAt = now
    }

    /// Replaces all items so far with `items`.
    ///
    /// - Parameter compactionHash: the family of the model that wrote it.
    mutating func compact(
        into items: [ChappieJSON], summary: String?, model: String?, compactionHash: String? = nil, now: Date
    ) {
        self.items = items
        compactedSummary = summary
        measuredTokens = nil
        let isEncrypted = items.contains(where: ChappieClientContext.isEncrypted)
        reasoningModel = isEncrypted ? model : nil
        self.compactionHash = isEncrypted ? compactionHash : nil
        window += 1
        updatedAt = now
    }

    /// Replaces the items for only one request, which asks for a compaction and still belongs to the same window.
    mutating func narrow(to items: [ChappieJSON]) { self.items = items }

    /// Removes all encrypted items, and the ids of the other items, because the backend refuses these parts of items
    /// that are sent back.
    mutating func dropReasoning(keepsCompactions: Bool = false) {
        items = ChappieClientContext.withoutReasoning(items, keepsCompactions: keepsCompactions)
        guard !items.contains(where: ChappieClientContext.isEncrypted) else { return }
        reasoningModel = nil
        compactionHash = nil
        isUnreadable = false
    }

    /// Whether an encrypted compaction is among the items.
    var hasCompaction: Bool { items.contains(where: ChappieClientContext.isCompaction) }

    /// Removes the items that another model has encrypted: its reasoning, and its compactions if they are of another
    /// family, or of a model that the account no longer lists.
    ///
    /// - Returns: whether a compaction is missing now. This is reported only once.
    mutating func drop(unreadableBy model: String, in list: ModelList?) -> Bool {
        if isUnreadable {
            lacksCompaction = lacksCompaction || hasCompaction
            dropReasoning()
        } else if let writer = reasoningModel, writer != model {
            let readsCompactions =
                list.map { $0.canRead(compactionOf: writer, of: compactionHash, with: model) } ?? true
            lacksCompaction = lacksCompaction || !readsCompactions && hasCompaction
            items.removeAll {
                ChappieClientContext.isEncrypted($0) && (!readsCompactions || $0["type"]?.string == "reasoning")
            }
            if !items.contains(where: ChappieClientContext.isEncrypted) {
                reasoningModel = nil
                compactionHash = nil
            }
        }
        defer { lacksCompaction = false }
        return lacksCompaction
    }

    /// Replaces all items so far with the turns that a compaction had replaced.
    mutating func rebuild(from history: [ChappieJSON]) {
        items = history
        compactedSummary = nil
        measuredTokens = nil
        reasoningModel = nil
        compactionHash = nil
    }

    /// Returns the items of an answer that are sent back as input.
    static func kept(of response: ChappieResponse) -> [ChappieJSON] {
        var answered = response.items.filter { sentBack.contains($0.type) }
        if response.status != .completed {
            // The backend refuses reasoning without the item that it led to, and a call without its result.
            answered.removeAll { $0.isToolCall || $0.isToolSearch }
            while answered.last?.type == "reasoning" { answered.removeLast() }
        }
        var items = answered.map(\.json)
        if !response.outputText.isEmpty, !answered.contains(where: { $0.type == "message" }) {
            // The stream delivered text but no message, because it ended early or the server sends none. The shown text
            // is kept.
            items.append(ChappieInputMessage.assistant(response.outputText).inputItem)
        }
        return items
    }

    /// Returns the items of an answer that the user interrupted: the complete items, then the beginning of the message
    /// that was being written. Reasoning is left out if the item that it led to is missing, and so is a call without an
    /// id for its output.
    static func kept(ofInterrupted response: ChappieResponse) -> [ChappieJSON] {
        var ids: Set<String> = []
        var answered = response.items.filter { item in
            guard item.isToolCall else { return sentBack.contains(item.type) && !item.isToolSearch }
            return ChappieToolCall(item).map { ids.insert($0.callID).inserted } ?? false
        }
        while answered.last?.type == "reasoning" { answered.removeLast() }
        var items = answered.map(\.json)
        let whole = ChappieResponse(items: response.items.filter { $0.phase != .commentary }).outputText
        if response.outputText.utf8.starts(with: whole.utf8), response.outputText.utf8.count > whole.utf8.count {
            let rest = String(decoding: response.outputText.utf8.dropFirst(whole.utf8.count), as: UTF8.self)
            items.append(ChappieInputMessage.assistant(rest).inputItem)
        }
        return items
    }

    /// The note to the model that the items above are not everything that it wanted to write.
    static let interruptionItem = ChappieInputMessage.developer(
        "The user interrupted you here. The user has seen the text above."
    ).inputItem

    /// The note to the model after a connection that broke permanently.
    static let breakItem = ChappieInputMessage.developer(
        "The connection broke here. The user has seen the text above."
    ).inputItem

    /// The note to the model after another error.
    static let failureItem = ChappieInputMessage.developer(
        "Your answer ended here because of an error. The user has seen the text above."
    ).inputItem

    // MARK: Requests

    /// Returns the request's JSON, with its members in the order of the Codex CLI 0.163.0. The input is the harness,
    /// the conversation so far, and `added`. It is the same from turn to turn, byte for byte.
    ///
    /// In the lite form the tools are the first item of the input, even if there are none, and images have no `detail`.
    func body(adding added: [ChappieJSON], _ frame: RequestFrame) -> ChappieJSONObject {
        var input: [ChappieJSON] = []
        if frame.isLite {
            input.append(["type": "additional_tools", "role": "developer", "tools": .array(frame.tools)])
        }
        let hasInstructions = frame.refused.developerInstructions && !frame.isLite
        if let harnessItem, !hasInstructions { input.append(harnessItem) }
        input += RequestInput(
            isLite: frame.isLite, namespaces: namespaces(frame.tools), takesPictures: frame.takesPictures
        ).written(items + added)
        var body: ChappieJSONObject = ["model": .string(frame.model)]
        if hasInstructions { body["instructions"] = harnessItem?["content"]?[0]?["text"] ?? "" }
        body["stream"] = true
        body["input"] = .array(input)
        if !frame.isLite { body["tools"] = .array(frame.tools) }
        body["tool_choice"] = frame.isLite ? "auto" : frame.toolChoice.json
        body["parallel_tool_calls"] = .bool(!frame.isLite && frame.allowsParallelCalls)
        var reasoning = ChappieJSONObject()
        let effort = frame.options.reasoningEffort
        if effort != .automatic { reasoning["effort"] = .string(effort.rawValue) }
        if frame.isLite { reasoning["context"] = "all_turns" } else { reasoning["summary"] = "auto" }
        body["reasoning"] = .object(reasoning)
        body["store"] = false
        body["include"] = ["reasoning.encrypted_content"]
        if let tier = frame.serviceTier { body["service_tier"] = .string(tier) }
        body["prompt_cache_key"] = .string(id)
        var text = ChappieJSONObject()
        if let verbosity = frame.options.verbosity { text["verbosity"] = .string(verbosity.rawValue) }
        // A schema without a strict form is refused before a turn begins.
        if let schema = frame.outputSchema.flatMap({ try? ChappieStrictSchema($0) }) {
            text["format"] = ["type": "json_schema", "name": "output", "strict": true, "schema": schema.json]
        }
        if !text.isEmpty { body["text"] = .object(text) }
        for path in frame.leftOut.sorted() { body.remove(path) }
        return body
    }

    /// Returns the items that a response adds to the input of `body`, in the form of the next request.
    func input(of body: ChappieJSONObject, answeredBy items: [ChappieOutputItem]) -> [ChappieJSON] {
        let sent = body["input"]?.array ?? []
        let input = RequestInput(isLite: Self.isLite(body), namespaces: namespaces(body["tools"]?.array ?? []))
        return sent + input.written(items.map(\.json), after: sent)
    }

    /// Returns the namespaces that calls may name in a request with these tools, or `nil` on a route that does not
    /// check them.
    private func namespaces(_ tools: [ChappieJSON]) -> Set<String>? {
        guard !endpoints.usesPlan else { return nil }
        let declared = tools.filter { $0["type"] == "namespace" }.compactMap { $0["name"]?.string }
        return deferredNamespaces.union(declared)
    }

    /// Returns whether tools without a namespace get a common namespace.
    func takesNamespaces(_ frame: RequestFrame) -> Bool {
        frame.isLite || endpoints.usesPlan && !hasFlatTools
    }

    /// Returns `body` as an HTTP request. A large body is sent compressed.
    func request(_ body: ChappieJSONObject) -> HTTPExchangeRequest {
        let bytes = ChappieJSON.object(body).serializedBytes()
        var fields = identification(of: body)
        fields[.accept] = "text/event-stream"
        fields[.contentType] = "application/json"
        if Self.isLite(body) { fields[.responsesLite] = "true" }
        return HTTPExchangeRequest(
            method: .post, url: endpoints.responsesURL, headerFields: fields,
            body: .init(bytes: bytes, coding: endpoints.coding(ofBytes: bytes.count)))
    }

    /// Returns the opening handshake of the conversation's WebSocket, as a request.
    func opening(for body: ChappieJSONObject) -> HTTPExchangeRequest {
        HTTPExchangeRequest(
            url: endpoints.responsesURL, headerFields: endpoints.webSocketFields + identification(of: body))
    }

    /// Returns the header fields that name the wire format, the conversation and the model. The backend routes by them.
    private func identification(of body: ChappieJSONObject) -> HTTPFields {
        guard !endpoints.usesPlan else { return [:] }
        let tier = body["service_tier"]?.string.map { ";tier=\($0)" } ?? ""
        return [
            .wireFormatVersion: WireFormat.version,
            .routingHint: "model=\(body["model"]?.string ?? "")\(tier)",
            .clientRequestID: id, .sessionID: id, .threadID: id, .windowID: "\(id):\(window)",
        ]
    }

    /// Returns `body` as a WebSocket message.
    func message(_ body: ChappieJSONObject, turnState: String?) -> String {
        var body = body
        var metadata = body["client_metadata"]?.object ?? ChappieJSONObject()
        if let turnState { metadata["x-codex-turn-state"] = .string(turnState) }
        if Self.isLite(body) { metadata["ws_request_header_x_openai_internal_codex_responses_lite"] = "true" }
        if !metadata.isEmpty { body["client_metadata"] = .object(metadata) }
        let members = [.init(name: "type", value: "response.create")] + body.members
        return ChappieJSON.object(ChappieJSONObject(members: members)).serialized()
    }

    /// Returns whether the request declares its tools in the input. The backend also requires this in a header field or
    /// in the metadata.
    private static func isLite(_ body: ChappieJSONObject) -> Bool {
        body["reasoning"]?["context"] == "all_turns" && body["tools"] == nil
    }
}

extension ChappieJSONObject {
    /// Removes the member at `path`, whose names are separated by a dot. An object that becomes empty is also removed.
    fileprivate mutating func remove(_ path: String) {
        let names = path.split(separator: ".", maxSplits: 1).map(String.init)
        guard names.count == 2, var inner = self[names[0]]?.object else { return self[path] = nil }
        inner.remove(names[1])
        self[names[0]] = inner.isEmpty ? nil : .object(inner)
    }
}

extension HTTPField.Name {
    // The names are valid by RFC 9110's grammar. The fallback only avoids a trap.
    private static func known(_ name: String) -> HTTPField.Name { HTTPField.Name(name) ?? .accept }

    static let sessionID = known("session-id")
    static let threadID = known("thread-id")
    static let turnState = known("x-codex-turn-state")
    static let modelsETag = known("x-models-etag")
    static let answeringModel = known("openai-model")
    static let responsesLite = known("x-openai-internal-codex-responses-lite")
    static let activeLimit = known("x-codex-active-limit")
    static let wireFormatVersion = known("version")
    static let routingHint = known("x-codex-routing-hint")
    static let clientRequestID = known("x-client-request-id")
    static let windowID = known("x-codex-window-id")
}

/// A generator of time-ordered ids (RFC 9562, 5.7), which the backend's other clients use for sessions and threads.
@_spi(ChappieInternals) public enum UUIDv7 {
    /// Returns a new id.
    public static func make(now: Date, entropy: any Entropy) -> String {
        let milliseconds = UInt64(max(now.timeIntervalSince1970 * 1000, 0)) << 16
        var bytes = withUnsafeBytes(of: milliseconds.bigEndian) { Array($0.prefix(6)) }
        // Ids are not secret. When the system has no random bytes, the time is enough.
        bytes += (try? entropy.bytes(10)) ?? [UInt8](repeating: 0, count: 10)
        bytes[6] = bytes[6] & 0x0F | 0x70
        bytes[8] = bytes[8] & 0x3F | 0x80
        return UUID(uuid: bytes.withUnsafeBytes { $0.loadUnaligned(as: uuid_t.self) }).uuidString.lowercased()
    }
}
