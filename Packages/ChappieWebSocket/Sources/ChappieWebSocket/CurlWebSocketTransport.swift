@_spi(ChappieInternals) public import ChappieCore
@_spi(ChappieInternals) public import ChappieCurl
public import FoundationEssentials
public import HTTPTypes

/// ``WebSocketTransport`` by our own RFC 6455 codec on connections that libcurl opens: proxy, TLS, trust and names as for
/// HTTP, one thread for any number of connections.
///
/// ```swift
/// let transport = CurlWebSocketTransport()
/// if case .opened(let connection, _) = try await transport.open(url, headerFields: [:]) {
///     try await connection.send(.text("hello"))
///     let inbound = try await connection.receive(within: .seconds(30))
///     await connection.close(.normal)
/// }
/// ```
///
/// - TLS is 1.2 or newer, verified against the system's certificate authorities and those of
///   ``ChappieNetworkPolicy/extraCAFile``; plain `ws` and `http` go to `localhost`, 127.0.0.0/8 and `::1` only. Through
///   an http proxy there is always a tunnel (CONNECT).
/// - ``ChappieDeadlines/connect`` bounds the way to an open connection, ``ChappieDeadlines/upgrade`` the answer to
///   the upgrade. Redirects are not followed: like every status but 101 they are a refusal, whose body is read up to
///   64 KiB.
/// - A message after silence is delivered at once; while they come in a burst, the socket is read every 2 ms.
/// - What arrives is read ahead by at most some 4 MiB, a message that was begun excepted; then the socket waits for the
///   receiver, and the peer's pings with it. A sender waits while 1 MiB is queued, unless its message is the only one.
/// - After half of ``ChappieDeadlines/liveness`` without a byte from the peer it is pinged, after all of it given up. A
///   closing handshake has 5 seconds.
/// - A message over ``WebSocketLimits/maximumFrameBytes`` is refused by `send` with code `.bodyTooLarge`, and nothing of
///   it goes out; one over ``WebSocketLimits/maximumMessageBytes`` ends the connection with the same code and close code
///   1009.
public final class CurlWebSocketTransport: WebSocketTransport {
    private let network: CurlNetwork
    private let limits: WebSocketLimits
    private let compression: WebSocketCompression

    /// On a thread of its own. Opens nothing and can't fail: a policy that makes no sense is an error of each opening.
    ///
    /// - Parameters:
    ///   - limits: for what one peer may make us hold.
    ///   - compression: what is offered to the server.
    public convenience init(
        policy: ChappieNetworkPolicy = .default, limits: WebSocketLimits = .default,
        compression: WebSocketCompression = .permessageDeflate
    ) {
        self.init(network: CurlNetwork(policy: policy), limits: limits, compression: compression)
    }

    /// On the thread and under the policy of `network`, beside whatever else uses it.
    public init(
        network: CurlNetwork, limits: WebSocketLimits = .default,
        compression: WebSocketCompression = .permessageDeflate
    ) {
        self.network = network
        self.limits = limits
        self.compression = compression
    }

    /// Shuts the network down: ends every connection with code `.unavailable` and the thread. Returns without waiting
    /// for that; later openings fail with the same code.
    public func shutdown() { network.shutdown() }

    /// Says now what would stop every opening of `url` before anything is sent: the address, the proxy setting, the extra
    /// CA file. Opens no connection.
    ///
    /// - Throws: ``ChappieTransportError`` with stage `.configuration`.
    public func check(_ url: URL) throws(ChappieTransportError) { _ = try network.route(to: url, for: .webSocket) }

    /// - Throws: ``ChappieTransportError``: stage `.configuration` before anything is sent, `.connect` or `.tls` where the
    ///   connection does not come about, `.responseHead` where the answer doesn't, or is not one to a handshake;
    ///   `CancellationError` when the task is cancelled, at once. Not an error: any status code.
    public func open(_ url: URL, headerFields: HTTPFields) async throws -> WebSocketOpening {
        let route = try network.route(to: url, for: .webSocket)
        let driver = try makeDriver(to: CurlRoute.originForm(of: url), on: route, headerFields)
        switch try await driver.open() {
        case .opened(let fields): return .opened(CurlWebSocketConnection(driver), headerFields: fields)
        case .refused(let status, let fields):
            let body = HTTPBody(next: { try await driver.nextChunk() }, cancel: { driver.drop() })
            return .refused(HTTPExchangeResponse(status: status, headerFields: fields, body: body))
        }
    }

    private func makeDriver(
        to target: String, on route: CurlRoute, _ headerFields: HTTPFields
    ) throws(ChappieTransportError) -> WebSocketDriver {
        do throws(WebSocketHandshakeError) {
            let handshake = try WebSocketHandshake(
                target: target, authority: route.origin.label, headerFields: headerFields, compression: compression,
                nonce: .random(in: .min ... .max))
            return WebSocketDriver(
                handshake, on: route, deadlines: network.policy.deadlines, limits: limits, loop: network.loop)
        } catch {
            throw WebSocketFault(host: route.origin.label).error(for: error)
        }
    }
}

/// How much one peer may make us hold, in bytes. What goes beyond ends the connection with close code 1009.
public struct WebSocketLimits: Sendable, Hashable {
    /// The payload of one frame as it travels, and of one message that we send. Default 16 MiB, the backend's own.
    public let maximumFrameBytes: Int
    /// One message that we receive, over all its frames and after decompression. Default 64 MiB.
    public let maximumMessageBytes: Int

    /// - Parameters:
    ///   - maximumFrameBytes: 125 (what every control frame may have) to 1 GiB; values outside are moved to the bound.
    ///   - maximumMessageBytes: 125 to 1 GiB, likewise.
    public init(maximumFrameBytes: Int = 16 << 20, maximumMessageBytes: Int = 64 << 20) {
        self.maximumFrameBytes = min(max(maximumFrameBytes, Self.bounds.lowerBound), Self.bounds.upperBound)
        self.maximumMessageBytes = min(max(maximumMessageBytes, Self.bounds.lowerBound), Self.bounds.upperBound)
    }

    /// 16 MiB a frame, 64 MiB a message.
    public static let `default` = WebSocketLimits()

    // The upper end keeps every size fit for zlib's 32-bit counters.
    private static let bounds = 125...(1 << 30)
}
