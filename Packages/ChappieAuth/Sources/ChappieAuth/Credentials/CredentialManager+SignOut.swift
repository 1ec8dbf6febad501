extension CredentialManager {
    /// Forgets the slot's credential: at once in this process, then in the store, then at the server (best effort, 10 s
    /// at most). Works also when what is stored can't be read. Sessions of this manager become `signedOut`.
    ///
    /// - Throws: ``CredentialStoreError`` when the stored credential could not be deleted. Not an error: an empty slot,
    ///   and a server that could not be told.
    public func signOut() async throws(CredentialStoreError) {
        _ = beginSignOut()
        do { try await finishSignOut() } catch CredentialFailure.store(let error) { throw error } catch {}
    }

    /// Signs out as of now, for every thread; what is left to do is ``finishSignOut()``.
    nonisolated func beginSignOut() -> StatusBoard.Snapshot { board.signOut() }

    /// Deletes the credential from the store, then ends it at the server.
    ///
    /// - Throws: ``CredentialFailure/store(_:)`` when it could not be deleted (the server is told all the same);
    ///   ``ChappieAuthError`` when only the server could not be told.
    func finishSignOut() async throws {
        let failure = await settleSignOut()
        let credentials = unrevoked
        unrevoked = []
        var revocation: ChappieAuthError?
        for credential in credentials {
            do { try await tokens.revoke(credential) } catch { revocation = error }
        }
        if let failure { throw CredentialFailure.store(failure) }
        if let revocation { throw revocation }
    }

    /// Carries out a sign-out in the store; returns why it could not.
    func settleSignOut() async -> CredentialStoreError? {
        let hold = await lockForChange()
        defer { withExtendedLifetime(hold) {} }
        return await withStore {
            let epoch = board.epoch
            guard settledEpoch != epoch, heldNow == nil else { return nil }
            // What is stored may be newer than what is known here: another process may have renewed it.
            if case .held(let held) = phase { remember(held.credential) }
            if case .success(let stored?) = await readStore() { remember(stored) }
            phase = .absent
            if let error = await deleteStored() { return error }
            settledEpoch = max(settledEpoch, epoch)
            return nil
        }
    }

    private func remember(_ credential: Credential) {
        guard !unrevoked.contains(where: credential.hasSameTokens) else { return }
        unrevoked.append(credential)
    }
}
