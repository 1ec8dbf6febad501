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
///   the upgrade. Redirects are not followed: like every status but 101 they are a refusal, whose body is read for at most
///   5 seconds and up to 64 KiB.
/// - A message after silence is delivered at once; while they come in a burst, the socket is read every 2 ms.
/// - What arrives is read ahead by at most some 4 MiB, a message that was begun excepted; then the socket waits for the
///   receiver, and the peer's pings with it. A sender waits while 1 MiB is queued, unless its message is the only one.
/// - After half of ``ChappieDeadlines/liveness`` without a byte from the peer it is pinged, after all of it given up. A
///   closing handshake has 5 seconds.
/// - A message of ours over 16 MiB is refused by `send` with code `.bodyTooLarge`, and nothing of it goes out; a frame over
///   16 MiB or a message over 64 MiB ends the connection with the same code and close code 1009.
public final class CurlWebSocketTransport: WebSocketTransport {
    private let network: CurlNetwork
    private let offersCompression: Bool

    /// On a thread of its own. Opens nothing and can't fail: a policy that makes no sense is an error of each opening.
    ///
    /// - Parameter offersCompression: see ``init(network:offersCompression:)``.
    public convenience init(policy: ChappieNetworkPolicy = .default, offersCompression: Bool = true) {
        self.init(network: CurlNetwork(policy: policy), offersCompression: offersCompression)
    }

    /// On the thread and under the policy of `network`, beside whatever else uses it.
    ///
    /// - Parameter offersCompression: whether messages may travel compressed (permessage-deflate, RFC 7692) where the server
    ///   agrees. Default `true`.
    public init(network: CurlNetwork, offersCompression: Bool = true) {
        self.network = network
        self.offersCompression = offersCompression
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
        let session: WebSocketSession
        do throws(WebSocketError) {
            let handshake = try WebSocketHandshake(
                target: CurlRoute.originForm(of: url), authority: route.origin.label, headerFields: headerFields,
                offersCompression: offersCompression, nonce: .random(in: .min ... .max))
            session = WebSocketSession(
                handshake, host: route.origin.label, deadlines: network.policy.deadlines, startedAt: LoopClock.now)
        } catch {
            throw error.error(at: .configuration, host: route.origin.label)
        }
        let driver = WebSocketDriver(session, on: route, network: network)
        switch try await driver.open() {
        case .opened(let fields, _): return .opened(CurlWebSocketConnection(driver), headerFields: fields)
        case .refused(let head, let body):
            return .refused(
                HTTPExchangeResponse(
                    status: head.status, headerFields: head.headerFields, body: HTTPBody(bytes: body)))
        }
    }
}
