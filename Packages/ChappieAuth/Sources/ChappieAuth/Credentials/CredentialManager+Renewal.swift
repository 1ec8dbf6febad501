import ChappieCore

extension CredentialManager {
    enum RenewalMode: Sendable {
        /// The token is about to end: tokens from the store will do if they last.
        case ifDue
        /// The backend refused the token: any other tokens from the store will do.
        case afterRefusal
        /// The server is asked in any case.
        case always
    }

    /// Replaces the credential of `generation`: one refresh at a time, whose result everyone shares.
    ///
    /// Whoever is cancelled stops waiting; the refresh itself goes on, because the refresh token is used up the moment
    /// the server has seen it.
    ///
    /// - Throws: ``CredentialFailure``; `CancellationError`.
    func renew(generation: Int, mode: RenewalMode) async throws -> Renewal {
        if let renewing { return try await renewing.value() }
        guard let held = heldNow else { throw CredentialFailure.missingCredential }
        guard held.generation == generation else {
            // Newer ones are there; not before they are saved.
            return Renewal(held: try await current(), usedNetwork: false)
        }
        let flight = Flight<Renewal>()
        renewing = flight
        Task {
            let result: Result<Renewal, any Error>
            do { result = .success(try await replace(held, mode: mode)) } catch { result = .failure(error) }
            renewing = nil
            flight.land(result)
        }
        return try await flight.value()
    }

    private func replace(_ original: HeldCredential, mode: RenewalMode) async throws(CredentialFailure) -> Renewal {
        do {
            let hold = try await lockForRenewal()
            renewalHoldsLock = true
            let lockedAt = clock.elapsed
            defer {
                renewalHoldsLock = false
                withExtendedLifetime(hold) {}
            }
            let held = try await adoptFromStore(insteadOf: original)
            if held.generation != original.generation, isEnough(held.credential, mode) {
                return Renewal(held: held, usedNetwork: false)
            }
            guard let refreshToken = held.credential.refreshToken else {
                return try await reject(
                    held, .missingRefreshToken, reason: "The sign-in can't be renewed. Please sign in again.")
            }
            do {
                return try await take(try await tokens.refresh(refreshToken), insteadOf: held, lockedAt: lockedAt)
            } catch .rejected(let error, let reason) {
                return try await reject(held, error, reason: reason)
            }
        } catch {
            if error.mayPass { earlyRefreshPause = clock.elapsed + Self.earlyRefreshRetry }
            throw error
        }
    }

    private func lockForRenewal() async throws(CredentialFailure) -> CredentialLockHold {
        do { return try await lock.acquire(slot, within: Self.renewalLockPatience) } catch { throw .store(error) }
    }

    private func isEnough(_ credential: Credential, _ mode: RenewalMode) -> Bool {
        switch mode {
        case .ifDue: credential.freshness(at: clock.now) == .fresh
        case .afterRefusal: true
        case .always: false
        }
    }

    /// Reads the store again: another process may have renewed the tokens, signed out, or signed somebody else in.
    func adoptFromStore(insteadOf held: HeldCredential) async throws(CredentialFailure) -> HeldCredential {
        // What the store did not take is newer than what it holds.
        guard held.isSaved else { return held }
        let stored = await withStore { await readStore() }
        guard let now = heldNow else { throw .missingCredential }
        guard now.generation == held.generation else { return now }
        switch stored {
        case .failure(let error): throw .store(error)
        case .success(nil):
            phase = .absent
            board.publish(.signedOut, in: held.epoch)
            throw .missingCredential
        case .success(let credential?):
            if credential.hasSameTokens(as: held.credential) { return held }
            guard credential.info.isSameAccount(as: held.credential.info) else { throw mismatch(in: held.epoch) }
            return hold(credential, isSaved: true, epoch: held.epoch)
        }
    }

    func mismatch(in epoch: Int) -> CredentialFailure {
        let reason = "The stored sign-in now belongs to another account. Please sign in again to go on here."
        let failure = CredentialFailure.rejected(.reauthenticationRequired(reason), reason: reason)
        phase = .mismatched(failure)
        board.publish(.reauthenticationRequired(.reauthenticationRequired(reason)), in: epoch)
        return failure
    }

    /// Takes new tokens into use: saved first, and kept in any case.
    ///
    /// Saved at once: a crash before that loses the sign-in. Only where the lock was held for so long that somebody may
    /// have signed out or in without it, the store is looked at first.
    private func take(
        _ answer: TokenAnswer, insteadOf held: HeldCredential, lockedAt: Duration
    ) async throws(CredentialFailure) -> Renewal {
        let credential = held.credential.refreshed(with: answer, at: clock.now)
        let result: Result<Renewal, CredentialFailure> = await withStore {
            guard let now = heldNow, now.generation == held.generation else {
                // Signed out, or signed in anew, while the server was asked.
                revokeInBackground(credential)
                return heldNow.map { .success(Renewal(held: $0, usedNetwork: false)) } ?? .failure(.missingCredential)
            }
            renewedAt = clock.elapsed
            let new = hold(
                credential, isSaved: false, epoch: held.epoch,
                replaces: held.isSaved ? held.credential : held.replaces)
            if clock.elapsed - lockedAt > Self.changeLockPatience - .seconds(1),
                case .success(let stored) = await readStore(), heldNow?.generation == new.generation,
                let other = yield(new, to: stored)
            {
                return other.map { Renewal(held: $0, usedNetwork: false) }
            }
            if let error = await save(credential) { return .failure(.store(error)) }
            markSaved(generation: new.generation)
            guard let saved = heldNow else { return .failure(.missingCredential) }
            return .success(Renewal(held: saved, usedNetwork: true))
        }
        return try result.get()
    }

    /// Gives up a credential that the server does not take any more, unless the store has a newer one by now: then
    /// another process was faster, and that one is used.
    private func reject(
        _ held: HeldCredential, _ error: ChappieAuthError, reason: String
    ) async throws(CredentialFailure) -> Renewal {
        let failure = CredentialFailure.rejected(error, reason: reason)
        let result: Result<Renewal, CredentialFailure> = await withStore {
            let stored = try? await readStore().get()
            guard let now = heldNow, now.generation == held.generation else {
                return heldNow.map { .success(Renewal(held: $0, usedNetwork: false)) } ?? .failure(.missingCredential)
            }
            if held.isSaved, let stored, stored.refreshToken != held.credential.refreshToken {
                guard stored.info.isSameAccount(as: held.credential.info) else {
                    return .failure(mismatch(in: held.epoch))
                }
                return .success(
                    Renewal(held: hold(stored, isSaved: true, epoch: held.epoch), usedNetwork: false))
            }
            phase = .rejected(held.credential, failure)
            board.publish(.reauthenticationRequired(error), in: held.epoch)
            // Best effort: should it stay, it is known as rejected here and will be rejected again elsewhere.
            if stored != nil { _ = await deleteStored() }
            return .failure(failure)
        }
        return try result.get()
    }
}
