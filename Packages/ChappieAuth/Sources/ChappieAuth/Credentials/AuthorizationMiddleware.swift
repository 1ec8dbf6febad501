public import ChappieCore
import FoundationEssentials
import HTTPTypes

/// Puts the slot's credential into requests for the configured backend, and into no others.
///
/// Adds `authorization`, `chatgpt-account-id`, `X-OpenAI-Fedramp` where the account needs it, `originator` and
/// `user-agent`. A 401 is answered by one renewal and one more try; tokens that another task or process has renewed in
/// the meantime are tried before that.
public struct AuthorizationMiddleware: HTTPMiddleware {
    private let manager: CredentialManager

    init(manager: CredentialManager) { self.manager = manager }

    /// - Throws: ``AuthorizationError``; whatever `next` throws; `CancellationError`. Not an error: any status but a
    ///   final 401, which is ``AuthorizationError/reauthenticationRequired(_:)``; it leaves the credential alone, because
    ///   the token endpoint still stands by it.
    public func intercept(
        _ request: HTTPExchangeRequest,
        next: @Sendable (HTTPExchangeRequest) async throws -> HTTPExchangeResponse
    ) async throws -> HTTPExchangeResponse {
        guard let origin = Origin(request.url), origin == Origin(manager.endpoints.profile.backend) else {
            throw AuthorizationError.foreignOrigin(request.url.hostAndPort)
        }
        var authorization = try await mapped { try await manager.authorize() }
        var isLast = false
        // At most three tries: the token at hand, somebody else's newer one, one fresh from the server.
        for attempt in 1...3 {
            let response = try await next(authorized(request, with: authorization))
            guard response.status.code == 401 else { return response }
            if isLast || attempt == 3 { throw await refused(response, authorization) }
            response.body.cancel()
            let refusedGeneration = authorization.generation
            (authorization, isLast) = try await mapped { try await manager.recover(generation: refusedGeneration) }
        }
        throw AuthorizationError.auth(.invalidResponse)
    }

    private func authorized(
        _ request: HTTPExchangeRequest, with authorization: AccessAuthorization
    ) -> HTTPExchangeRequest {
        var request = request
        let registration = manager.endpoints.registration
        request.headerFields[.authorization] = "Bearer \(authorization.accessToken.text)"
        request.headerFields[.chatGPTAccountID] = authorization.accountID
        if authorization.isFedRAMPAccount { request.headerFields[.fedRAMP] = "true" }
        request.headerFields[.originator] = registration.originator
        request.headerFields[.userAgent] = registration.userAgent
        return request
    }

    private func refused(
        _ response: HTTPExchangeResponse, _ authorization: AccessAuthorization
    ) async -> AuthorizationError {
        let body = (try? await response.body.collect(upTo: 64 << 10)) ?? []
        response.body.cancel()
        let answer = IssuerAnswer(status: 401, headerFields: response.headerFields, body: body)
        let message = IssuerError(answer, secrets: [authorization.accessToken]).message
        let detail = message.map { ": " + ($0.hasSuffix(".") ? String($0.dropLast()) : $0) } ?? ""
        return .reauthenticationRequired(
            "The service refused the sign-in although it had just been renewed\(detail).")
    }

    private func mapped<Result>(_ body: () async throws -> Result) async throws -> Result {
        do { return try await body() } catch let failure as CredentialFailure { throw failure.authorizationError }
    }
}

/// Scheme, host and port (RFC 6454, 4).
private struct Origin: Equatable {
    let scheme: String
    let host: String
    let port: Int

    init?(_ url: URL) {
        guard let scheme = url.scheme?.lowercased(), let host = url.host()?.lowercased(), !host.isEmpty else {
            return nil
        }
        self.scheme = scheme
        self.host = host
        port = url.port ?? (scheme == "https" ? 443 : 80)
    }
}
