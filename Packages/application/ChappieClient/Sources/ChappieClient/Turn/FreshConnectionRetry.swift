import ChappieCore

/// Sends a request that changes nothing once more when its connection turns out to be dead.
///
/// The transport repeats nothing by itself, and a pooled connection may have been lost with the network under it: the first
/// request that is put on it finds out. The second try goes out over a fresh one.
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

    /// Whether the connection was open, but nothing came back.
    private static func isOfTheConnection(_ error: ChappieTransportError) -> Bool {
        [.connectionLost, .timedOut].contains(error.code) && [.request, .responseHead].contains(error.stage)
    }
}
