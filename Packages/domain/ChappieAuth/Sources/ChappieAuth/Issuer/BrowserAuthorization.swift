@_spi(ChappieInternals) import ChappieCore

/// The grant of "Continue with ChatGPT", from the first random byte to the tokens. It uses a browser on this machine
/// and a client id that the service issues.
struct BrowserAuthorization: Sendable {
    let appName: String
    let ports: BrowserSignInPorts
    let registrations: any RegistrationStore
    let slot: CredentialSlot
    let tokens: TokenClient
    /// The credential of an earlier sign-in, unless the user has signed out.
    let earlier: Credential?
    /// Receives the work that remains once the browser has returned, which is to deliver its pages.
    let leave: @Sendable (Task<Void, Never>) -> Void

    private var clock: any ChappieClock { tokens.issuer.clock }

    /// Runs the sign-in until the browser returns. `onPage` shows the page. `onReturn` is called when the browser has
    /// returned.
    ///
    /// - Returns: The exchange, whose result is the credential.
    /// - Throws: ``ChappieAuthError``, and `CancellationError`.
    @concurrent
    func run(
        onPage: @Sendable (ChappieDeviceCode, BrowserCallback) async -> Void,
        onReturn: @Sendable (ChappieDeviceCode) async -> Void
    ) async throws -> @Sendable () async throws -> Credential {
        guard (1...80).contains(appName.count), UntrustedText.line(appName, limit: 400) != nil else {
            throw ChappieAuthError.unknown("The name of the app must have 1 to 80 visible characters.")
        }
        let registration = try await registration()
        let hostID = try await stored { () throws(CredentialStoreError) in try await registrations.hostID() }
        let visit = try BrowserVisit(at: [0], path: OpenID.callbackPath, ports, clock)
        defer { visit.close(leave) }
        let ownEarlier = earlier.flatMap { $0.issuedClientID == registration?.clientID ? $0 : nil }
        let authorize = AuthorizeRequest(
            endpoints: tokens.endpoints, appName: appName, registration: registration, hostID: hostID,
            binding: visit.binding, nonce: try ports.random(),
            hint: registration == nil
                ? nil
                : ownEarlier?.idToken.map { AuthorizeRequest.Hint(idToken: $0, email: ownEarlier?.info.email) },
            asksForConsent: ownEarlier?.info.planUse == .notGranted)
        guard let page = authorize.url(withIDToken: false), let ownPage = authorize.url(withIDToken: true) else {
            throw ChappieAuthError.invalidResponse
        }
        let approval = try await visit.approval(of: page, opening: ownPage, onPage: onPage, onReturn: onReturn)
        return { try await credential(approval, authorize) }
    }

    // MARK: After the browser has come back

    private func credential(
        _ approval: CallbackRequests.Approval, _ authorize: AuthorizeRequest
    ) async throws -> Credential {
        var registration = ChappieClientRegistration(
            clientID: try authorize.issuedClientID(approval.clientID), appName: appName)
        if let known = authorize.registration { registration = known }
        // A code that can't be exchanged must not cost the user another registration.
        try await save(registration)
        // An outage is noticed before the code is used up.
        let configuration = try await tokens.issuer.configuration(tokens.endpoints)
        let keys = try await tokens.issuer.signingKeys(configuration)
        let code = AuthorizationCode(
            code: approval.code, verifier: authorize.binding.verifier, redirectURI: authorize.binding.redirectURI,
            grant: .continueWithChatGPT(appName: appName), issuedClientID: registration.clientID)
        let answer: TokenResponse
        do throws(ChappieAuthError) {
            answer = try await tokens.redeem(code)
        } catch {
            // If the server does not know the id after all, the next sign-in can't use it.
            if authorize.registration?.subject == nil, error.isOfInvalidClient { try await save(nil) }
            throw tokens.withoutBlame(error)
        }
        guard let token = answer.idToken else { throw ChappieAuthError.invalidResponse }
        let expectation = IDToken.Expectation(
            issuer: configuration.issuer, clientID: registration.clientID, nonce: authorize.nonce,
            subject: registration.subject)
        // The server's clock counts, so that a wrong clock on this machine does not block a sign-in.
        let identity = try await verify(token, expectation, configuration, keys, at: answer.date ?? clock.now)
        registration.subject = identity.subject
        registration.email = identity.email ?? registration.email
        try await save(registration)
        return try Credential(
            exchanged: answer, grant: code.grant, at: clock.now, from: CredentialOrigin(tokens.endpoints),
            issuedClientID: registration.clientID)
    }

    /// Verifies the token. The server may have changed its keys since they were read, so this reads them once more if
    /// the key is unknown.
    private func verify(
        _ token: Secret, _ expectation: IDToken.Expectation, _ configuration: OpenIDConfiguration, _ keys: SigningKeys,
        at now: Date
    ) async throws(ChappieAuthError) -> IDToken {
        do throws(IDToken.Refusal) {
            return try check(token, expectation, keys, now)
        } catch {
            guard error == .unknownKey else { throw error.error }
        }
        let newKeys = try await tokens.issuer.signingKeys(configuration)
        do throws(IDToken.Refusal) {
            return try check(token, expectation, newKeys, now)
        } catch {
            throw error.error
        }
    }

    private func check(
        _ token: Secret, _ expectation: IDToken.Expectation, _ keys: SigningKeys, _ now: Date
    ) throws(IDToken.Refusal) -> IDToken {
        try IDToken(token, keys: keys, cryptography: ports.cryptography, expecting: expectation, now: now)
    }

    // MARK: The registration

    /// Returns the registration of this app for the slot, or `nil` if there is none or if it belongs to another app.
    private func registration() async throws(ChappieAuthError) -> ChappieClientRegistration? {
        let found = try await stored { () throws(CredentialStoreError) in
            try await registrations.registration(for: slot)
        }
        if let found { return found.appName == appName && isUsable(found) ? found : nil }
        // A credential from another machine contains its registration.
        guard let earlier, let clientID = earlier.issuedClientID else { return nil }
        let own = ChappieClientRegistration(
            clientID: clientID, subject: earlier.info.userID, email: earlier.info.email, appName: appName)
        return isUsable(own) ? own : nil
    }

    private func isUsable(_ registration: ChappieClientRegistration) -> Bool {
        AuthorizeRequest.isClientID(registration.clientID) && registration.clientID != OpenID.bootstrapClientID
    }

    private func save(_ registration: ChappieClientRegistration?) async throws(ChappieAuthError) {
        try await stored { () throws(CredentialStoreError) in
            guard try await registrations.registration(for: slot) != registration else { return }
            try await registrations.save(registration, for: slot)
        }
    }

    private func stored<Value>(
        _ work: () async throws(CredentialStoreError) -> Value
    ) async throws(ChappieAuthError) -> Value {
        do {
            return try await work()
        } catch {
            throw .credentialStoreUnavailable(error)
        }
    }
}
