import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
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

    /// Sends the message. Requests are answered concurrently. Every other message has arrived before the next message
    /// is sent.
    private func carry(_ message: ChappieJSON) async {
        guard message["method"]?.string != "notifications/cancelled" else {
            let id = message["params"]?["requestId"]?.int ?? 0
            // Without a session, closing the response cancels the request.
            if state.withLock({ $0.session }) != nil { await exchange(message, nil) }
            state.withLock { $0.exchanges.removeValue(forKey: id) }?.cancel()
            return
        }
        guard message["method"] != nil, let id = message["id"]?.int else { return await exchange(message, nil) }
        state.withLock { state in
            guard !state.isOver else { return }
            state.exchanges[id] = Task.detached { [weak self] in
                await self?.exchange(message, id)
                _ = self?.state.withLock { $0.exchanges.removeValue(forKey: id) }
            }
        }
    }

    /// Sends the message as an HTTP request and delivers the answer.
    ///
    /// - Parameter id: the number of a request that expects an answer.
    private func exchange(_ message: ChappieJSON, _ id: Int?) async {
        var hasBegun = false
        do {
            let response = try await endpoint.transport.send(request(message))
            hasBegun = true
            defer { response.body.cancel() }
            let isAnswered = try await read(response, id, isHandshake: message["method"]?.string == "initialize")
            if let id, !isAnswered { receive(.lost(id, .ended, "its answer broke off")) }
        } catch let failure as LinkFailure {
            if failure.endsSession { end(because: failure.reason) }
            if let id { receive(.lost(id, failure.code, failure.reason)) }
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

    private struct LinkFailure: Error {
        var code = ChappieMCPError.Code.refused
        let reason: String
        var endsSession = false
    }

    private func end(because reason: String) {
        let isFirst = state.withLock { state in
            defer { state.isOver = true }
            return !state.isOver
        }
        guard isFirst else { return }
        queue.finish()
        receive(.ended(reason))
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
        return HTTPExchangeRequest(
            method: .post, url: endpoint.url, headerFields: fields,
            body: message.map { .init(bytes: $0.serializedBytes()) }, deadlines: deadlines(endpoint.callTimeout))
    }

    // MARK: Responses

    /// Reads the messages in the response.
    ///
    /// - Returns: whether the response contained the answer to the request `id`.
    private func read(_ response: HTTPExchangeResponse, _ id: Int?, isHandshake: Bool) async throws -> Bool {
        let hasSession = state.withLock { $0.session != nil }
        if response.status == .notFound, hasSession {
            throw LinkFailure(code: .ended, reason: "its session has ended", endsSession: true)
        }
        let type = (response.headerFields[.contentType] ?? "").prefix { $0 != ";" }.lowercased()
        let isWell = response.status.kind == .successful
        if isWell, isHandshake, let session = response.headerFields[.mcpSession] {
            state.withLock { $0.session = session }
        }
        var isAnswered = false
        if type == "application/json" {
            let bytes = try await whole(response.body)
            guard let message = try? ChappieJSON(parsing: bytes), isWell || message["error"] != nil
            else { throw refusal(response) }
            isAnswered = deliver(message, id, isHandshake: isHandshake)
            if !isWell, !isAnswered { throw refusal(response) }
        } else if isWell, type == "text/event-stream" {
            var decoder = ServerSentEventDecoder(maximumEventBytes: limit)
            for try await piece in response.body {
                var found: [ChappieJSON] = []
                do {
                    try decoder.receivedBytes(piece) { data in
                        if let message = try? ChappieJSON(parsing: Array(data)) { found.append(message) }
                    }
                } catch {
                    throw LinkFailure(
                        code: .protocolViolation, reason: "it sent a message of more than \(limit) bytes")
                }
                for message in found where deliver(message, id, isHandshake: isHandshake) { isAnswered = true }
                // Nothing reads the rest. Some servers keep the stream open.
                if isAnswered { break }
            }
        } else if !isWell {
            throw refusal(response)
        } else if id != nil {
            let name = UntrustedText.token(type, limit: 80) ?? "nothing"
            throw LinkFailure(code: .protocolViolation, reason: "its answer is not the protocol, but \(name)")
        }
        return isAnswered
    }

    /// Delivers a message from the server.
    ///
    /// - Returns: whether the message is the answer to the request `id`.
    private func deliver(_ message: ChappieJSON, _ id: Int?, isHandshake: Bool) -> Bool {
        let isAnswer = id != nil && message["method"] == nil && message["id"]?.int == id
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

    private func refusal(_ response: HTTPExchangeResponse) -> LinkFailure {
        switch response.status.code {
        case 401, 403: LinkFailure(reason: "it requires you to sign in (HTTP \(response.status.code))")
        default: LinkFailure(reason: "it answers with status \(response.status.code)")
        }
    }
}

extension HTTPField.Name {
    fileprivate static let mcpSession = Self("Mcp-Session-Id")!
    fileprivate static let mcpVersion = Self("MCP-Protocol-Version")!
    fileprivate static let mcpMethod = Self("Mcp-Method")!
    fileprivate static let mcpName = Self("Mcp-Name")!
}

/// The header fields that repeat parts of a message (revision 2026-07-28, "Streamable HTTP").
enum MCPHeader {
    /// Returns `text` as a field's value. Text that a field cannot carry is sent as Base64 between two marks.
    static func value(_ text: String) -> String {
        let isPlain = text.utf8.allSatisfy { (0x20...0x7E).contains($0) } && text.first != " " && text.last != " "
        guard !isPlain || (text.hasPrefix("=?base64?") && text.hasSuffix("?=")) else { return text }
        return "=?base64?\(Data(Array(text.utf8)).base64EncodedString())?="
    }
}
