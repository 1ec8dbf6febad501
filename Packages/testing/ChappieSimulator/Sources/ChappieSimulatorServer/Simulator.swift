@_exported public import ChappieSimulator
public import FoundationEssentials

/// A ChatGPT backend on this machine, for development, demonstrations and tests: device sign-in with a page to approve
/// it on, tokens that are used once, models, usage, and a "model" that repeats what it is asked, over server-sent
/// events and over WebSocket.
///
/// ```swift
/// let simulator = try await Simulator.start(SimulatorConfiguration(autoApprove: true))
/// print(simulator.issuer, simulator.backend)   // http://127.0.0.1:40123 http://127.0.0.1:40123/backend-api
/// // … point a client at them …
/// await simulator.stop()
/// ```
///
/// It listens on loopback only, keeps nothing on disk, and forgets everything when it stops. ``SimulatorScenario`` makes
/// it misbehave; what the model does on request is listed in `SCENARIOS.md` beside the package.
public final class Simulator: Sendable {
    /// The address of sign-in and token requests.
    public let issuer: URL
    /// The address of every other request: ``issuer`` followed by `/backend-api`.
    public let backend: URL
    /// The address of requests of the plan route: ``issuer`` followed by `/v1`.
    public let planBackend: URL
    /// A line for each exchange as it is answered, with nothing secret in it, for one reader. The newest 1,000 wait for
    /// it. Ends when the simulator stops.
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

    /// Starts one.
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

    /// The port it listens on.
    public var port: Int { listener.port }
    /// The page on which the user enters the code.
    public var verificationPage: URL { issuer.appending(path: "codex").appending(path: "device") }
    /// The newest requests, tokens and all, for tests to look into. See ``SimulatorConfiguration/recordedRequestLimit``.
    public var receivedRequests: [ReceivedRequest] { listener.ledger.entries.receivedRequests }
    /// The newest WebSocket messages, for tests to look into. See ``SimulatorConfiguration/recordedRequestLimit``.
    public var receivedMessages: [ReceivedMessage] { listener.ledger.entries.receivedMessages }
    /// The connections that became WebSockets, in the order of their handshakes.
    public var webSocketConnections: [SimulatorWebSocketConnection] { listener.ledger.entries.webSocketConnections }
    /// How many connections it has accepted since it started.
    public var connectionCount: Int { listener.ledger.entries.connectionCount }
    /// How many of them are still open.
    public var openConnectionCount: Int { listener.ledger.entries.openConnectionCount }

    /// Approves a sign-in, as the user does on the page.
    ///
    /// - Parameter accountID: the account that signs in; `nil`, the default, for ``SimulatorConfiguration/account``.
    /// - Throws: ``SimulatorError`` with code `.unknownUserCode` if none waits under that code, `.unknownAccount` if the
    ///   account is missing.
    public func approve(userCode: String, as accountID: String? = nil) throws(SimulatorError) {
        try core.decide(userCode, approves: true, as: accountID)
    }

    /// Refuses a sign-in, as the user does on the page.
    ///
    /// - Throws: ``SimulatorError`` with code `.unknownUserCode` when none waits under that code.
    public func refuse(userCode: String) throws(SimulatorError) { try core.decide(userCode, approves: false) }

    /// ID tokens are signed with another key from now on, and the old key is not published any more.
    public func rotateKeys() { core.rotateKeys() }

    /// Closes every connection and the socket, and returns when they are gone. Calling it again does nothing.
    public func stop() async {
        await listener.stop()
        core.closed()
    }
}
