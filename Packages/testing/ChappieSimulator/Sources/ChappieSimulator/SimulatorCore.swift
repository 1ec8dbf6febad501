@_spi(ChappieInternals) import ChappieCore
import Synchronization

/// The answer to a request, before it is rendered for a transport.
package struct SimulatorAnswer: Sendable {
    private let response: BackendResponse
    private let renderer: AnswerRenderer
    /// Whether the connection can't be used for another request.
    private let isLast: Bool
    /// The behaviour of the connection after a successful handshake, or `nil` for every other answer.
    package let terms: WebSocketTerms?

    init(_ response: BackendResponse, _ renderer: AnswerRenderer, isLast: Bool = false, terms: WebSocketTerms? = nil) {
        self.response = response
        self.renderer = renderer
        self.isLast = isLast
        self.terms = terms
    }

    /// The answer as HTTP/1.1.
    package var onTheWire: ScriptedAnswer {
        if terms != nil { return renderer.renderHandshake(response) }
        let answer = renderer.render(response)
        return isLast ? answer.finishing() : answer
    }

    /// The answer in memory, without a connection.
    var inMemory: ScriptedHTTPAnswer { renderer.inMemory(response) }
    /// The scenario's effect on the answer.
    var effect: ScenarioEffect { renderer.effect }
}

/// The backend behind a lock, and the scenario that it plays.
package final class SimulatorCore: Sendable {
    private struct State {
        var backend: Backend
        var progress: ScenarioProgress
    }

    package let log: AsyncStream<String>
    private let logged: AsyncStream<String>.Continuation
    private let configuration: SimulatorConfiguration
    private let state: Mutex<State>

    /// Creates a backend that plays the scenario of `configuration`.
    ///
    /// - Parameter configuration: the configuration, with the scenario's settings applied.
    package init(_ configuration: SimulatorConfiguration) {
        self.configuration = configuration
        let backend = Backend(configuration, issuer: "http://\(configuration.host)")
        state = Mutex(State(backend: backend, progress: ScenarioProgress(configuration.scenario)))
        (log, logged) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1000))
    }

    /// Sets the address that everything issued from now on names.
    package func opened(issuer: String) {
        state.withLock { $0.backend = Backend(configuration, issuer: issuer) }
    }

    package func closed() { logged.finish() }

    /// Calls `body` with the backend and the current time in Unix seconds.
    func withBackend<Value>(_ body: (_ backend: inout Backend, _ now: Int) -> Value) -> Value {
        let now = now
        return state.withLock { body(&$0.backend, now) }
    }

    /// Approves or refuses a sign-in, as the user does on its page.
    ///
    /// - Throws: ``SimulatorError``: `.unknownAccount`, `.unknownUserCode`.
    package func decide(_ code: String, approves: Bool, as accountID: String? = nil) throws(SimulatorError) {
        let (isAccount, isKnown) = withBackend { backend, now in
            let isAccount = accountID.map { backend.configuration.account(id: $0) != nil } ?? true
            return (
                isAccount, isAccount && backend.authorizations.decide(code, approves: approves, as: accountID, now: now)
            )
        }
        guard isAccount else { throw SimulatorError(.unknownAccount, reason: "There is no account of this id") }
        guard isKnown else { throw SimulatorError(.unknownUserCode, reason: "No sign-in waits under this code") }
    }

    /// Replaces the key that signs ID tokens. The old key is no longer published.
    package func rotateKeys() { withBackend { backend, _ in backend.tokens.rotateKeys() } }

    /// The current time in Unix seconds.
    private var now: Int { Int(configuration.clock.now.timeIntervalSince1970.rounded(.down)) }

    // MARK: Requests

    /// Returns the answer to a request.
    ///
    /// - Parameter accepting: returns `Sec-WebSocket-Accept` for the key of a handshake.
    package func answer(_ received: ReceivedRequest, accepting: (_ key: String) -> String) -> SimulatorAnswer {
        let request = BackendRequest(received)
        let owner = withBackend { backend, _ in backend.owner(of: request) }
        let (answered, effect) = play(request, owner) { backend, now, effect in
            backend.respond(to: request, now: now, effect: effect)
        }
        let caller = words(for: owner, session: request.header("session-id"))
        log(request, status: effect?.isSilent == true ? nil : answered.status, caller, isScripted: effect != nil)
        let renderer = AnswerRenderer(
            deltasPerSecond: configuration.deltasPerSecond, effect: effect ?? ScenarioEffect())
        // A scenario can't answer 101 by itself, so this is the backend's own.
        if answered.status == 101 {
            return upgrade(request, answered, accepting, owner, caller, renderer)
        }
        var response = answered
        // The bytes after an upgrade request are no longer HTTP, so the connection can't be used again.
        let isLast = request.header("upgrade") != nil
        if isLast { response.setHeader("connection", "close") }
        // The client takes the bytes after an answer to HEAD as the next answer (RFC 9112, 6.3).
        if request.method == "HEAD" { response.body = .bytes([]) }
        return SimulatorAnswer(response, renderer, isLast: isLast)
    }

    private func upgrade(
        _ request: BackendRequest, _ answered: BackendResponse, _ accepting: (String) -> String,
        _ owner: SimulatorAccount?, _ caller: String, _ renderer: AnswerRenderer
    ) -> SimulatorAnswer {
        let handshake = renderer.effect.handshake ?? HandshakeFaults()
        let wish = handshake.deflate ?? (configuration.webSocketDeflate ? DeflateWish() : nil)
        let offers = request.received.headerFields.filter { $0.name.lowercased() == "sec-websocket-extensions" }
        let deflate = wish.flatMap {
            $0.isRefused ? nil : DeflateTerms.accepting(offers.map(\.value).joined(separator: ","), wish: $0)
        }
        let pingInterval = handshake.pingInterval?.seconds ?? configuration.webSocketPingInterval
        let turnState = answered.headers.first { $0.0 == "x-codex-turn-state" }?.1
        let terms = WebSocketTerms(
            deflate: deflate, pingInterval: pingInterval == .zero ? nil : pingInterval, handshake: handshake,
            connection: WebSocketConnectionState(
                turnState: turnState, clientVersion: request.clientVersion, requestLimit: handshake.requestLimit,
                planApp: request.isOnPlanRoute
                    ? withBackend { backend, _ in
                        backend.tokens.planGrant(of: request.header("authorization"))?.clientID
                    } : nil),
            reply: { [self] message, connection in
                answer(message, path: request.path, owner, caller, &connection)
            })
        var response = answered
        response.setHeader("sec-websocket-accept", accepting(request.header("sec-websocket-key") ?? ""))
        if let deflate { response.setHeader("sec-websocket-extensions", deflate.words) }
        return SimulatorAnswer(renderer.effect.changing(response), renderer, terms: terms)
    }

    private func answer(
        _ message: ReceivedMessage, path: String, _ owner: SimulatorAccount?, _ caller: String,
        _ connection: inout WebSocketConnectionState
    ) -> MessageAnswer {
        let body = (try? ChappieJSON(parsing: message.body)) ?? .null
        let request = BackendRequest(
            ReceivedRequest(
                method: body["generate"] == false ? "PREWARM" : "POST", target: path, body: message.body,
                connection: message.connection), over: .websocket)
        var remembered = connection
        let (response, effect) = play(request, owner) { backend, now, effect in
            backend.responseCreate(body, for: owner, now: now, connection: &remembered, effect: effect)
        }
        connection = remembered
        let renderer = AnswerRenderer(
            deltasPerSecond: configuration.deltasPerSecond, effect: effect ?? ScenarioEffect())
        let answer = MessageAnswer(response, renderer)
        let form = body["previous_response_id"]?.isNull == false ? "incremental" : "whole"
        let count = body["input"]?.array?.count ?? 0
        let size = "\(message.body.count) bytes" + (message.isCompressed ? " as \(message.wireByteCount)" : "")
        let details = "(websocket \(message.connection), \(form), \(count) item\(count == 1 ? "" : "s"), \(size))"
        log(request, status: answer.isSilent ? nil : response.status, " \(details)\(caller)", isScripted: effect != nil)
        return answer
    }

    /// Returns the answer of the scenario, or otherwise of the backend, with the scenario's changes.
    private func play(
        _ request: BackendRequest, _ owner: SimulatorAccount?,
        _ respond: (_ backend: inout Backend, _ now: Int, ScenarioEffect) -> BackendResponse
    ) -> (BackendResponse, ScenarioEffect?) {
        let now = now
        return state.withLock { state in
            let effect = state.progress.effect(for: request)
            if let replacement = effect?.replacement(from: state.backend, account: owner, now: now) {
                let changed = effect?.changing(replacement) ?? replacement
                return (state.backend.numbered(changed, for: request), effect)
            }
            let response = respond(&state.backend, now, effect ?? ScenarioEffect())
            return (request.carrier == .http ? effect?.changing(response) ?? response : response, effect)
        }
    }

    // MARK: Log

    /// Logs a request, such as `POST /oauth/token 200` or
    /// `POST /backend-api/codex/responses 200 (websocket 3, incremental, 1 item, 812 bytes as 405)`.
    ///
    /// The line contains nothing of the query, header or body. Without a status, the connection was closed or left
    /// silent.
    private func log(_ request: BackendRequest, status: Int?, _ details: String, isScripted: Bool) {
        let status = status.map { String($0) } ?? "no answer"
        logged.yield("\(request.method) \(request.path) \(status)\(details)\(isScripted ? " (scenario)" : "")")
    }

    /// Returns ` as ACCOUNT in SESSION`. The text is empty without an owner, and in a simulator with only one account.
    private func words(for owner: SimulatorAccount?, session: String?) -> String {
        guard let owner, !configuration.otherAccounts.isEmpty else { return "" }
        return " as \(owner.id)" + (session.map { " in \($0)" } ?? "")
    }
}
