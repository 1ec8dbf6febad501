@_spi(ChappieInternals) import ChappieCore

/// An attempt to sign in.
@MainActor
final class SignInAttempt {
    /// The number of sign-outs when it began. A later sign-out ends it.
    let signOuts: Int
    /// Whether the session itself notifies the user that the account is linked.
    let announces: Bool
    /// The kind of the sign-in.
    let grant: ChappieGrant
    /// The access token to sign in with, if that is the grant.
    let accessToken: Secret?
    /// Whether the credential is being saved. From then on, a user who appears as signed in comes from this attempt.
    var isSaving = false
    /// The code to show, for the caller who started the attempt.
    let code = Promise<ChappieDeviceCode>()
    let account = Promise<ChappieAccountInfo>()
    /// The callback of the browser, for grants that have one.
    var callback: BrowserCallback?

    init(signOuts: Int, announces: Bool, grant: ChappieGrant, accessToken: Secret?) {
        self.signOuts = signOuts
        self.grant = grant
        self.announces = announces
        self.accessToken = accessToken
    }

    func fail(_ error: ChappieAuthError) {
        code.fulfil(.failure(error))
        account.fulfil(.failure(error))
    }

    /// Runs the attempt until its credential is stored.
    ///
    /// - Parameters:
    ///   - onCode: receives the code or the page that the user has to see, and the callback of the browser.
    ///   - onReturn: receives the code when the polling begins, or the page when the browser has returned.
    func run(
        with manager: CredentialManager,
        onCode: @MainActor @Sendable (ChappieDeviceCode, BrowserCallback?) -> Void,
        onReturn: @MainActor @Sendable (ChappieDeviceCode) -> Void
    ) async throws {
        try await manager.prepareToSave()
        let exchange: @Sendable () async throws -> Credential
        switch grant {
        case .accessToken:
            guard let accessToken else {
                throw ChappieAuthError.authorizationDenied(
                    "This program signs in with an access token: call signIn(accessToken:).")
            }
            let credential = try await manager.tokens.credential(of: accessToken)
            exchange = { credential }
        case .deviceCode:
            guard !manager.endpoints.usesPlan else { throw ChappieAuthError.otherGrant }
            let code = try await manager.tokens.issuer.authorizeDevice(manager.endpoints) { code in
                await onCode(code, nil)
            } onPolling: { code in
                await onReturn(code)
            }
            exchange = { try await manager.tokens.exchange(code) }
        case .browser:
            let code = try await manager.clientAuthorization().run { page, callback in
                await onCode(page, callback)
            } onReturn: { page in
                await onReturn(page)
            }
            exchange = { try await manager.tokens.exchange(code) }
        case .continueWithChatGPT(let appName):
            exchange = try await manager.browserAuthorization(as: appName).run { page, callback in
                await onCode(page, callback)
            } onReturn: { page in
                await onReturn(page)
            }
        }
        try await ApprovedSignIn(manager).run(
            after: signOuts, onSaving: { @MainActor in self.isSaving = true }, exchange)
    }
}
