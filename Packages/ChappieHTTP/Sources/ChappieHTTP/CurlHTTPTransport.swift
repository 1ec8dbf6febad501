public import ChappieCore
@_spi(ChappieInternals) public import ChappieCurl
public import FoundationEssentials
import HTTPTypes

/// ``HTTPTransport`` over libcurl: HTTP/2 and HTTP/1.1, pooled connections, one thread for any number of exchanges.
///
/// ```swift
/// let transport = CurlHTTPTransport()
/// let response = try await transport.send(HTTPExchangeRequest(url: url))
/// for try await bytes in response.body { print(bytes.count) }
/// ```
///
/// - TLS is 1.2 or newer, verified against the system's certificate authorities and those of
///   ``ChappieNetworkPolicy/extraCAFile``. Plain `http` goes to `localhost`, 127.0.0.0/8 and `::1` only, and through a
///   proxy only where that is on this machine as well.
/// - Redirects (301, 302, 303, 307, 308 with a `Location`) are followed within the origin, five at most. Every other
///   status is a response.
/// - Nothing is sent twice: where a pooled connection turns out to be dead once the request is on it, the exchange
///   fails with code `.connectionLost`, or `.timedOut` if the peer is silent. Such a connection is not used again, so that
///   a second try, which is the caller's, goes out over a fresh one. A peer that acknowledges nothing for 30 s is lost.
/// - A response body is read ahead by at most some 256 KiB; then the connection waits for its reader, and no deadline
///   runs. No content coding is asked for or removed.
/// - No cookies, no `.netrc`, no `Expect: 100-continue`, no header fields but those of the request, `host`,
///   `content-length` and (for a compressed body) `content-encoding`. `content-length` and `transfer-encoding` in the
///   request are left out: the adapter writes its own.
///
/// The environment (for the proxy) and the extra CA file are read when the first request is sent; the thread starts then,
/// too. Letting go of the transport ends it once the last response body is read or let go.
public final class CurlHTTPTransport: HTTPTransport {
    private let network: CurlNetwork

    /// On a thread of its own. Opens nothing and can't fail: a policy that makes no sense is an error of each request.
    public convenience init(policy: ChappieNetworkPolicy = .default) { self.init(network: CurlNetwork(policy: policy)) }

    /// On the thread and under the policy of `network`, beside whatever else uses it.
    public init(network: CurlNetwork) { self.network = network }

    /// Shuts the network down: ends every exchange in progress with code `.unavailable`, closes all connections and ends
    /// the thread. Returns without waiting for that; later requests fail with the same code.
    public func shutdown() { network.shutdown() }

    /// Says now what would stop every request to `url` before it is sent: the address, the proxy setting, the extra CA
    /// file. Opens no connection. For programs that want to refuse a wrong setting before they begin.
    ///
    /// - Throws: ``ChappieTransportError`` with stage `.configuration`.
    public func check(_ url: URL) throws(ChappieTransportError) { _ = try plan(HTTPExchangeRequest(url: url)) }

    /// - Throws: ``ChappieTransportError``; `CancellationError` when the task is cancelled, at once, wherever the
    ///   exchange stands. Not an error: any status code.
    public func send(_ request: HTTPExchangeRequest) async throws -> HTTPExchangeResponse {
        var request = request
        var followed = 0
        while true {
            let transfer = HTTPTransfer(try plan(request), loop: network.loop)
            let head = try await transfer.start()
            let body = HTTPBody(next: { try await transfer.nextChunk() }, cancel: { transfer.cancel() })
            let next = try RedirectRule.next(
                after: request, status: head.status, headerFields: head.headerFields, followed: followed)
            guard let next else {
                return HTTPExchangeResponse(status: head.status, headerFields: head.headerFields, body: body)
            }
            body.cancel()
            request = next
            followed += 1
        }
    }

    private func plan(_ request: HTTPExchangeRequest) throws(ChappieTransportError) -> RequestPlan {
        try RequestPlan(request, by: network.route(to: request.url, for: .http), deadlines: network.policy.deadlines)
    }
}
