@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import HTTPTypes

/// A middleware that stops a 401 that no renewed token would change, before the tokens are renewed for it.
struct PlanRefusals: HTTPMiddleware {
    let errors: BackendErrors
    let clock: any ChappieClock
    /// Whether the sign-in can no longer be renewed. If a service then does not know the user, the sign-in is the
    /// cause.
    var isRenewalRefused: @Sendable () -> Bool = { false }

    func intercept(
        _ request: HTTPExchangeRequest,
        next: @concurrent @Sendable (HTTPExchangeRequest) async throws -> HTTPExchangeResponse
    ) async throws -> HTTPExchangeResponse {
        var response = try await next(request)
        if let refusal = try await refusal(in: &response) { throw refusal }
        return response
    }

    /// Returns the failure for a 401 that is not about the token, so that a renewed token would not help, or `nil` for
    /// any other answer. The body can still be read.
    func refusal(in response: inout HTTPExchangeResponse) async throws -> (any Error)? {
        guard response.status == .unauthorized else { return nil }
        let body = try await response.body.beginning()
        response.body = HTTPBody(bytes: body)
        return refusal(status: 401, headerFields: response.headerFields, body: body)
    }

    /// Returns the failure for such an error inside the stream.
    func refusal(_ event: ResponsesErrorEvent, requestID: String?) -> (any Error)? {
        guard event.status == 401 else { return nil }
        return refusal(
            status: 401, headerFields: BackendErrors.fields(of: event, requestID), body: event.raw.serializedBytes())
    }

    private func refusal(status: Int, headerFields: HTTPFields, body: [UInt8]) -> (any Error)? {
        let failure = errors.failure(status: status, headerFields: headerFields, body: body, now: clock.now)
        switch failure.error {
        case ChappieClientError.planRefused(let refusal) where refusal.reason == .workspaceRegion:
            // The service may have another route for the workspace.
            return RegionRefusal(status: status, message: refusal.message, requestID: refusal.requestID)
        case ChappieClientError.planRefused(let refusal) where refusal.reason == .userUnknown && isRenewalRefused():
            return nil
        case ChappieClientError.planRefused: return failure
        case ChappieClientError.httpError(_, let body):
            // A sentence that is not JSON may be a proxy's.
            let error = ChappieResponseError(body: (try? ChappieJSON(parsing: body)) ?? .null)
            return Self.isAboutToken(error) ? nil : failure
        default: return nil
        }
    }

    /// Returns whether a 401 may be about the token. An error without a reason counts as one, and so does a code about
    /// the token. A sentence about something else, such as the workspace or the model, does not.
    private static func isAboutToken(_ error: ChappieResponseError) -> Bool {
        let words = [error.code, error.message].compactMap { $0?.lowercased() }
        guard let message = words.last else { return true }
        return words.contains { word in tokenWords.contains(where: word.contains) } || !message.contains(" ")
    }

    private static let tokenWords = [
        "token", "unauthorized", "unauthenticated", "authenticat", "credential", "session", "sign in", "signed in",
        "signed out", "log in", "logged in", "logged out", "login", "bearer", "api key", "api_key", "expired",
    ]
}
