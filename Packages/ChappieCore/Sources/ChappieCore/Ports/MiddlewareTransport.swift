/// An ``HTTPTransport`` that passes every request through a list of middleware, first one outermost.
public struct MiddlewareTransport: HTTPTransport {
    private let transport: any HTTPTransport
    private let middleware: [any HTTPMiddleware]

    /// Wraps `transport`; `middleware[0]` sees the request first and the response last.
    public init(_ transport: any HTTPTransport, middleware: [any HTTPMiddleware]) {
        self.transport = transport
        self.middleware = middleware
    }

    public func send(_ request: HTTPExchangeRequest) async throws -> HTTPExchangeResponse {
        try await send(request, from: 0)
    }

    private func send(_ request: HTTPExchangeRequest, from index: Int) async throws -> HTTPExchangeResponse {
        guard index < middleware.count else { return try await transport.send(request) }
        return try await middleware[index].intercept(request) { try await send($0, from: index + 1) }
    }
}
