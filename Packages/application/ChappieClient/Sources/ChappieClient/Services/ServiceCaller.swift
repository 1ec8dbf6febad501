@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import HTTPTypes

/// Sends requests to the endpoints of the service's tools.
struct ServiceCaller: Sendable {
    let endpoints: ChappieEndpoints
    let clock: any ChappieClock
    let errors: BackendErrors
    private let transport: any HTTPTransport

    /// Creates a caller whose requests pass through the program's own middleware before the authorization is added.
    init(
        endpoints: ChappieEndpoints, transport: any HTTPTransport, middleware: [any HTTPMiddleware],
        authorization: Authorization, clock: any ChappieClock
    ) {
        self.endpoints = endpoints
        self.clock = clock
        errors = BackendErrors(endpoints)
        var authorization = authorization
        authorization.renewsOnce = true
        self.transport = MiddlewareTransport(
            transport, middleware: middleware + [authorization, PlanRefusals(errors: errors, clock: clock)])
    }

    /// Sends one request.
    ///
    /// - Returns: a successful answer.
    /// - Throws: ``AttemptFailure`` for an answer with another status, `ChappieTransportError`, the errors of the
    ///   authorization, and `CancellationError`.
    func post(
        _ body: ChappieJSONObject, to url: URL, _ fields: HTTPFields, within deadlines: ChappieDeadlines? = nil
    ) async throws -> HTTPExchangeResponse {
        var fields = fields
        fields[.accept] = "application/json"
        fields[.contentType] = "application/json"
        fields[.wireFormatVersion] = WireFormat.version
        let request = HTTPExchangeRequest(
            method: .post, url: url, headerFields: fields,
            body: .init(bytes: ChappieJSON.object(body).serializedBytes()), deadlines: deadlines)
        let response = try await transport.send(request)
        guard response.status.kind == .successful else { throw try await errors.failure(response, now: clock.now) }
        return response
    }
}
