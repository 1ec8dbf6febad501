import ChappieCore

/// A middleware that repeats a request without side effects once when its connection turns out to be dead.
///
/// The transport itself repeats nothing, and a pooled connection may have been lost together with its network. The
/// first request on such a connection detects that. The second attempt uses a fresh connection.
struct FreshConnectionRetry: HTTPMiddleware {
    func intercept(
        _ request: HTTPExchangeRequest,
        next: @concurrent @Sendable (HTTPExchangeRequest) async throws -> HTTPExchangeResponse
    ) async throws -> HTTPExchangeResponse {
        do {
            return try await next(request)
        } catch let error as ChappieTransportError where Self.isOfTheConnection(error) {
            return try await next(request)
        }
    }

    /// Returns whether the connection was open, but nothing came back.
    private static func isOfTheConnection(_ error: ChappieTransportError) -> Bool {
        [.connectionLost, .timedOut].contains(error.code) && [.request, .responseHead].contains(error.stage)
    }
}
