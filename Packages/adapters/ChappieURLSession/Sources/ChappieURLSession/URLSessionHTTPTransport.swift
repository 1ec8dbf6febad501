@_spi(ChappieInternals) public import ChappieCore
import Foundation
import HTTPTypes

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// An ``HTTPTransport`` that uses Foundation's `URLSession`, for Apple's platforms.
///
/// ```swift
/// let transport = URLSessionHTTPTransport()
/// let response = try await transport.send(HTTPExchangeRequest(url: url))
/// for try await bytes in response.body { print(bytes.count) }
/// ```
///
/// It follows the rules of the port. Origins, redirects, deadlines, back-pressure and cancellation are the same as in
/// `CurlHTTPTransport`. There are no cookies, no cache and no stored credentials. `URLSession` has these limits:
///
/// - It adds its own header fields: `accept`, `accept-language`, `accept-encoding: identity` and, if the request has
///   none, a user agent.
/// - It merges header fields of the same name and loses their order.
/// - It doesn't report when a connection is open. A request with a body counts as connected when its first bytes have
///   been sent. For a request without a body, ``ChappieDeadlines/responseHead`` runs from the start and
///   ``ChappieDeadlines/connect`` doesn't run.
/// - It sends no body with GET. Its SDK has no zstd, so a body with the coding `.zstd` is sent uncompressed.
/// - It repeats a request without a body if a kept connection turns out to be dead (Apple's QA1941). It repeats no
///   POST.
/// - ``ChappieNetworkPolicy/Proxy/environment`` means the proxy variables if there are some, and the system's settings
///   otherwise. A list of exclusions contains only names. A proxy for `socks4` is not supported.
///
/// On Linux it uses FoundationNetworking, for tests. CONTRIBUTING.md lists what is missing there. Programs on Linux use
/// `CurlHTTPTransport`.
public final class URLSessionHTTPTransport: HTTPTransport {
    private let policy: ChappieNetworkPolicy
    private let sessions: SessionPool

    /// Creates a transport. This opens nothing and can't fail. Each request reports an invalid policy as its error.
    public init(policy: ChappieNetworkPolicy = .default) {
        self.policy = policy
        sessions = SessionPool(policy: policy)
    }

    deinit { sessions.release() }

    /// Reports a problem that would stop every request to `url` before it is sent: the address, the proxy setting, or
    /// the extra CA file. Opens no connection.
    ///
    /// - Throws: ``ChappieTransportError`` with stage `.configuration`.
    public func check(_ url: URL) throws(ChappieTransportError) {
        _ = try sessions.session(to: Origin(of: url, for: .http))
    }

    /// Sends the request and returns the response when its head has arrived.
    ///
    /// - Throws: ``ChappieTransportError``, or `CancellationError` as soon as the task is cancelled, in any phase of
    ///   the exchange. No status code is an error.
    public func send(_ request: HTTPExchangeRequest) async throws -> HTTPExchangeResponse {
        try await RedirectRule.follow(request) { request in
            try Task.checkCancellation()
            let origin = try Origin(of: request.url, for: .http)
            let transfer = SessionTransfer(
                host: origin.label, bodyBytes: request.body?.bytes.count ?? 0,
                deadlines: request.deadlines ?? policy.deadlines)
            let task = try Self.task(for: request, to: origin, in: sessions.session(to: origin), transfer)
            let head = try await transfer.start(task)
            let body = HTTPBody(
                next: { try await transfer.nextChunk() }, cancel: { transfer.cancel() },
                allow: { transfer.allow(silence: $0) })
            return HTTPExchangeResponse(status: head.status, headerFields: head.headerFields, body: body)
        }
    }

    /// Returns a task for `request` whose events are passed to `transfer`.
    private static func task(
        for request: HTTPExchangeRequest, to origin: Origin, in session: SessionPool.Session,
        _ transfer: SessionTransfer
    ) throws(ChappieTransportError) -> URLSessionTask {
        let body = request.body.flatMap { $0.bytes.isEmpty ? nil : Data($0.bytes) }
        guard body == nil || request.method != .get else {
            throw .unavailable("URLSession sends no body with GET", host: origin.label)
        }
        guard let url = URL(string: origin.description + Origin.originForm(of: request.url)) else {
            throw ChappieTransportError(
                .invalidURL, stage: .configuration, host: origin.label, reason: "the address can't be used")
        }
        var converted = URLRequest(url: url)
        converted.httpMethod = request.method.rawValue
        var fields = try request.fields(to: origin)
        // Without this field, URLSession asks for codings and removes them.
        if fields[.acceptEncoding] == nil { fields[.acceptEncoding] = "identity" }
        for name in Set(fields.map(\.name)) {
            converted.setValue(fields[name], forHTTPHeaderField: name.rawName)
        }
        let task =
            if let body {
                session.urlSession.uploadTask(with: converted, from: body)
            } else {
                session.urlSession.dataTask(with: converted)
            }
        session.delegate.deliver(eventsOf: task, to: transfer)
        return task
    }
}
