import ChappieCore

/// The token and revocation endpoints as three questions.
struct TokenClient: Sendable {
    /// From the request to the whole answer; a token endpoint that takes longer is not there.
    static let tokenDeadline = Duration.seconds(60)
    /// As the Codex CLI: signing out never waits longer for a server.
    static let revocationDeadline = Duration.seconds(10)

    let endpoints: ChappieEndpoints
    let issuer: IssuerClient

    /// Turns an authorization code into a credential; which grant it came from makes no difference.
    ///
    /// - Throws: ``ChappieAuthError``.
    func exchange(_ code: AuthorizationCode) async throws(ChappieAuthError) -> Credential {
        let answer: IssuerAnswer
        do {
            answer = try await issuer.send(
                TokenRequests(endpoints: endpoints).exchange(code), within: Self.tokenDeadline)
        } catch { throw error.authError }
        guard answer.isSuccess else {
            throw IssuerError(answer, secrets: [code.code, code.verifier])
                .authError(host: endpoints.profile.tokenURL.hostAndPort)
        }
        return try Credential(exchanged: TokenAnswer(answer), grant: code.grant, at: issuer.clock.now)
    }

    /// Renews the tokens.
    ///
    /// - Throws: ``CredentialFailure/rejected(_:reason:)`` when the refresh token is of no more use,
    ///   ``CredentialFailure/soft(_:)`` for everything that may pass.
    func refresh(_ refreshToken: Secret) async throws(CredentialFailure) -> TokenAnswer {
        let request = TokenRequests(endpoints: endpoints).refresh(refreshToken)
        let answer: IssuerAnswer
        do { answer = try await issuer.send(request, within: Self.tokenDeadline) } catch {
            throw .soft(error.authError)
        }
        guard answer.isSuccess else {
            let error = IssuerError(answer, secrets: [refreshToken])
            let authError = error.authError(host: endpoints.profile.tokenURL.hostAndPort)
            throw error.isPermanent ? .rejected(authError, reason: error.reason) : .soft(authError)
        }
        do { return try TokenAnswer(answer) } catch { throw .soft(error) }
    }

    /// Ends the sign-in at the server.
    ///
    /// - Throws: ``ChappieAuthError``; whoever calls decides whether that matters.
    func revoke(_ credential: Credential) async throws(ChappieAuthError) {
        let request = TokenRequests(endpoints: endpoints).revocation(of: credential)
        let answer: IssuerAnswer
        do { answer = try await issuer.send(request, within: Self.revocationDeadline) } catch { throw error.authError }
        guard answer.isSuccess else {
            throw IssuerError(answer, secrets: credential.secrets)
                .authError(host: endpoints.profile.revokeURL.hostAndPort)
        }
    }
}
