public import HTTPTypes

/// A port that performs one HTTP exchange. It takes a request, and returns a head and a back-pressured body.
///
/// A status of 400 or more is a response, not an error. The caller decides how to handle it. Adapters follow redirects
/// only within the origin of the request, and only if its `followsRedirects` is `true`. They never retry, and ignore
/// `Retry-After`.
///
/// A complete fake:
/// ```swift
/// struct Echo: HTTPTransport {
///     func send(_ request: HTTPExchangeRequest) async throws -> HTTPExchangeResponse {
///         HTTPExchangeResponse(status: .ok, body: HTTPBody(bytes: request.body?.bytes ?? []))
///     }
/// }
/// ```
public protocol HTTPTransport: Sendable {
    /// Sends `request` and returns as soon as the final response head is known. The body follows on demand.
    ///
    /// - Throws: ``ChappieTransportError`` if there is no response, or `CancellationError` if the task was cancelled
    ///   (within 100 ms, with the connection closed). No status code is an error.
    func send(_ request: HTTPExchangeRequest) async throws -> HTTPExchangeResponse
}

/// The request of one HTTP exchange, which is entirely in memory.
public struct HTTPExchangeRequest: Sendable, Hashable {
    /// A request body and its coding.
    public struct Body: Sendable, Hashable {
        /// The body before any content coding.
        public var bytes: [UInt8]
        /// The coding of the body. With `.zstd` the adapter compresses the body and adds `content-encoding: zstd`.
        /// Default `.identity`.
        public var coding: Coding

        /// The content codings that an adapter must support (RFC 9110, 8.4.1, and RFC 8878 for zstd).
        public enum Coding: String, Sendable, Hashable, Codable { case identity, zstd }

        /// Creates a body that is sent in `coding`.
        public init(bytes: [UInt8], coding: Coding = .identity) {
            self.bytes = bytes
            self.coding = coding
        }
    }

    /// The method. Default `GET`.
    public var method: HTTPRequest.Method
    /// An absolute `https` URL, or `http` to a loopback host. Adapters refuse everything else.
    public var url: URL
    /// The header fields, which are sent unchanged. The adapter adds only `host`, `content-length` and, if the body's
    /// coding requires it, `content-encoding`. It adds neither `user-agent` nor `accept`.
    public var headerFields: HTTPFields
    /// The body. Default `nil`, which means no body.
    public var body: Body?
    /// The deadlines that apply only to this exchange. `nil` (the default) means the deadlines of the adapter's
    /// ``ChappieNetworkPolicy``.
    public var deadlines: ChappieDeadlines?
    /// Whether redirects within the origin are followed. Default `true`. A request with a secret for one address of an
    /// origin sets it to `false`, and the redirect is then the response.
    public var followsRedirects = true

    /// Creates a request with the given properties.
    public init(
        method: HTTPRequest.Method = .get, url: URL, headerFields: HTTPFields = [:], body: Body? = nil,
        deadlines: ChappieDeadlines? = nil
    ) {
        self.method = method
        self.url = url
        self.headerFields = headerFields
        self.body = body
        self.deadlines = deadlines
    }
}

extension HTTPExchangeRequest {
    /// Returns the header fields that an adapter sends to `origin`. The adapter frames the message by itself. A second
    /// statement of the length would be an attack or a mistake.
    ///
    /// - Throws: ``ChappieTransportError`` with code `.invalidURL` for CONNECT. It asks for a tunnel (RFC 9110, 9.3.6),
    ///   and adapters build tunnels by themselves.
    @_spi(ChappieInternals) public func fields(to origin: Origin) throws(ChappieTransportError) -> HTTPFields {
        guard method != .connect else {
            throw ChappieTransportError(
                .invalidURL, stage: .configuration, host: origin.label, reason: "CONNECT can't be sent to an origin")
        }
        var fields = headerFields
        fields[.contentLength] = nil
        fields[.transferEncoding] = nil
        return fields
    }
}

/// The response of one HTTP exchange, with the final head and the body, which follows. Informational and redirect heads
/// are dropped.
public struct HTTPExchangeResponse: Sendable {
    /// The final status.
    public var status: HTTPResponse.Status
    /// All header fields in order.
    public var headerFields: HTTPFields
    /// The body, which the caller pulls.
    public var body: HTTPBody

    /// Creates a response with the given properties.
    public init(status: HTTPResponse.Status, headerFields: HTTPFields = [:], body: HTTPBody = HTTPBody(bytes: [])) {
        self.status = status
        self.headerFields = headerFields
        self.body = body
    }
}

// MARK: Middleware

/// A layer between a caller and an ``HTTPTransport`` that, for example, adds headers, retries or logs.
///
/// `next` is `@concurrent` so that a program in Swift's default mode can omit that attribute. A program that is built
/// with `NonisolatedNonsendingByDefault` must write it.
///
/// A complete example:
/// ```swift
/// struct Named: HTTPMiddleware {
///     func intercept(
///         _ request: HTTPExchangeRequest,
///         next: @Sendable (HTTPExchangeRequest) async throws -> HTTPExchangeResponse
///     ) async throws -> HTTPExchangeResponse {
///         var request = request
///         request.headerFields[.from] = "me@example.com"
///         return try await next(request)
///     }
/// }
/// ```
public protocol HTTPMiddleware: Sendable {
    /// Handles `request`. May call `next` any number of times: not at all, once, or again after a refresh. Throws the
    /// errors of `next`, and the middleware's own documented errors.
    func intercept(
        _ request: HTTPExchangeRequest,
        next: @concurrent @Sendable (HTTPExchangeRequest) async throws -> HTTPExchangeResponse
    ) async throws -> HTTPExchangeResponse
}

/// An ``HTTPTransport`` that passes every request through a list of middleware, of which the first one is outermost.
public struct MiddlewareTransport: HTTPTransport {
    private let transport: any HTTPTransport
    private let middleware: [any HTTPMiddleware]

    /// Wraps `transport`. `middleware[0]` is the first to get the request and the last to get the response.
    public init(_ transport: any HTTPTransport, middleware: [any HTTPMiddleware]) {
        self.transport = transport
        self.middleware = middleware
    }

    /// Sends `request` through all middleware.
    public func send(_ request: HTTPExchangeRequest) async throws -> HTTPExchangeResponse {
        try await send(request, from: 0)
    }

    private func send(_ request: HTTPExchangeRequest, from index: Int) async throws -> HTTPExchangeResponse {
        guard index < middleware.count else { return try await transport.send(request) }
        return try await middleware[index].intercept(request) { try await send($0, from: index + 1) }
    }
}
