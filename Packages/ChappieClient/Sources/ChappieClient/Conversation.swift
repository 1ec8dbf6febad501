import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import HTTPTypes

/// The words so far, and their ids. All of it belongs to one account.
struct Conversation: Sendable {
    let account: ChappieAccountInfo
    let builder: ResponsesRequestBuilder
    var transcript: Transcript
}

/// The model's input: the harness first, then everything said so far, byte for byte the same from turn to turn.
struct Transcript: Sendable {
    private(set) var items: [ChappieJSON] = []
    private let harnessItem: ChappieJSON?

    init(harness: ChappieHarness) { harnessItem = harness.inputItem }

    /// The input of a request that asks `messages` next.
    func input(asking messages: [ChappieInputMessage]) -> [ChappieJSON] {
        (harnessItem.map { [$0] } ?? []) + items + messages.map(\.inputItem)
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

    /// Item types that the backend takes back as input; others are shown to the host and dropped here.
    private static let sentBack: Set<String> = [
        "message", "reasoning", "function_call", "custom_tool_call", "local_shell_call", "tool_search_call",
        "web_search_call", "image_generation_call", "compaction", "context_compaction",
    ]
}

/// Makes the HTTP request of a turn; pure.
struct ResponsesRequestBuilder: Sendable {
    let profile: ChappieEndpointProfile
    let sessionID: String
    let threadID: String

    /// The JSON body, members in the order of the Codex CLI 0.163.0.
    func body(model: String, input: [ChappieJSON], options: ChappieMessageOptions) -> ChappieJSONObject {
        let required = profile.requiredBodyFields
        var body = ChappieJSONObject([
            ("model", .string(model)), ("stream", required["stream"] ?? true), ("input", .array(input)),
            ("tools", []), ("tool_choice", "auto"), ("parallel_tool_calls", true),
        ])
        var reasoning = ChappieJSONObject()
        if options.reasoningEffort != .automatic { reasoning["effort"] = .string(options.reasoningEffort.rawValue) }
        reasoning["summary"] = "auto"
        body["reasoning"] = .object(reasoning)
        for member in required.members { body[member.name] = member.value }
        body["prompt_cache_key"] = .string(sessionID)
        if let verbosity = options.verbosity { body["text"] = ["verbosity": .string(verbosity.rawValue)] }
        for name in profile.forbiddenBodyFields { body[name] = nil }
        return body
    }

    /// The opening handshake of a conversation's WebSocket, as a request.
    func opening() -> HTTPExchangeRequest {
        var fields = profile.webSocket?.headerFields ?? [:]
        fields[.sessionID] = sessionID
        fields[.threadID] = threadID
        return HTTPExchangeRequest(url: profile.responsesURL, headerFields: fields)
    }

    /// - Parameters:
    ///   - body: the serialized body.
    ///   - turnState: the value of `x-codex-turn-state` that this turn has been given, if any.
    ///   - isCoded: whether a large body may be compressed; not when the server has refused that before.
    func request(body: [UInt8], turnState: String?, isCoded: Bool) -> HTTPExchangeRequest {
        let coding = isCoded && body.count >= profile.requestCodingThreshold ? profile.requestCoding : .identity
        var fields: HTTPFields = [.accept: "text/event-stream", .contentType: "application/json"]
        fields[.sessionID] = sessionID
        fields[.threadID] = threadID
        if let turnState { fields[.turnState] = turnState }
        return HTTPExchangeRequest(
            method: .post, url: profile.responsesURL, headerFields: fields, body: .init(bytes: body, coding: coding))
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
        let milliseconds = UInt64(max(now.timeIntervalSince1970 * 1000, 0)) & 0xFFFF_FFFF_FFFF
        var bytes = (0..<6).map { UInt8(truncatingIfNeeded: milliseconds >> (8 * (5 - UInt64($0)))) }
        // Ids are no secrets: when the system has no random bytes, the time alone has to do.
        let random = (try? entropy.bytes(10)) ?? []
        bytes += random.prefix(10) + [UInt8](repeating: 0, count: 10 - random.prefix(10).count)
        bytes[6] = bytes[6] & 0x0F | 0x70
        bytes[8] = bytes[8] & 0x3F | 0x80
        let digits = bytes.map { String($0 >> 4, radix: 16) + String($0 & 0x0F, radix: 16) }.joined()
        return [0..<8, 8..<12, 12..<16, 16..<20, 20..<32].map { range in
            String(digits.dropFirst(range.lowerBound).prefix(range.count))
        }.joined(separator: "-")
    }
}
