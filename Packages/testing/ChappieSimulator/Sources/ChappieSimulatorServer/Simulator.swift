public import ChappieCore
@_exported public import ChappieSimulator

/// A ChatGPT backend on this machine, for development, demonstrations and tests. It has device sign-in with a page for
/// the approval, tokens that are used once, models, usage, and a "model" that repeats its prompt, over server-sent
/// events and over WebSocket.
///
/// ```swift
/// let simulator = try await Simulator.start(SimulatorConfiguration(autoApprove: true))
/// print(simulator.issuer, simulator.backend)   // http://127.0.0.1:40123 http://127.0.0.1:40123/backend-api
/// // … point a client at them …
/// await simulator.stop()
/// ```
///
/// It listens only on loopback, keeps nothing on disk, and forgets everything when it stops. A ``SimulatorScenario``
/// makes it misbehave. `SCENARIOS.md` in this package lists what the model does on request.
public final class Simulator: Sendable {
    /// The address of sign-in and token requests.
    public let issuer: URL
    /// The address of every other request: ``issuer`` followed by `/backend-api`.
    public let backend: URL
    /// The address of requests of the plan route: ``issuer`` followed by `/v1`.
    public let planBackend: URL
    /// The log, with one line for each exchange when it is answered, and without secrets. It is for one reader, and
    /// keeps the newest 1,000 lines for it. It ends when the simulator stops.
    public let log: AsyncStream<String>

    let core: SimulatorCore
    private let listener: LoopbackListener

    private init(issuer: URL, core: SimulatorCore, listener: LoopbackListener) {
        self.issuer = issuer
        backend = issuer.appending(path: "backend-api")
        planBackend = issuer.appending(path: "v1")
        self.core = core
        log = core.log
        self.listener = listener
    }

    /// Starts a simulator.
    ///
    /// - Throws: ``SimulatorError``: `.portInUse`, `.portDenied`, `.notLoopback`, `.listenFailed`, or
    ///   `.invalidConfiguration` with the name of the setting.
    public static func start(
        _ configuration: SimulatorConfiguration = SimulatorConfiguration()
    ) async throws(SimulatorError) -> Simulator {
        let core = SimulatorCore(try configuration.validated())
        let listener = try LoopbackListener.start(
            host: configuration.host, port: configuration.port,
            ledger: ConnectionLedger(recordLimit: configuration.recordedRequestLimit),
            answer: { request in
                let answer = core.answer(request, accepting: webSocketAccept)
                return answer.terms.map { .upgrade(answer.onTheWire, $0) } ?? .answer(answer.onTheWire)
            })
        let address = configuration.issuer(port: listener.port)
        guard let issuer = URL(string: address) else {
            await listener.stop()
            throw SimulatorError(.listenFailed, reason: "\"\(configuration.host)\" makes no address")
        }
        core.opened(issuer: address)
        return Simulator(issuer: issuer, core: core, listener: listener)
    }

    /// The port on which it listens.
    public var port: Int { listener.port }
    /// The page on which the user enters the code.
    public var verificationPage: URL { issuer.appending(path: "codex").appending(path: "device") }
    /// The newest requests, including their tokens, for inspection by tests. See
    /// ``SimulatorConfiguration/recordedRequestLimit``.
    public var receivedRequests: [ReceivedRequest] { listener.ledger.entries.receivedRequests }
    /// The newest WebSocket messages, for inspection by tests. See ``SimulatorConfiguration/recordedRequestLimit``.
    public var receivedMessages: [ReceivedMessage] { listener.ledger.entries.receivedMessages }
    /// The connections that became WebSockets, in the order of their handshakes.
    public var webSocketConnections: [SimulatorWebSocketConnection] { listener.ledger.entries.webSocketConnections }
    /// The number of connections that it has accepted since it started.
    public var connectionCount: Int { listener.ledger.entries.connectionCount }
    /// The number of these connections that are still open.
    public var openConnectionCount: Int { listener.ledger.entries.openConnectionCount }

    /// Approves a sign-in, as the user does on the page.
    ///
    /// - Parameters:
    ///   - userCode: The code that the sign-in shows.
    ///   - accountID: The account that signs in. `nil`, the default, means ``SimulatorConfiguration/account``.
    /// - Throws: ``SimulatorError`` with code `.unknownUserCode` if no sign-in waits for that code, or
    ///   `.unknownAccount` if the account is missing.
    public func approve(userCode: String, as accountID: String? = nil) throws(SimulatorError) {
        try core.decide(userCode, approves: true, as: accountID)
    }

    /// Refuses a sign-in, as the user does on the page.
    ///
    /// - Throws: ``SimulatorError`` with code `.unknownUserCode` if no sign-in waits for that code.
    public func refuse(userCode: String) throws(SimulatorError) { try core.decide(userCode, approves: false) }

    /// Replaces the key that signs ID tokens. The old key is no longer published.
    public func rotateKeys() { core.rotateKeys() }

    /// Closes every connection and the socket, and returns when they are closed. A second call does nothing.
    public func stop() async {
        await listener.stop()
        core.closed()
    }
}
