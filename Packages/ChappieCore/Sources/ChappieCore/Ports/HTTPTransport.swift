/// Performs one HTTP exchange: a request goes in, a head and a back-pressured body come out.
///
/// A status of 400 or more is a response, not an error: what it means is decided above. Adapters follow redirects only
/// within the origin of the request, never retry, and leave `Retry-After` alone.
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
    /// Sends `request` and returns as soon as the final response head is known; the body follows on demand.
    ///
    /// - Throws: ``ChappieTransportError`` when there is no response; `CancellationError` when the task was cancelled
    ///   (within 100 ms, the connection closed). Not an error: any status code.
    func send(_ request: HTTPExchangeRequest) async throws -> HTTPExchangeResponse
}
