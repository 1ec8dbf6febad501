import ChappieCore

extension CredentialManager {
    /// After a failed early refresh a token that is still good is used this long before the next try.
    static let earlyRefreshRetry = Duration.seconds(30)
    /// A request waits this long for an early refresh, and then goes out with the token that is still good.
    static let earlyRefreshPatience = Duration.seconds(10)
    /// For this long a token that has just come from the server is used even if this machine's clock says that it has
    /// ended: it is the clock that is wrong then, and refreshing for every request would help nobody.
    static let newTokenTrust = Duration.seconds(30)

    /// The right to send a request now, renewed first when less than five minutes are left.
    ///
    /// - Throws: ``CredentialFailure``; `CancellationError`.
    func authorize() async throws -> AccessAuthorization {
        try Task.checkCancellation()
        let held = try await current()
        switch held.credential.freshness(at: clock.now) {
        case _ where isNew(held): return try authorization(for: held)
        case .fresh: return try authorization(for: held)
        case .due: return try authorization(for: try await renewEarly(held))
        case .expired: return try authorization(for: try await renew(generation: held.generation, mode: .ifDue).held)
        }
    }

    /// What to do after the backend refused the token of `generation` with 401.
    ///
    /// When another token is in use already, that one is to be tried: a late 401 must not use up its successor. Else
    /// the store is asked (another process may have renewed), and only then the server.
    ///
    /// - Returns: the next authorization, and whether it is fresh from the server.
    func recover(generation: Int) async throws -> (AccessAuthorization, usedNetwork: Bool) {
        let renewal = try await renew(generation: generation, mode: .afterRefusal)
        return (try authorization(for: renewal.held), renewal.usedNetwork)
    }

    /// The backend refused the token of `generation` although it is fresh: the session says so until a request succeeds
    /// or a new sign-in replaces the credential, which stays.
    func refused(generation: Int, reason: String) {
        guard let held = heldNow, held.generation == generation else { return }
        refusedGeneration = generation
        board.publish(.reauthenticationRequired(.reauthenticationRequired(reason)), in: held.epoch)
    }

    /// The backend took the token of `generation`.
    func accepted(generation: Int) {
        guard refusedGeneration == generation, let held = heldNow, held.generation == generation else { return }
        refusedGeneration = nil
        board.publish(.signedIn(held.credential.info, expiresAt: held.credential.expiresAt), in: held.epoch)
    }

    /// Asks the server for new tokens whether they are due or not.
    func refreshNow() async throws {
        let epoch = board.epoch
        let held: HeldCredential
        do {
            held = try await current()
        } catch CredentialFailure.missingCredential where board.epoch == epoch {
            let reason = "Nobody is signed in. Please sign in."
            let failure = CredentialFailure.rejected(.missingRefreshToken, reason: reason)
            phase = .rejected(nil, failure)
            board.publish(.reauthenticationRequired(.missingRefreshToken), in: epoch)
            throw failure
        }
        _ = try await renew(generation: held.generation, mode: .always)
    }

    private func renewEarly(_ held: HeldCredential) async throws -> HeldCredential {
        if let earlyRefreshPause, clock.elapsed < earlyRefreshPause { return held }
        do {
            if let renewed = try await renewed(held, within: Self.earlyRefreshPatience) { return renewed }
        } catch let failure as CredentialFailure {
            guard failure.mayPass, heldNow?.generation == held.generation else { throw failure }
        }
        // Only while it is still the same token: a new one is not to be used before it has been saved.
        return heldNow?.generation == held.generation ? held : try await current()
    }

    /// The renewed credential; `nil` when that takes longer than `patience`. The renewal itself goes on.
    private func renewed(_ held: HeldCredential, within patience: Duration) async throws -> HeldCredential? {
        try await withThrowingTaskGroup(of: HeldCredential?.self) { group in
            defer { group.cancelAll() }
            group.addTask { try await self.renew(generation: held.generation, mode: .ifDue).held }
            group.addTask { [clock] in
                try await clock.sleep(for: patience)
                return nil
            }
            return try await group.next() ?? nil
        }
    }

    private func isNew(_ held: HeldCredential) -> Bool {
        guard let renewedAt else { return false }
        return clock.elapsed - renewedAt < Self.newTokenTrust
    }

    private func authorization(for held: HeldCredential) throws(CredentialFailure) -> AccessAuthorization {
        guard let accountID = held.credential.accountID else { throw .missingAccountID }
        return AccessAuthorization(
            accessToken: held.credential.accessToken, accountID: accountID,
            account: held.credential.info, generation: held.generation)
    }
}

extension CredentialFailure {
    /// Whether the same may work in a moment.
    var mayPass: Bool {
        switch self {
        case .soft, .store: true
        case .missingCredential, .rejected, .missingAccountID: false
        }
    }
}
