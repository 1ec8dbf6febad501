import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import HTTPTypes
import Synchronization

/// A server that is reached over HTTP, and the way to reach it.
struct MCPEndpoint: Sendable {
    let url: URL
    /// The header fields that are sent with every request, for example an authorization.
    let headerFields: HTTPFields
    let transport: any HTTPTransport
    /// The silence after which a call is given up.
    let callTimeout: Duration
}

/// A link that carries each message as an HTTP request. The answer is the response, either complete or as an event
/// stream (modelcontextprotocol.io/specification/2025-11-25/basic/transports, "Streamable HTTP").
///
/// It does not open a stream for messages that the server would send without a request.
final class MCPHTTPLink: MCPLink {
    private struct State {
        /// The server's name for the session, which only servers with a handshake have.
        var session: String?
        var version: String?
        var exchanges: [Int: Task<Void, Never>] = [:]
        /// The number of messages without an answer that are under way.
        var notices = 0
        var isOver = false
    }

    private let endpoint: MCPEndpoint
    private let limit: Int
    private let receive: @Sendable (MCPLinkEvent) -> Void
    private let state = Mutex(State())
    private let queue: AsyncStream<ChappieJSON>.Continuation

    /// Creates a link to the endpoint.
    ///
    /// - Parameter limit: the largest size of a message, in bytes.
    init(_ endpoint: MCPEndpoint, limit: Int, receive: @escaping @Sendable (MCPLinkEvent) -> Void) {
        self.endpoint = endpoint
        self.limit = limit
        self.receive = receive
        let (messages, queue) = AsyncStream<ChappieJSON>.makeStream(bufferingPolicy: .bufferingOldest(1000))
        self.queue = queue
        Task.detached { [weak self] in
            for await message in messages { await self?.carry(message) }
        }
    }

    func send(_ message: ChappieJSON) -> Bool {
        switch queue.yield(message) {
        case .enqueued, .terminated: true
        case .dropped: false
        @unknown default: false
        }
    }

    func end(patience: Duration, grace: Duration) {
        let (session, exchanges, isFirst) = state.withLock { state in
            defer { (state.isOver, state.exchanges) = (true, [:]) }
            return (state.session, state.exchanges.values, !state.isOver)
        }
        guard isFirst else { return }
        queue.finish()
        for exchange in exchanges { exchange.cancel() }
        guard session != nil else { return receive(.ended("it has been closed")) }
        // The server may discard the session. The wait is as long as for a program.
        var request = request(nil)
        request.method = .delete
        request.deadlines = deadlines(patience)
        Task.detached { [self, request] in
            (try? await endpoint.transport.send(request))?.body.cancel()
            receive(.ended("it has been closed"))
        }
    }

    // MARK: Messages

    /// The time by which a silent exchange outlives the call, so that the call reports its limit.
    private static let lateness = Duration.seconds(5)
    /// The limit for a message that has no answer.
    private static let noticeLimit = Duration.seconds(5)
    /// The number of messages without an answer that may be under way. A server that asks for more gets no answer.
    private static let noticesUnderWay = 16
    /// The longest pause for which a server may ask before a request is sent again, in seconds.
    private static let longestPause = 5.0

    /// Sends the message. Requests are answered concurrently. The end of the handshake has arrived before the next
    /// message is sent. Every other message delays nothing.
    private func carry(_ message: ChappieJSON) async {
        let method = message["method"]?.string
        if method == "notifications/initialized" { return await exchange(message, nil) }
        if method != nil, let id = message["id"]?.int {
            return state.withLock { state in
                guard !state.isOver else { return }
                state.exchanges[id] = Task.detached { [weak self] in
                    await self?.exchange(message, id)
                    _ = self?.state.withLock { $0.exchanges.removeValue(forKey: id) }
                }
            }
        }
        let cancelled = method == "notifications/cancelled" ? message["params"]?["requestId"]?.int : nil
        let mayNotify = state.withLock { state in
            // Without a session, closing the response cancels the request.
            guard cancelled == nil || state.session != nil, state.notices < Self.noticesUnderWay else { return false }
            state.notices += 1
            return true
        }
        guard mayNotify else { return cancel(cancelled) }
        Task.detached { [weak self] in
            await self?.exchange(message, nil)
            self?.cancel(cancelled)
            self?.state.withLock { $0.notices -= 1 }
        }
    }

    private func cancel(_ id: Int?) {
        guard let id else { return }
        state.withLock { $0.exchanges.removeValue(forKey: id) }?.cancel()
    }

    /// Sends the message as an HTTP request and delivers the answer.
    ///
    /// - Parameter id: the number of a request that expects an answer.
    private func exchange(_ message: ChappieJSON, _ id: Int?) async {
        var hasBegun = false
        do {
            var request = request(message)
            if id == nil { request.deadlines = deadlines(Self.noticeLimit) }
            var position = StreamPosition()
            var isAnswered = false
            do {
                let response = try await send(request)
                hasBegun = true
                defer { response.body.cancel() }
                isAnswered = try await read(
                    response, id, &position, isHandshake: message["method"]?.string == "initialize")
            } catch is ChappieTransportError where position.lastEventID != nil {
                // The answer can be continued.
            }
            while let id, !isAnswered, let last = position.lastEventID {
                try await Task.sleep(for: position.pause, clock: .continuous)
                isAnswered = try await readMore(id, after: last, &position)
            }
            if let id, !isAnswered { receive(.lost(id, .ended, "its answer broke off")) }
        } catch let failure as LinkFailure {
            // Nobody waits for an answer to another message, and the next request shows whether the session has ended.
            guard let id else { return }
            // There is no session left to leave.
            if failure.code == .sessionEnded { state.withLock { $0.session = nil } }
            receive(.lost(id, failure.code, failure.reason))
        } catch let refusal as OAuthRefusal {
            if let id { receive(.lost(id, refusal.code, refusal.reason)) }
        } catch is CancellationError {
            return
        } catch {
            let reason = (error as? ChappieTransportError)?.reason ?? "the connection failed"
            let words = hasBegun ? "its answer broke off" : "it can't be reached"
            if let id { receive(.lost(id, .ended, "\(words): \(reason)")) }
        }
    }

    /// The place in an event stream at which the server can continue its answer.
    private struct StreamPosition {
        var lastEventID: String?
        var pause = Duration.seconds(1)
        /// The bounds of the server's pause, in milliseconds.
        private static let pauses = 100...60_000

        mutating func take(_ decoder: ServerSentEventDecoder) {
            lastEventID = decoder.lastEventID ?? lastEventID
            guard let retry = decoder.retry else { return }
            pause = .milliseconds(min(max(retry, Self.pauses.lowerBound), Self.pauses.upperBound))
        }
    }

    /// Reads the rest of an answer whose stream has ended. The limit of the request also applies to its continuations.
    private func readMore(_ id: Int, after last: String, _ position: inout StreamPosition) async throws -> Bool {
        var request = request(nil)
        request.method = .get
        request.headerFields[.lastEventID] = last
        let response = try await send(request)
        defer { response.body.cancel() }
        guard response.status.kind == .successful else {
            throw LinkFailure(code: .ended, reason: "its answer broke off")
        }
        return try await read(response, id, &position, isHandshake: false)
    }

    /// Sends the request, and sends it again if the server asks for that after a short pause.
    private func send(_ request: HTTPExchangeRequest) async throws -> HTTPExchangeResponse {
        let response = try await endpoint.transport.send(request)
        guard response.status == .serviceUnavailable, let value = response.headerFields[.retryAfter],
            let pause = RetryAfter.seconds(value, now: Date()), pause <= Self.longestPause
        else { return response }
        response.body.cancel()
        try await Task.sleep(for: .seconds(pause), clock: .continuous)
        return try await endpoint.transport.send(request)
    }

    private struct LinkFailure: Error {
        var code = ChappieMCPError.Code.refused
        let reason: String
    }

    private func deadlines(_ silence: Duration) -> ChappieDeadlines {
        var deadlines = ChappieDeadlines.default
        deadlines.responseHead = silence
        deadlines.idle = silence
        return deadlines
    }

    private func request(_ message: ChappieJSON?) -> HTTPExchangeRequest {
        var fields = endpoint.headerFields
        fields[.accept] = "application/json, text/event-stream"
        fields[.contentType] = "application/json"
        fields[.userAgent] = fields[.userAgent] ?? "chappie/\(ChappieVersion.current)"
        let (session, version) = state.withLock { ($0.session, $0.version) }
        fields[.mcpSession] = session
        let stated = message?["params"]?["_meta"]?["io.modelcontextprotocol/protocolVersion"]?.string
        fields[.mcpVersion] = stated ?? version
        if stated != nil {
            fields[.mcpMethod] = message?["method"]?.string
            let parameters = message?["params"]
            fields[.mcpName] = (parameters?["name"] ?? parameters?["uri"])?.string.map(MCPHeader.value)
        }
        var request = HTTPExchangeRequest(
            method: .post, url: endpoint.url, headerFields: fields,
            body: message.map { .init(bytes: $0.serializedBytes()) },
            deadlines: deadlines(endpoint.callTimeout + Self.lateness))
        // The fields may be secrets, and they are for this address only.
        request.followsRedirects = endpoint.headerFields.isEmpty
        return request
    }

    // MARK: Responses

    /// Reads the messages in the response.
    ///
    /// - Returns: whether the response contained the answer to the request `id`.
    private func read(
        _ response: HTTPExchangeResponse, _ id: Int?, _ position: inout StreamPosition, isHandshake: Bool
    ) async throws -> Bool {
        let type = (response.headerFields[.contentType] ?? "").prefix { $0 != ";" }.lowercased()
        guard response.status.kind == .successful else {
            return try await readRefusal(response, type, id, isHandshake: isHandshake)
        }
        if isHandshake, let session = response.headerFields[.mcpSession] {
            state.withLock { $0.session = session }
        }
        var isAnswered = false
        if type == "application/json" {
            let bytes = try await whole(response.body)
            guard let message = try? ChappieJSON(parsing: bytes) else { throw Self.unreadable(bytes) }
            isAnswered = deliver(message, id, isHandshake: isHandshake)
        } else if type == "text/event-stream" {
            var decoder = ServerSentEventDecoder(maximumEventBytes: limit)
            defer { position.take(decoder) }
            for try await piece in response.body {
                var found: [ChappieJSON] = []
                var unread: [UInt8]?
                do {
                    try decoder.receivedBytes(piece) { data in
                        if let message = try? ChappieJSON(parsing: Array(data)) {
                            found.append(message)
                        } else if !data.isEmpty {
                            unread = Array(data)
                        }
                    }
                } catch {
                    throw LinkFailure(
                        code: .protocolViolation, reason: "it sent a message of more than \(limit) bytes")
                }
                position.take(decoder)
                for message in found where deliver(message, id, isHandshake: isHandshake) { isAnswered = true }
                // Nothing reads the rest. Some servers keep the stream open.
                if isAnswered { break }
                if let unread, id != nil { throw Self.unreadable(unread) }
            }
        } else if id != nil {
            let name = UntrustedText.token(type, limit: 80)
            throw LinkFailure(
                code: .protocolViolation,
                reason: name.map { "its answer is not the protocol, but \($0)" }
                    ?? "its answer has no Content-Type (HTTP \(response.status.code))")
        }
        return isAnswered
    }

    private static func unreadable(_ bytes: [UInt8]) -> LinkFailure {
        let quote = UntrustedText.message(String(decoding: bytes.prefix(1000), as: UTF8.self), limit: 120) ?? "nothing"
        return LinkFailure(code: .protocolViolation, reason: "its answer is not JSON, but: \(quote)")
    }

    /// Delivers a message from the server.
    ///
    /// - Returns: whether the message is the answer to the request `id`.
    private func deliver(_ message: ChappieJSON, _ id: Int?, isHandshake: Bool) -> Bool {
        guard message["method"] == nil, let id else {
            receive(.bytes(message.serializedBytes() + [UInt8(ascii: "\n")]))
            return false
        }
        var message = message
        // An error without an id is about the request that it answers.
        if message["error"]?.object != nil, message["id"]?.isNull != false, var members = message.object {
            members["id"] = .integer(id)
            message = .object(members)
        }
        let isAnswer = MCPMessage.number(message["id"]) == id
        if isAnswer, isHandshake, let version = message["result"]?["protocolVersion"]?.string {
            state.withLock { $0.version = version }
        }
        receive(.bytes(message.serializedBytes() + [UInt8(ascii: "\n")]))
        return isAnswer
    }

    private func whole(_ body: HTTPBody) async throws -> [UInt8] {
        var bytes: [UInt8] = []
        for try await piece in body {
            bytes += piece
            guard bytes.count <= limit else {
                throw LinkFailure(code: .protocolViolation, reason: "it sent a message of more than \(limit) bytes")
            }
        }
        return bytes
    }

    // MARK: Refusals

    /// Reads a response whose status is not a success. It may be an error about this request, which is an answer.
    ///
    /// - Throws: a failure with the server's reason.
    private func readRefusal(
        _ response: HTTPExchangeResponse, _ type: String, _ id: Int?, isHandshake: Bool
    ) async throws -> Bool {
        let bytes = try await whole(response.body)
        let body = try? ChappieJSON(parsing: bytes)
        let status = response.status.code
        let hadSession = !isHandshake && state.withLock { $0.session != nil }
        if let body, body["error"]?.object != nil, MCPMessage.number(body["id"]) == id, id != nil,
            !hadSession || ![404, 410].contains(status)
        {
            return deliver(body, id, isHandshake: isHandshake)
        }
        let text = type == "text/plain" ? String(decoding: bytes.prefix(1000), as: UTF8.self) : nil
        let given = UntrustedText.message(body.flatMap(Self.reason) ?? text, limit: 300) ?? ""
        let words = given.isEmpty ? "" : ": \(given.hasSuffix(".") ? String(given.dropLast()) : given)"
        if hadSession, [400, 404, 410].contains(status) {
            throw LinkFailure(code: .sessionEnded, reason: "its session has ended\(words)")
        }
        if response.status.kind == .redirection, let location = response.headerFields[.location] {
            let target = UntrustedText.message(location, limit: 200) ?? "another address"
            throw LinkFailure(
                reason: "it redirects to \(target), which does not get the token; name that address in its place")
        }
        switch status {
        case 401: throw LinkFailure(reason: "it requires you to sign in (HTTP 401)\(words)")
        case 403 where words.isEmpty: throw LinkFailure(reason: "it requires you to sign in (HTTP 403)")
        case 404 where isHandshake:
            throw LinkFailure(
                reason: "it answers with status 404\(words); check the path of its address, which often ends in /mcp")
        case 405 where isHandshake:
            throw LinkFailure(
                reason: "it answers with status 405\(words); the older transport HTTP+SSE is not supported")
        default: throw LinkFailure(reason: "it answers with status \(status)\(words)")
        }
    }

    /// Returns the reason in the body of a refusal: an error of JSON-RPC, of OAuth (RFC 6749, 5.2), or of a framework.
    private static func reason(_ body: ChappieJSON) -> String? {
        let candidates = [
            body["error"]?["message"], body["error_description"], body["message"], body["detail"], body["error"],
        ]
        return candidates.lazy.compactMap { $0?.string }.first
    }
}

extension HTTPField.Name {
    fileprivate static let lastEventID = Self("Last-Event-ID")!
    fileprivate static let mcpSession = Self("Mcp-Session-Id")!
    fileprivate static let mcpVersion = Self("MCP-Protocol-Version")!
    fileprivate static let mcpMethod = Self("Mcp-Method")!
    fileprivate static let mcpName = Self("Mcp-Name")!
}
