import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import HTTPTypes

/// The words so far, and the requests that carry them. All of it belongs to one account.
struct Conversation: Sendable {
    let account: ChappieAccountInfo
    /// Names session, thread and prompt cache alike.
    let id: String
    private let profile: ChappieEndpointProfile
    private let harnessItem: ChappieJSON?
    private(set) var items: [ChappieJSON] = []

    /// Item types that the backend takes back as input; others are shown to the host and dropped here.
    private static let sentBack: Set<String> = [
        "message", "reasoning", "function_call", "custom_tool_call", "local_shell_call", "tool_search_call",
        "web_search_call", "image_generation_call", "compaction", "context_compaction",
    ]

    init(account: ChappieAccountInfo, id: String, configuration: ChappieConfiguration) {
        self.account = account
        self.id = id
        profile = configuration.endpoints.profile
        harnessItem = configuration.harness.inputItem
    }

    /// Keeps a finished turn.
    mutating func append(_ messages: [ChappieInputMessage], answer: ChappieResponse) {
        items += messages.map(\.inputItem)
        var answered = answer.items.filter { Self.sentBack.contains($0.type) }
        if answer.status != .completed {
            // The backend refuses reasoning without the item that it led to.
            while answered.last?.type == "reasoning" { answered.removeLast() }
        }
        items += answered.map(\.json)
        if !answer.outputText.isEmpty, !answered.contains(where: { $0.type == "message" }) {
            // The stream delivered text but no message (it ended early, or the server has none): keep what was shown.
            items.append(ChappieInputMessage.assistant(answer.outputText).inputItem)
        }
    }

    /// The request's JSON, members in the order of the Codex CLI 0.163.0. The input is the harness, everything said so far,
    /// and `messages`: byte for byte the same from turn to turn.
    func body(
        asking messages: [ChappieInputMessage], model: String, options: ChappieMessageOptions
    ) -> ChappieJSONObject {
        let required = profile.requiredBodyFields
        let input = (harnessItem.map { [$0] } ?? []) + items + messages.map(\.inputItem)
        var body = ChappieJSONObject([
            ("model", .string(model)), ("stream", required["stream"] ?? true), ("input", .array(input)),
            ("tools", []), ("tool_choice", "auto"), ("parallel_tool_calls", true),
        ])
        var reasoning = ChappieJSONObject()
        if options.reasoningEffort != .automatic { reasoning["effort"] = .string(options.reasoningEffort.rawValue) }
        reasoning["summary"] = "auto"
        body["reasoning"] = .object(reasoning)
        for member in required.members { body[member.name] = member.value }
        body["prompt_cache_key"] = .string(id)
        if let verbosity = options.verbosity { body["text"] = ["verbosity": .string(verbosity.rawValue)] }
        for name in profile.forbiddenBodyFields { body[name] = nil }
        return body
    }

    /// `body` as an HTTP request; a large one travels compressed.
    func request(_ body: ChappieJSONObject) -> HTTPExchangeRequest {
        let bytes = ChappieJSON.object(body).serializedBytes()
        let coding = bytes.count >= profile.requestCodingThreshold ? profile.requestCoding : .identity
        return HTTPExchangeRequest(
            method: .post, url: profile.responsesURL,
            headerFields: [
                .accept: "text/event-stream", .contentType: "application/json", .sessionID: id, .threadID: id,
            ], body: .init(bytes: bytes, coding: coding))
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
        if let turnState {
            var metadata = body["client_metadata"]?.object ?? ChappieJSONObject()
            metadata["x-codex-turn-state"] = .string(turnState)
            body["client_metadata"] = .object(metadata)
        }
        let members = [.init(name: "type", value: "response.create")] + body.members
        return ChappieJSON.object(ChappieJSONObject(members: members)).serialized()
    }
}

extension HTTPField.Name {
    // The names are valid by RFC 9110's grammar; the fallback only spares a trap.
    private static func known(_ name: String) -> HTTPField.Name { HTTPField.Name(name) ?? .accept }

    static let sessionID = known("session-id")
    static let threadID = known("thread-id")
    static let turnState = known("x-codex-turn-state")
    static let activeLimit = known("x-codex-active-limit")
}

/// Time-ordered ids (RFC 9562, 5.7), as the backend's other clients use for sessions and threads.
enum UUIDv7 {
    static func make(now: Date, entropy: any Entropy) -> String {
        let milliseconds = UInt64(max(now.timeIntervalSince1970 * 1000, 0)) << 16
        var bytes = withUnsafeBytes(of: milliseconds.bigEndian) { Array($0.prefix(6)) }
        // Ids are no secrets: when the system has no random bytes, the time alone has to do.
        bytes += (try? entropy.bytes(10)) ?? [UInt8](repeating: 0, count: 10)
        bytes[6] = bytes[6] & 0x0F | 0x70
        bytes[8] = bytes[8] & 0x3F | 0x80
        return UUID(uuid: bytes.withUnsafeBytes { $0.loadUnaligned(as: uuid_t.self) }).uuidString.lowercased()
    }
}
