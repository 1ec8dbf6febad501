@_spi(ChappieInternals) public import ChappieCore
import HTTPTypes
import Synchronization

/// A ChatGPT backend in this process, behind the ports. It opens no sockets and sends nothing.
///
/// ```swift
/// let simulator = try InMemorySimulator(SimulatorConfiguration(autoApprove: true, pollInterval: 0))
/// let endpoints = ChappieEndpoints(issuer: simulator.issuer, backend: simulator.backend)
/// // … make a client of `endpoints`, `simulator.transport` and `simulator.webSocket` …
/// ```
///
/// It answers like the simulator behind a socket. A scenario may replace the backend's answer, change events and header
/// fields, pause, and break off answers. A scenario about silence, framing, handshakes or frames requires a socket.
public struct InMemorySimulator: Sendable {
    /// The address of sign-in and token requests. Nothing listens there.
    public let issuer: URL
    /// The address of every other request: ``issuer`` followed by `/backend-api`.
    public let backend: URL
    /// The address of the plan route's requests: ``issuer`` followed by `/v1`.
    public let planBackend: URL
    /// The transport that answers requests to ``issuer`` and below it, and refuses all others. It records the requests.
    public let transport: ScriptedHTTPTransport
    /// The transport for WebSockets, with the same restriction. It records the messages.
    public let webSocket: ScriptedWebSocketTransport
    private let core: SimulatorCore

    /// Creates a simulator that has not received a request yet.
    ///
    /// - Parameter configuration: the configuration. Its host and port are used only in the addresses, and its clock
    ///   also measures pauses. There are no pings and no compression.
    /// - Throws: ``SimulatorError``: `.notLoopback`, `.invalidConfiguration` with the name of the setting, or
    ///   `.needsSocket`.
    public init(_ configuration: SimulatorConfiguration = SimulatorConfiguration()) throws(SimulatorError) {
        let configuration = try configuration.validated()
        guard configuration.scenario?.rules.contains(where: { $0.effect.needsSocket }) != true else {
            throw SimulatorError(.needsSocket, reason: "The scenario needs a connection to play its faults on")
        }
        let clock = configuration.clock
        let address = configuration.issuer(port: configuration.port == 0 ? nil : configuration.port)
        guard let issuer = URL(string: address), let origin = Origin(issuer) else {
            throw SimulatorError(.invalidConfiguration, reason: "\"\(configuration.host)\" makes no address")
        }
        let core = SimulatorCore(configuration)
        core.opened(issuer: address)
        self.core = core
        self.issuer = issuer
        backend = issuer.appending(path: "backend-api")
        planBackend = issuer.appending(path: "v1")
        transport = ScriptedHTTPTransport(clock: clock) { request in
            try Self.check(request.url, isAt: origin)
            return core.answer(ReceivedRequest(request)) { _ in "" }.inMemory
        }
        webSocket = ScriptedWebSocketTransport(clock: clock) { opening in
            try Self.check(opening.url, isAt: origin)
            let answer = core.answer(ReceivedRequest(opening)) { _ in "" }
            guard let terms = answer.terms else { return .refused(answer.inMemory) }
            return try await answer.opening(terms, clock)
        }
    }

    /// Replaces the key that signs ID tokens. The old key is no longer published.
    public func rotateKeys() { core.rotateKeys() }

    private static func check(_ url: URL, isAt origin: Origin) throws(ChappieTransportError) {
        guard Origin(url) == origin else {
            throw ChappieTransportError(
                .connectFailed, stage: .connect, host: url.host() ?? "", reason: "only the simulator is in this process"
            )
        }
    }
}

extension ReceivedRequest {
    fileprivate init(_ request: HTTPExchangeRequest) {
        self.init(request.method.rawValue, request.url, request.headerFields, request.body?.bytes ?? [])
    }

    /// Creates the request of a handshake, including the handshake's own fields.
    fileprivate init(_ opening: ScriptedWebSocketTransport.Opening) {
        let handshake = [("upgrade", "websocket"), ("sec-websocket-version", "13"), ("sec-websocket-key", "")]
        self.init("GET", opening.url, opening.headerFields, [], handshake)
    }

    private init(
        _ method: String, _ url: URL, _ fields: HTTPFields, _ body: [UInt8], _ own: [(String, String)] = []
    ) {
        let path = url.path(percentEncoded: true)
        let query = url.query(percentEncoded: true).map { "?\($0)" } ?? ""
        let host = ("host", Origin(url)?.label ?? "")
        self.init(
            method: method, target: (path.isEmpty ? "/" : path) + query,
            headerFields: [host] + own + fields.map { ($0.name.rawName, $0.value) }, body: body)
    }
}

extension SimulatorAnswer {
    /// Returns the opening of a WebSocket after the scenario's pause. A break of the scenario replaces the handshake.
    fileprivate func opening(
        _ terms: WebSocketTerms, _ clock: any ChappieClock
    ) async throws -> ScriptedWebSocketOpening {
        let head = inMemory
        if effect.breakingPoint != nil { return .refused(ScriptedHTTPAnswer(beforeHead: head.beforeHead + [.cut])) }
        try await clock.sleep(for: (effect.delayBeforeHead ?? 0).seconds)
        let state = Mutex(terms)
        return .opened(headerFields: head.headerFields) { message, _ in
            state.withLock { $0.answer(ReceivedMessage(message)) }.inMemory
        }
    }
}

extension ReceivedMessage {
    fileprivate init(_ message: WebSocketMessage) {
        let body =
            switch message {
            case .text(let text): Array(text.utf8)
            case .binary(let bytes): bytes
            }
        self.init(connection: 0, isText: true, body: body, isCompressed: false, wireByteCount: body.count)
    }
}
