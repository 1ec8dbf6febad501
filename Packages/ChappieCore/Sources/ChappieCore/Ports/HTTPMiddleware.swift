/// Stands between a caller and an ``HTTPTransport``: adds headers, retries, logs.
///
/// ```swift
/// struct Tagging: HTTPMiddleware {
///     func intercept(
///         _ request: HTTPExchangeRequest,
///         next: @Sendable (HTTPExchangeRequest) async throws -> HTTPExchangeResponse
///     ) async throws -> HTTPExchangeResponse {
///         var request = request
///         request.headerFields[.userAgent] = "chappie/1.0"
///         return try await next(request)
///     }
/// }
/// ```
public protocol HTTPMiddleware: Sendable {
    /// Handles `request`, calling `next` as often as it needs (not at all, once, or again after a refresh).
    ///
    /// - Throws: whatever `next` throws, and the middleware's own documented errors.
    func intercept(
        _ request: HTTPExchangeRequest,
        next: @Sendable (HTTPExchangeRequest) async throws -> HTTPExchangeResponse
    ) async throws -> HTTPExchangeResponse
}
