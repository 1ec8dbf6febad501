import ChappieCore
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
        self.configuration = configuration
        state = Mutex(
            State(
                backend: Backend(settings: configuration.settings(issuer: "http://\(configuration.host)")),
                progress: ScenarioProgress(configuration.scenario)))
        (log, logged) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1000))
    }

    /// The address is known: what is issued from now on names it.
    func opened(issuer: String) {
        state.withLock { $0.backend = Backend(settings: configuration.settings(issuer: issuer)) }
    }

    func closed() { logged.finish() }

    func answer(_ received: ReceivedRequest) -> ServerReply {
        let request = BackendRequest(received)
        let now = self.now
        let (answered, effect) = state.withLock { state in
            let effect = state.progress.effect(for: request)
            let response =
                effect?.replacement?.response(settings: state.backend.settings, now: now)
                ?? state.backend.respond(
                    to: request, now: now, quirks: effect?.quirks ?? DeviceQuirks(),
                    modelQuirks: ModelQuirks(divergesAfter: effect?.divergesAfter))
            return (effect?.changing(response) ?? response, effect)
        }
        var response = answered
        let faults = effect?.faults ?? WireFaults()
        let isSilent = faults.cut?.place == .beforeHead || faults.stall == .beforeHead
        logged.yield(
            SimulatorExchange(
                method: request.method, path: request.path, status: isSilent ? nil : response.status,
                isScripted: effect != nil))
        if response.status == 101, effect?.replacement == nil {
            return upgrade(request, response, faults: faults, handshake: effect?.handshake ?? HandshakeFaults())
        }
        // What follows an upgrade request is no longer HTTP, so the connection can't be used again.
        let isLast = request.header("upgrade") != nil
        if isLast { response.setHeader("connection", "close") }
        let renderer = AnswerRenderer(
            deltasPerSecond: configuration.resolvedRate, faults: faults,
            format: effect?.edits.format ?? EventFormat())
        let answer = renderer.render(request.method == "HEAD" ? response.withoutBody : response)
        return .answer(isLast ? answer.finishing : answer)
    }

    private func upgrade(
        _ request: BackendRequest, _ response: BackendResponse, faults: WireFaults, handshake: HandshakeFaults
    ) -> ServerReply {
        let offers = request.received.headerFields.filter { $0.name.lowercased() == "sec-websocket-extensions" }
        let deflate =
            handshake.deflate ?? configuration.resolvedDeflate
            ? DeflateTerms.accepting(offers.map(\.value).joined(separator: ","), wish: handshake.deflateWish) : nil
        let renderer = HandshakeRenderer(faults: faults, handshake: handshake)
        let pingInterval = handshake.pingInterval ?? configuration.resolvedPingInterval
        let terms = WebSocketTerms(
            deflate: deflate?.terms, pingInterval: pingInterval == .zero ? nil : pingInterval,
            answersPings: handshake.answersPings, requestLimit: handshake.requestLimit,
            turnState: response.headers.first { $0.0 == "x-codex-turn-state" }?.1 ?? "", closure: handshake.closure,
            deltasPerSecond: configuration.resolvedRate,
            answer: { [self] message, conversation in answer(message, path: request.path, &conversation) })
        return .upgrade(renderer.render(response, extensions: deflate?.answer), terms)
    }

    private func answer(
        _ message: ReceivedMessage, path: String, _ conversation: inout WebSocketConversation
    ) -> MessageAnswer {
        let body = (try? ChappieJSON(parsing: message.body)) ?? .null
        let isPrewarm = body["generate"] == false
        let request = BackendRequest(
            ReceivedRequest(
                method: isPrewarm ? "PREWARM" : "POST", target: path, body: message.body,
                connection: message.connection), over: .websocket)
        let now = self.now
        var remembered = conversation
        let (outcome, effect) = state.withLock { state -> (Backend.MessageOutcome, ScenarioEffect?) in
            let effect = state.progress.effect(for: request)
            if let replacement = effect?.replacement {
                let response = replacement.response(settings: state.backend.settings, now: now)
                return (.refusal(effect?.changing(response) ?? response), effect)
            }
            guard body.object != nil else { return (.refusal(Backend.notAnObject), effect) }
            guard body["type"] == "response.create" else {
                return (.refusal(Backend.invalid("Only response.create is understood.", parameter: "type")), effect)
            }
            let outcome = state.backend.responseCreate(
                body, byteCount: message.body.count, now: now, conversation: &remembered,
                quirks: ModelQuirks(divergesAfter: effect?.divergesAfter), edits: effect?.edits ?? EventEdits())
            return (outcome, effect)
        }
        conversation = remembered
        let answer = MessageAnswer(outcome, effect: effect)
        logged.yield(
            SimulatorExchange(
                method: request.method, path: path, status: answer.isSilent ? nil : outcome.status,
                isScripted: effect != nil,
                webSocket: SimulatorExchange.WebSocketDetails(
                    isPrewarm: isPrewarm, isIncremental: body["previous_response_id"]?.isNull == false,
                    inputItemCount: body["input"]?.array?.count ?? 0, isCompressed: message.isCompressed,
                    payloadByteCount: message.body.count, wireByteCount: message.wireByteCount,
                    connection: message.connection)))
        return answer
    }

    func decide(_ typed: String, approves: Bool) throws(SimulatorError) {
        let now = self.now
        let isKnown = state.withLock { state in
            guard let code = UserCode(typed: typed) else { return false }
            return approves
                ? state.backend.authorizations.approve(code, now: now, identifiers: &state.backend.identifiers)
                : state.backend.authorizations.refuse(code, now: now)
        }
        guard isKnown else { throw SimulatorError(.unknownUserCode, reason: "No sign-in waits under this code") }
    }

    func issueCredential(clientID: String) -> SimulatorCredential {
        let now = self.now
        return state.withLock { state in
            let issued = state.backend.tokens.signIn(
                clientID: clientID, now: now, identifiers: &state.backend.identifiers)
            let account = state.backend.settings.account
            return SimulatorCredential(
                idToken: issued.idToken, accessToken: issued.accessToken, refreshToken: issued.refreshToken,
                accountID: account.id, email: account.email, plan: account.plan,
                expiresAt: Date(timeIntervalSince1970: Double(now + issued.expiresIn)))
        }
    }

    /// Unix seconds.
    private var now: Int { Int(configuration.clock.now.timeIntervalSince1970.rounded(.down)) }
}
