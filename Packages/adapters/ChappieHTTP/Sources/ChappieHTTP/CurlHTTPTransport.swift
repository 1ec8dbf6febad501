@_spi(ChappieInternals) public import ChappieCore
@_spi(ChappieInternals) public import ChappieCurl
public import FoundationEssentials
import HTTPTypes
import Synchronization

/// An ``HTTPTransport`` that uses libcurl, with HTTP/2 and HTTP/1.1, pooled connections, and one thread for any number
/// of exchanges.
///
/// ```swift
/// let transport = CurlHTTPTransport()
/// let response = try await transport.send(HTTPExchangeRequest(url: url))
/// for try await bytes in response.body { print(bytes.count) }
/// ```
///
/// - TLS is 1.2 or newer, verified against the system's certificate authorities and the file
///   ``ChappieNetworkPolicy/extraCAFile``. Plain `http` is allowed only to `localhost`, 127.0.0.0/8 and `::1`. It uses
///   a proxy only if the proxy is also on this machine.
/// - Redirects (301, 302, 303, 307, 308 with a `Location`) are followed within the origin, at most five times. Every
///   other status is a response.
/// - No request is sent twice, with one exception: a request over HTTP/1.1 follows an HTTP/2 stream that ends with
///   HTTP_1_1_REQUIRED, because the server has not acted on it (RFC 9113, 7). A connection that was idle for 10 s is
///   not used again. If a pooled connection turns out to be dead after the request was written to it, the exchange
///   fails with code `.connectionLost`, or with `.timedOut` if the peer is silent. That connection is not used again,
///   so a second attempt, which is the caller's decision, uses a new connection. A connection is lost if the peer
///   acknowledges nothing for 30 s.
/// - The transport reads at most about 256 KiB of a response body ahead of its reader. The connection then waits for
///   the reader, and no deadline runs. The transport neither asks for a content coding nor removes one.
/// - There are no cookies, no `.netrc`, no `Expect: 100-continue`, and no header fields other than the request's own,
///   `host`, `content-length` and (for a compressed body) `content-encoding`. `content-length` and `transfer-encoding`
///   in the request are omitted, because the adapter writes its own.
///
/// The environment (for the proxy) and the extra CA file are read when the first request is sent. The thread also
/// starts then. It ends after the transport is released and the last response body is read or released.
public final class CurlHTTPTransport: HTTPTransport {
    private let network: CurlNetwork
    private let followsRedirects: Bool
    /// The servers that have refused a request over HTTP/2.
    private let http1 = Mutex<Set<Origin>>([])

    /// Creates a transport with its own thread. This opens nothing and can't fail. Each request reports an invalid
    /// policy as its error.
    public convenience init(policy: ChappieNetworkPolicy = .default) { self.init(network: CurlNetwork(policy: policy)) }

    /// Creates a transport that uses the thread and the policy of `network`, which other transports may share.
    ///
    /// - Parameters:
    ///   - network: The network that carries the requests.
    ///   - followsRedirects: Whether redirects are followed within the origin. Otherwise they are responses. Default
    ///     `true`.
    public init(network: CurlNetwork, followsRedirects: Bool = true) {
        self.network = network
        self.followsRedirects = followsRedirects
    }

    /// Ends every exchange in progress with code `.unavailable`, closes all connections and ends the thread of the
    /// network. Returns without waiting for this to finish. Later requests fail with the same code.
    public func shutdown() { network.shutdown() }

    /// Reports a problem that would stop every request to `url` before it is sent: the address, the proxy setting, or
    /// the extra CA file. Opens no connection. Programs can use it to check their settings before they begin.
    ///
    /// - Throws: ``ChappieTransportError`` with stage `.configuration`.
    public func check(_ url: URL) throws(ChappieTransportError) { _ = try plan(HTTPExchangeRequest(url: url)) }

    /// Sends the request and returns the response when its head has arrived.
    ///
    /// - Throws: ``ChappieTransportError``, or `CancellationError` as soon as the task is cancelled, in any phase of
    ///   the exchange. No status code is an error.
    public func send(_ request: HTTPExchangeRequest) async throws -> HTTPExchangeResponse {
        guard followsRedirects else { return try await exchange(request) }
        return try await RedirectRule.follow(request, exchange)
    }

    private func exchange(_ request: HTTPExchangeRequest) async throws -> HTTPExchangeResponse {
        let (transfer, head) = try await start(try plan(request))
        let body = HTTPBody(
            next: { try await transfer.nextChunk() }, cancel: { transfer.cancel() },
            allow: { transfer.allow(silence: $0) })
        return HTTPExchangeResponse(status: head.status, headerFields: head.headerFields, body: body)
    }

    /// Starts the exchange, over HTTP/1.1 if the server requires it.
    private func start(_ plan: RequestPlan) async throws -> (HTTPTransfer, ResponseHead) {
        let origin = plan.route.origin
        var plan = plan
        plan.isHTTP1 = http1.withLock { $0.contains(origin) }
        let transfer = HTTPTransfer(plan, loop: network.loop)
        do {
            return (transfer, try await transfer.start())
        } catch {
            guard transfer.mustUseHTTP1, !plan.isHTTP1 else { throw error }
            http1.withLock { _ = $0.insert(origin) }
            plan.isHTTP1 = true
            let second = HTTPTransfer(plan, loop: network.loop)
            return (second, try await second.start())
        }
    }

    private func plan(_ request: HTTPExchangeRequest) throws(ChappieTransportError) -> RequestPlan {
        try RequestPlan(request, by: network.route(to: request.url, for: .http), deadlines: network.policy.deadlines)
    }
}
