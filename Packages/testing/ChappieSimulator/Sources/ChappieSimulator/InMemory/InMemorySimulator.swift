@_spi(ChappieInternals) import ChappieCore
public import FoundationEssentials
import HTTPTypes
import Synchronization

/// A ChatGPT backend in this process, behind the ports: it opens nothing and sends nothing.
///
/// ```swift
/// let simulator = try InMemorySimulator(SimulatorConfiguration(autoApprove: true, pollInterval: 0))
/// let endpoints = ChappieEndpoints(issuer: simulator.issuer, backend: simulator.backend)
/// // … make a client of `endpoints`, `simulator.transport` and `simulator.webSocket` …
/// ```
///
/// It answers as the simulator behind a socket does. A scenario may answer in the backend's place, change events and
/// header fields, pause, and break answers off. One about silence, framing, handshakes or frames needs a socket.
public struct InMemorySimulator: Sendable {
    /// The address of sign-in and token requests. Nothing listens there.
    public let issuer: URL
    /// The address of every other request: ``issuer`` followed by `/backend-api`.
    public let backend: URL
    /// The address of the plan route's requests: ``issuer`` followed by `/v1`.
    public let planBackend: URL
    /// Answers requests to ``issuer`` and what is below it; refuses any other. It remembers the requests.
    public let transport: ScriptedHTTPTransport
    /// The same for WebSockets. It remembers the messages.
    public let webSocket: ScriptedWebSocketTransport
    private let core: SimulatorCore

    /// Creates a simulator that has not seen a request yet.
    ///
    /// - Parameter configuration: its host and port are only part of the addresses; pings and compression don't happen.
    ///   Its clock measures pauses, too.
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

    /// ID tokens are signed with another key from now on, and the old key is not published any more.
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

    /// With the fields of the handshake itself.
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
    /// Returns the opening of a WebSocket: after the scenario's pause, with its break in the place of the handshake.
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
