import ChappieAuth
import ChappieCore
import HTTPTypes

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
        var fields: HTTPFields = [
            .accept: "text/event-stream", .contentType: "application/json",
        ]
        fields[.sessionID] = sessionID
        fields[.threadID] = threadID
        if let turnState { fields[.turnState] = turnState }
        return HTTPExchangeRequest(
            method: .post, url: profile.responsesURL, headerFields: fields,
            body: .init(bytes: body, coding: coding))
    }
}
