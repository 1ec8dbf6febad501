@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import ChappieTesting
import FoundationEssentials
import HTTPTypes
import Logging
import Synchronization
import Testing

@testable @_spi(ChappieInternals) import ChappieClient

/// How a scripted answer travels.
enum Wire: String, CaseIterable, Sendable {
    case serverSentEvents, webSocket

    var kind: ChappieTransportEvent.Kind { self == .webSocket ? .webSocket : .serverSentEvents }
    var policy: ChappieStreamingTransportPolicy { self == .webSocket ? .default : .httpSSEOnly }
}

/// What the far end does about one request, over either transport.
struct Reply: Sendable {
    enum Step: Sendable {
        case events([String])
        case wait(ScriptedGate)
        case cut
        case stall
        case fail(ChappieTransportError)
        case close(UInt16)
        /// The beginning of an event; a WebSocket brings no halves.
        case half(of: String)
        /// Server-sent events only; stands alone.
        case raw(ScriptedHTTPAnswer)
    }

    var steps: [Step] = []
    /// An HTTP error: the status of the answer, or of an error frame.
    var refusal: (status: Int, headers: [String: String], body: String)?

    static func answer(_ text: String, id: String = "resp_1") -> Reply {
        Reply(steps: [.events(answering(text, id: id))])
    }

    static func events(_ events: String..., then steps: Step...) -> Reply { Reply(steps: [.events(events)] + steps) }

    /// The beginning of an answer, and what follows it.
    static func half(_ text: String, then steps: Step...) -> Reply {
        Reply(steps: [.events(Array(answering(text).prefix(2)))] + steps)
    }

    static func refused(_ status: Int, _ body: String = "{}", headers: [String: String] = [:]) -> Reply {
        Reply(refusal: (status, headers, body))
    }

    /// A response that failed, after `text`.
    static func failed(_ error: String?, after text: String? = nil) -> Reply {
        let delta = text.map { #"{"type":"response.output_text.delta","delta":"\#($0)"}"# }
        let error = error.map { #","error":\#($0)"# } ?? ""
        let failed = #"{"type":"response.failed","response":{"id":"r","status":"failed"\#(error)}}"#
        return Reply(steps: [.events([delta, failed].compactMap { $0 })])
    }

    static func incomplete(_ text: String, reason: String = "max_output_tokens") -> Reply {
        .events(
            #"{"type":"response.output_text.delta","delta":"\#(text)"}"#,
            #"{"type":"response.incomplete","response":{"id":"r","status":"incomplete","incomplete_details":{"reason":"\#(reason)"}}}"#
        )
    }

    var httpAnswer: ScriptedHTTPAnswer {
        if let refusal {
            var fields: HTTPFields = [:]
            for (name, value) in refusal.headers { HTTPField.Name(name).map { fields[$0] = value } }
            return .response(status: .init(code: refusal.status), headerFields: fields, body: refusal.body)
        }
        if case .raw(let answer)? = steps.first { return answer }
        return ScriptedHTTPAnswer(
            headerFields: [.contentType: "text/event-stream"],
            body: steps.map { step in
                switch step {
                case .events(let events): .chunk(Array(events.map { "data: \($0)\n\n" }.joined().utf8))
                case .half(let event): .chunk(Array("data: \(event.prefix(event.count / 2))".utf8))
                case .wait(let gate): .wait(until: gate)
                case .cut, .close: .cut
                case .stall: .stall
                case .fail(let error): .fail(error)
                case .raw: .cut
                }
            })
    }

    var webSocketSteps: [ScriptedWebSocketStep] {
        if let refusal { return [.deliver([Self.frame(refusal)])] }
        return steps.map { step in
            switch step {
            case .events(let events): .deliver(events)
            case .half: .deliver([WebSocketMessage]())
            case .wait(let gate): .wait(until: gate)
            case .cut: .cut
            case .stall: .silence
            case .fail(let error): .fail(error)
            case .close(let code): .close(.init(code: code))
            case .raw: .cut
            }
        }
    }

    /// The error frame that stands for an HTTP error.
    private static func frame(_ refusal: (status: Int, headers: [String: String], body: String)) -> String {
        var frame = (try? ChappieJSON(parsing: Array(refusal.body.utf8)))?.object ?? ChappieJSONObject()
        frame["type"] = "error"
        frame["status"] = .integer(refusal.status)
        frame["headers"] = .object(ChappieJSONObject(refusal.headers.map { ($0, .string($1)) }))
        return ChappieJSON.object(frame).serialized()
    }
}

/// The events that answer `text` in one message item.
func answering(_ text: String, id: String = "resp_1") -> [String] {
    let item: ChappieJSON = [
        "id": .string("msg_\(id)"), "type": "message", "role": "assistant", "status": "completed",
        "content": [["type": "output_text", "text": .string(text)]],
    ]
    let all: [ChappieJSON] = [
        ["type": "response.created", "response": ["id": .string(id)]],
        ["type": "response.output_text.delta", "item_id": .string("msg_\(id)"), "delta": .string(text)],
        ["type": "response.output_item.done", "output_index": 0, "item": item],
        ["type": "response.completed", "response": ["id": .string(id), "status": "completed"]],
    ]
    return all.map { $0.serialized() }
}

/// The events of an answer that calls tools, or any other items, and says nothing.
func items(_ items: [ChappieJSON], id: String = "resp_1", isWhole: Bool = true) -> [String] {
    let done = items.enumerated().map { index, item -> ChappieJSON in
        ["type": "response.output_item.done", "output_index": .integer(index), "item": item]
    }
    let completed: ChappieJSON = [
        "type": "response.completed",
        "response": [
            "id": .string(id), "status": "completed",
            "usage": ["input_tokens": 10, "output_tokens": 5, "total_tokens": 15],
        ],
    ]
    return (done + (isWhole ? [completed] : [])).map { $0.serialized() }
}

/// The call of a function.
func call(_ name: String, _ arguments: String = "{}", id: String = "call_1") -> ChappieJSON {
    [
        "id": .string("fc_\(id)"), "type": "function_call", "status": "completed", "call_id": .string(id),
        "name": .string(name), "arguments": .string(arguments),
    ]
}

/// A signed-in client whose requests are answered by `replies` in order, whichever way they travel. Pauses pass at once.
struct ClientHarness: Sendable {
    let http: ScriptedHTTPTransport
    let webSocket: ScriptedWebSocketTransport
    let clock = HastyClock()
    let seed: SeededAuth
    let credentials: CredentialManager
    let client: ChappieClient

    /// - Parameters:
    ///   - openings: how the first WebSockets open; later ones open, and answer with `replies`.
    ///   - handshake: holds up every WebSocket while it opens.
    ///   - others: the answers to HTTP requests that are no turns, in order.
    ///   - endpoints: another backend than ChatGPT's.
    init(
        _ wire: Wire = .serverSentEvents, _ replies: [Reply] = [], openings: [ScriptedWebSocketOpening] = [],
        others: [ScriptedHTTPAnswer] = [], endpoints other: ChappieEndpoints? = nil, signedIn: Bool = true,
        harness: ChappieHarness = "Be brief.",
        backoff: ChappieRateLimitBackoffPolicy = .default, policy: ChappieStreamingTransportPolicy? = nil,
        messageLimit: Int? = nil, clock: (any ChappieClock)? = nil,
        handshake: ScriptedGate? = nil, modelCache: (any ChappieModelCache)? = nil,
        notes: (any ChappieWebSocketNotes)? = nil,
        middleware: [any HTTPMiddleware] = [], logger: Logger? = nil, tools: [ChappieHostTool] = [],
        providers: [any ChappieToolProvider] = [], approval: ChappieToolApprovalHandler? = nil,
        backgroundTime: any BackgroundTime = UnlimitedBackgroundTime(), observer: (any ChappieObserver)? = nil,
        configure: (inout ChappieConfiguration) -> Void = { _ in }
    ) {
        let left = Mutex((replies: replies[...], others: others[...], openings: openings[...]))
        // Receivers' and the sign-in's deadlines stand still: silence is scripted.
        let still = ManualClock()
        http = ScriptedHTTPTransport(clock: still) { request in
            let isTurn = request.url.path().hasSuffix("/responses")
            let answer = left.withLock { left in
                isTurn ? left.replies.popFirst()?.httpAnswer : left.others.popFirst()
            }
            guard let answer else { throw Self.unscripted("HTTP request to \(request.url.path())") }
            return answer
        }
        webSocket = ScriptedWebSocketTransport(clock: still) { _ in
            try await handshake?.pass()
            if let opening = left.withLock({ $0.openings.popFirst() }) { return opening }
            guard left.withLock({ !$0.replies.isEmpty }) else { throw Self.unscripted("WebSocket") }
            return .opened { _, _ in left.withLock { $0.replies.popFirst() }?.webSocketSteps ?? [] }
        }
        var endpoints = other ?? .chatGPT
        if let messageLimit { endpoints.webSocketMessageLimit = messageLimit }
        seed = SeededAuth(expiresAt: still.now.addingTimeInterval(86_400))
        var known = seed
        known.endpoints = endpoints
        let slot = CredentialSlot(issuer: endpoints.credentialIssuer)
        credentials = CredentialManager(
            slot: slot, store: InMemoryCredentialStore(signedIn ? [slot: known.credential] : [:]), transport: http,
            endpoints: endpoints, clock: still, backgroundTime: backgroundTime, observer: observer)
        var configuration = ChappieConfiguration(
            harness: harness, rateLimitBackoff: backoff, streamingTransportPolicy: policy ?? wire.policy,
            endpoints: endpoints)
        configure(&configuration)
        // Tools have deadlines, which must not pass at once.
        let clock = clock ?? (tools.isEmpty && providers.isEmpty ? self.clock : SystemClock())
        client = ChappieClient(
            configuration: configuration, transport: http, webSocket: webSocket, credentials: credentials,
            tools: tools, toolProviders: providers, toolApprovalHandler: approval, clock: clock,
            entropy: FixedEntropy(),
            modelCache: modelCache ?? SeededModelCache(endpoints: endpoints, listedAt: clock.now),
            webSocketNotes: notes,
            middleware: middleware, logger: logger, observer: observer)
        if let logger { credentials.log(to: logger) }
    }

    private static func unscripted(_ what: String) -> ChappieTransportError {
        ChappieTransportError(
            .unavailable, stage: .configuration, host: "", reason: "the script has no answer for another \(what)")
    }

    /// The bodies of the turns' requests over HTTP, then those over each WebSocket in order.
    var requests: [ChappieJSON] {
        get throws {
            let posted = http.receivedRequests.filter { $0.url.path().hasSuffix("/responses") }
            return try posted.map { try ChappieJSON(parsing: $0.body?.bytes ?? []) }
                + webSocket.peers.indices.flatMap(frames)
        }
    }

    /// What was sent on WebSocket `index`.
    func frames(_ index: Int) throws -> [ChappieJSON] {
        try webSocket.peers[index].sentMessages.map { message in
            guard case .text(let text) = message else { return .null }
            return try ChappieJSON(parsing: Array(text.utf8))
        }
    }

    /// Asks, and gives what a reader of the stream sees.
    func ask(_ text: String = "Hi") async -> Seen { await Seen(client.stream(text)) }
}

/// Knows one list of models: turns ask for none, and take the form whose input has no more than what was said.
struct SeededModelCache: ChappieModelCache {
    static let list: ChappieJSON = [
        "models": [
            [
                "slug": "flat", "priority": 1, "use_responses_lite": false, "web_search_tool_type": "text_and_image",
                "service_tiers": [["id": "priority", "name": "Fast", "description": "Sooner"]],
            ], ["slug": "other", "priority": 2],
            [
                "slug": "lite", "priority": 3, "visibility": "list", "use_responses_lite": true,
                "web_search_tool_type": "text", "comp_hash": "3000", "default_reasoning_level": "medium",
                "supported_reasoning_levels": ["low", "medium", "high", "xhigh", "max", "ultra"],
            ],
        ]
    ]
    var list = Self.list
    var endpoints = ChappieEndpoints.chatGPT
    let listedAt: Date

    func load(_ name: String) -> [UInt8]? {
        let person = SeededAuth()
        let account = endpoints.usesPlan ? person.userID : person.accountID
        let owner = [endpoints.issuer.absoluteString, endpoints.backend.absoluteString, person.userID, account]
        let record = ModelListRecord(owner: owner.compactMap(\.self), format: WireFormat.version)
        return record.document(tag: "\"seed\"", list: list, at: listedAt)
    }

    func save(_ document: [UInt8], _ name: String) {}
}

/// Knows no list, and keeps none.
struct EmptyModelCache: ChappieModelCache {
    func load(_ name: String) -> [UInt8]? { nil }
    func save(_ document: [UInt8], _ name: String) {}
}

/// What a reader of a turn's events saw.
struct Seen: Sendable, CustomStringConvertible {
    var text = ""
    var reasoning = ""
    var commentary = ""
    /// The tool calls as a host carries them out, the moment it is told: their arguments.
    var executed: [String] = []
    /// The texts of answers that broke and started again.
    var discarded: [String] = []
    /// Of the transport.
    var events: [ChappieTransportEvent] = []
    var notices: [ChappieNotice] = []
    var response: ChappieResponse?
    var failure: (any Error)?

    init(_ stream: AsyncThrowingStream<ChappieStreamEvent, any Error>) async {
        do {
            for try await event in stream {
                switch event {
                case .textDelta(let delta): text += delta
                case .restarted(let old):
                    text = String(decoding: text.utf8.dropLast(old.utf8.count), as: UTF8.self)
                    reasoning = ""
                    commentary = ""
                    executed = []
                    discarded.append(old)
                case .reasoningSummaryDelta(let delta): reasoning += delta
                case .commentaryDelta(let delta): commentary += delta
                case .notice(let notice): notices.append(notice)
                case .item(let item) where item.isToolCall: executed.append(item.json["arguments"]?.string ?? "")
                case .transport(let event): events.append(event)
                case .completed(let whole): response = whole
                default: continue
                }
            }
        } catch { failure = error }
    }

    var error: ChappieClientError? { failure as? ChappieClientError }
    var description: String { "\"\(text)\", \(events), \(failure.map { "\($0)" } ?? "no error")" }

    /// The pauses before further attempts, in order.
    var pauses: [Duration] {
        events.compactMap { event in
            switch event {
            case .reconnecting(_, _, let delay), .waiting(_, _, let delay): delay
            default: nil
            }
        }
    }
}
