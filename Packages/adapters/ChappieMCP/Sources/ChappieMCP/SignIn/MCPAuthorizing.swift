@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import HTTPTypes

/// A middleware that adds the user's token to the requests to a tool server, and renews it once if the server refuses
/// it.
struct MCPAuthorizing: HTTPMiddleware {
    let authorization: ChappieMCPAuthorization

    func intercept(
        _ request: HTTPExchangeRequest,
        next: @concurrent @Sendable (HTTPExchangeRequest) async throws -> HTTPExchangeResponse
    ) async throws -> HTTPExchangeResponse {
        // The token is only for this server.
        guard request.url == authorization.url else { return try await next(request) }
        let token = try await authorization.token()
        let first = try await next(request.carrying(token))
        try refuseMore(first)
        guard first.status == .unauthorized else { return first }
        first.body.cancel()
        // The server has not accepted the request, so it may be sent again.
        guard let token, let renewed = try await authorization.token(refused: token) else {
            throw authorization.withoutToken()
        }
        let second = try await next(request.carrying(renewed))
        try refuseMore(second)
        guard second.status == .unauthorized else { return second }
        second.body.cancel()
        throw OAuthRefusal(.signInNeeded, "it does not accept its sign-in any more")
    }

    /// Throws if the server requires more permissions. Only the user can grant them, and asking again without them
    /// would not end.
    private func refuseMore(_ response: HTTPExchangeResponse) throws {
        guard response.status == .forbidden else { return }
        let challenge = OAuthChallenge(response.headerFields)
        guard challenge.error == "insufficient_scope" else { return }
        response.body.cancel()
        // The names are shown next to a command, so they must be plain.
        let names = (challenge.scopes ?? []).filter { name in
            name.utf8.count <= 80 && name.utf8.allSatisfy { $0.isASCIIAlphanumeric || ".:/_-".utf8.contains($0) }
        }
        let words = names.isEmpty ? "" : ": \(names.prefix(8).joined(separator: " "))"
        throw OAuthRefusal(.permissionNeeded, "it requires more permissions than its sign-in has\(words)")
    }
}

extension HTTPExchangeRequest {
    fileprivate func carrying(_ token: Secret?) -> HTTPExchangeRequest {
        guard let token else { return self }
        var request = self
        request.headerFields[.authorization] = "Bearer \(token.text)"
        request.followsRedirects = false
        return request
    }
}
