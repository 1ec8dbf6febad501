import ChappieCore

extension CredentialManager {
    /// The slot's credential as a document, for ``importCredential(_:)`` on another machine. Renewed first when it is due;
    /// a renewal that is under way, here or in another process, is waited for, because it uses up the refresh token.
    ///
    /// The copy and the original can't both be used: a refresh token works once, and the service ends the whole sign-in
    /// when it comes a second time. Whoever calls this must say so, keep the document from others, and stop using the
    /// original.
    ///
    /// - Throws: ``AuthorizationError``; `CancellationError`.
    public func exportCredential() async throws -> Secret {
        do {
            let held = try await current()
            if renewing != nil || held.credential.freshness(at: clock.now) != .fresh {
                _ = try await renew(generation: held.generation, mode: .ifDue)
            }
            let hold: CredentialLockHold
            do throws(CredentialStoreError) {
                hold = try await lock.acquire(slot, within: Self.renewalLockPatience)
            } catch { throw CredentialFailure.store(error) }
            defer { withExtendedLifetime(hold) {} }
            return try await adoptFromStore(insteadOf: try await current()).credential.serialized()
        } catch let failure as CredentialFailure {
            throw failure.authorizationError
        }
    }

    /// Forgets the slot's credential in this process and in the store, and leaves it alone at the server: for the original
    /// after an export.
    ///
    /// - Throws: ``CredentialStoreError``; the credential is then still stored.
    public func forgetWithoutRevoking() async throws(CredentialStoreError) {
        _ = beginSignOut()
        let failure = await settleSignOut()
        unrevoked = []
        if let failure { throw failure }
    }

    /// Makes an exported credential the slot's own: saved, read back, compared, and only then in use. One that was there
    /// before is revoked; if anything fails it stays, and the imported one is left alone.
    ///
    /// - Returns: whose it is.
    /// - Throws: ``CredentialStoreError``: `.corrupt` when `document` is not what ``exportCredential()`` gives.
    public func importCredential(_ document: Secret) async throws(CredentialStoreError) -> ChappieAccountInfo {
        let credential = try Credential(serialized: document)
        let lock = await lockForChange()
        defer { withExtendedLifetime(lock) {} }
        let result: Result<Void, CredentialStoreError> = await withStore {
            let previous = await readStore()
            if let error = await save(credential, verified: true) {
                await putBack(previous)
                return .failure(error)
            }
            let epoch = board.epoch
            settledEpoch = epoch
            hold(credential, isSaved: true, epoch: epoch)
            if case .success(let previous?) = previous, previous.refreshToken != credential.refreshToken {
                revokeInBackground(previous)
            }
            return .success(())
        }
        try result.get()
        return credential.info
    }
}
