@_spi(ChappieInternals) import ChappieCore
import FoundationEssentials
import Synchronization

/// The backend behind its lock, and the scenario it plays.
final class SimulatorCore: Sendable {
    private struct State {
        var backend: Backend
        var progress: ScenarioProgress
    }

    let log: AsyncStream<SimulatorExchange>
    private let logged: AsyncStream<SimulatorExchange>.Continuation
    private let configuration: SimulatorConfiguration
    private let state: Mutex<State>

    init(_ configuration: SimulatorConfiguration) {
        self.configuration = configuration.applyingScenario()
        state = Mutex(
            State(
                backend: Backend(self.configuration, issuer: "http://\(configuration.host)"),
                progress: ScenarioProgress(configuration.scenario)))
        (log, logged) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1000))
    }

    /// The address is known: what is issued from now on names it.
    func opened(issuer: String) {
        state.withLock { $0.backend = Backend(configuration, issuer: issuer) }
    }

    func closed() { logged.finish() }

    // MARK: Requests

    func answer(_ received: ReceivedRequest) -> ServerReply {
        let request = BackendRequest(received)
        let now = self.now
        let (answered, effect, owner) = state.withLock { state in
            let effect = state.progress.effect(for: request)
            let owner = state.backend.owner(of: request)
            let response =
                effect?.replacement(from: state.backend, account: owner, now: now)
                ?? state.backend.respond(to: request, now: now, effect: effect ?? ScenarioEffect())
            return (effect?.changing(response) ?? response, effect, owner)
        }
        let caller = caller(owner, session: request.header("session-id"))
        logged.yield(
            SimulatorExchange(
                method: request.method, path: request.path, status: effect?.isSilent == true ? nil : answered.status,
                isScripted: effect != nil, webSocket: nil, caller: caller))
        let renderer = AnswerRenderer(
            deltasPerSecond: configuration.deltasPerSecond, effect: effect ?? ScenarioEffect())
        // A scenario can't answer 101, so this is the backend's own.
        if answered.status == 101 { return upgrade(request, answered, owner, caller, renderer) }
        var response = answered
        // The bytes after an upgrade request are no longer HTTP, so the connection can't be used again.
        let isLast = request.header("upgrade") != nil
        if isLast { response.setHeader("connection", "close") }
        // The client takes the bytes after an answer to HEAD for the next answer (RFC 9112, 6.3).
        if request.method == "HEAD" { response.body = .bytes([]) }
        let answer = renderer.render(response)
        return .answer(isLast ? ScriptedAnswer(steps: answer.steps + [.finish]) : answer)
    }

    private func upgrade(
        _ request: BackendRequest, _ response: BackendResponse, _ owner: SimulatorAccount?,
        _ caller: SimulatorExchange.Caller?, _ renderer: AnswerRenderer
    ) -> ServerReply {
        let handshake = renderer.effect.handshake ?? HandshakeFaults()
        let wish: DeflateWish? =
            switch handshake.deflate {
            case .refused: nil
            case .agreed(let wish): wish
            case nil: configuration.webSocketDeflate ? DeflateWish() : nil
            }
        let offers = request.received.headerFields.filter { $0.name.lowercased() == "sec-websocket-extensions" }
        let deflate = wish.flatMap {
            DeflateTerms.accepting(offers.map(\.value).joined(separator: ","), wish: $0)
        }
        let pingInterval = handshake.pingInterval ?? configuration.webSocketPingInterval
        let terms = WebSocketTerms(
            deflate: deflate?.terms, pingInterval: pingInterval == .zero ? nil : pingInterval, handshake: handshake,
            turnState: response.headers.first { $0.0 == "x-codex-turn-state" }?.1 ?? "",
            deltasPerSecond: configuration.deltasPerSecond,
            answer: { [self] message, conversation in
                answer(message, path: request.path, owner, caller, &conversation)
            })
        return .upgrade(renderer.renderHandshake(response, extensions: deflate?.answer), terms)
    }

    private func answer(
        _ message: ReceivedMessage, path: String, _ owner: SimulatorAccount?, _ caller: SimulatorExchange.Caller?,
        _ conversation: inout WebSocketConversation
    ) -> MessageAnswer {
        let body = (try? ChappieJSON(parsing: message.body)) ?? .null
        let isPrewarm = body["generate"] == false
        let request = BackendRequest(
            ReceivedRequest(
                method: isPrewarm ? "PREWARM" : "POST", target: path, body: message.body,
                connection: message.connection), over: .websocket)
        let now = self.now
        var remembered = conversation
        let (response, effect) = state.withLock { state -> (BackendResponse, ScenarioEffect?) in
            let effect = state.progress.effect(for: request)
            if let response = effect?.replacement(from: state.backend, account: owner, now: now) {
                return (effect?.changing(response) ?? response, effect)
            }
            let response = state.backend.responseCreate(
                body, for: owner, byteCount: message.body.count, now: now, conversation: &remembered,
                effect: effect ?? ScenarioEffect())
            return (response, effect)
        }
        conversation = remembered
        let answer = MessageAnswer(response, effect: effect ?? ScenarioEffect())
        logged.yield(
            SimulatorExchange(
                method: request.method, path: path, status: answer.isSilent ? nil : response.status,
                isScripted: effect != nil,
                webSocket: SimulatorExchange.WebSocketDetails(
                    isPrewarm: isPrewarm, isIncremental: body["previous_response_id"]?.isNull == false,
                    inputItemCount: body["input"]?.array?.count ?? 0, isCompressed: message.isCompressed,
                    payloadByteCount: message.body.count, wireByteCount: message.wireByteCount,
                    connection: message.connection), caller: caller))
        return answer
    }

    /// The caller, where that is worth telling: in a simulator of one account it is always the same.
    private func caller(_ owner: SimulatorAccount?, session: String?) -> SimulatorExchange.Caller? {
        guard let owner, !configuration.otherAccounts.isEmpty else { return nil }
        return SimulatorExchange.Caller(accountID: owner.id, sessionID: session)
    }

    // MARK: Sign-in

    func approve(_ typed: String, as accountID: String?) throws(SimulatorError) {
        let now = self.now
        try decide(typed) { (backend, code) throws(SimulatorError) in
            if let accountID, backend.configuration.account(id: accountID) == nil {
                throw SimulatorError(.unknownAccount, reason: "There is no account of this id")
            }
            return backend.authorizations.approve(code, as: accountID, now: now)
        }
    }

    func refuse(_ typed: String) throws(SimulatorError) {
        let now = self.now
        try decide(typed) { backend, code in backend.authorizations.refuse(code, now: now) }
    }

    private func decide(
        _ typed: String, _ decision: (inout Backend, UserCode) throws(SimulatorError) -> Bool
    ) throws(SimulatorError) {
        let isKnown = try state.withLock { (state) throws(SimulatorError) in
            guard let code = UserCode(typed: typed) else { return false }
            return try decision(&state.backend, code)
        }
        guard isKnown else { throw SimulatorError(.unknownUserCode, reason: "No sign-in waits under this code") }
    }

    func issueCredential(clientID: String) -> SimulatorCredential {
        let now = self.now
        return state.withLock { state in
            let issued = state.backend.tokens.signIn(clientID: clientID, now: now)
            let account = configuration.account
            return SimulatorCredential(
                idToken: issued.idToken, accessToken: issued.accessToken, refreshToken: issued.refreshToken,
                accountID: account.id, email: account.email, plan: account.plan,
                expiresAt: Date(timeIntervalSince1970: Double(now + issued.expiresIn)))
        }
    }

    /// Unix seconds.
    private var now: Int { Int(configuration.clock.now.timeIntervalSince1970.rounded(.down)) }
}
