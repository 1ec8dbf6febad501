public import ChappieCore
import FoundationEssentials
import HTTPTypes

/// Puts the slot's credential into requests for the configured backend, and into no others.
///
/// Adds `authorization`, `chatgpt-account-id`, `X-OpenAI-Fedramp` where the account needs it, `originator` and
/// `user-agent`. A 401 is answered by one renewal and one more try; tokens that another task or process has renewed in
/// the meantime are tried before that. All tries are in one account: what one person asks is not sent in the name of
/// another who has signed in meanwhile.
public struct AuthorizationMiddleware: HTTPMiddleware {
    private let manager: CredentialManager
    /// Whose the requests are; `nil` for whoever is signed in when one begins.
    private let account: ChappieAccountInfo?

    init(manager: CredentialManager, account: ChappieAccountInfo?) {
        self.manager = manager
        self.account = account
    }

    /// - Throws: ``AuthorizationError``; whatever `next` throws; `CancellationError`. Not an error: any status but a
    ///   final 401, which is ``AuthorizationError/reauthenticationRequired(_:)``; it leaves the credential alone, because
    ///   the token endpoint still stands by it. So does a request whose account is no longer the one that is signed in.
    public func intercept(
        _ request: HTTPExchangeRequest,
        next: @Sendable (HTTPExchangeRequest) async throws -> HTTPExchangeResponse
    ) async throws -> HTTPExchangeResponse {
        guard let origin = Origin(request.url), origin == Origin(manager.endpoints.profile.backend) else {
            throw AuthorizationError.foreignOrigin(request.url.hostAndPort)
        }
        var authorization = try await mapped { try await manager.authorize() }
        try checkAccount(account, authorization)
        let account = authorization.account
        var isLast = false
        // At most three tries: the token at hand, somebody else's newer one, one fresh from the server.
        for attempt in 1...3 {
            let response = try await next(authorized(request, with: authorization))
            guard response.status.code == 401 else { return response }
            if isLast || attempt == 3 { throw await refused(response, authorization) }
            response.body.cancel()
            let refusedGeneration = authorization.generation
            (authorization, isLast) = try await mapped { try await manager.recover(generation: refusedGeneration) }
            try checkAccount(account, authorization)
        }
        throw AuthorizationError.auth(.invalidResponse)
    }

    private func checkAccount(_ wanted: ChappieAccountInfo?, _ authorization: AccessAuthorization) throws {
        guard let wanted, !wanted.isSameAccount(as: authorization.account) else { return }
        throw AuthorizationError.reauthenticationRequired(
            "Another account has signed in meanwhile; what was begun in the earlier one is not sent in its name.")
    }

    private func authorized(
        _ request: HTTPExchangeRequest, with authorization: AccessAuthorization
    ) -> HTTPExchangeRequest {
        var request = request
        let registration = manager.endpoints.registration
        request.headerFields[.authorization] = "Bearer \(authorization.accessToken.text)"
        request.headerFields[.chatGPTAccountID] = authorization.accountID
        if authorization.account.isFedRAMPAccount { request.headerFields[.fedRAMP] = "true" }
        request.headerFields[.originator] = registration.originator
        request.headerFields[.userAgent] = registration.userAgent
        return request
    }

    private func refused(
        _ response: HTTPExchangeResponse, _ authorization: AccessAuthorization
    ) async -> AuthorizationError {
        // A page that never ends must not hold up what the person is told.
        let timer = Task { [body = response.body] in
            try await Task.sleep(for: .seconds(5))
            body.cancel()
        }
        let body = (try? await response.body.collect(upTo: 64 << 10)) ?? []
        timer.cancel()
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
