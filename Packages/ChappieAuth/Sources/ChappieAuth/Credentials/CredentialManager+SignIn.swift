import ChappieCore

extension CredentialManager {
    /// Asks the store whether it can keep a credential, before the person is asked for anything.
    func prepareToSave() async throws {
        do throws(CredentialStoreError) { try await store.prepareToSave(in: slot) } catch {
            throw CredentialFailure.store(error)
        }
    }

    /// Makes a freshly granted credential the slot's own: saved, read back, compared, and only then in use.
    ///
    /// The credential that was there before stays if anything fails, and is revoked if nothing does.
    ///
    /// - Parameter epoch: when the sign-in began; a sign-out since then wins.
    /// - Throws: ``CredentialFailure/store(_:)``; `CancellationError` when the task was cancelled or somebody signed
    ///   out, with everything as it was before.
    func adopt(_ credential: Credential, epoch: Int) async throws -> StatusBoard.Snapshot {
        let hold = await lockForChange()
        defer { withExtendedLifetime(hold) {} }
        return try await withStore {
            do {
                return try await replaceStored(with: credential, epoch: epoch)
            } catch {
                revokeInBackground(credential)
                throw error
            }
        }
    }

    private func replaceStored(with credential: Credential, epoch: Int) async throws -> StatusBoard.Snapshot {
        try checkSignInGoesOn(epoch)
        let stored: Result<Credential?, CredentialStoreError>
        if let held = heldNow { stored = .success(held.credential) } else { stored = await readStore() }
        try checkSignInGoesOn(epoch)
        do {
            if let error = await save(credential, verified: true) { throw CredentialFailure.store(error) }
            try checkSignInGoesOn(epoch)
        } catch {
            await putBack(stored)
            throw error
        }
        let previous = try? stored.get()
        // From here on there is no suspension: the sign-in has happened.
        settledEpoch = epoch
        renewedAt = clock.elapsed
        hold(credential, isSaved: true, epoch: epoch)
        if let previous, previous.refreshToken != credential.refreshToken { revokeInBackground(previous) }
        return board.snapshot
    }

    private func checkSignInGoesOn(_ epoch: Int) throws {
        guard board.epoch == epoch else { throw CancellationError() }
        try Task.checkCancellation()
    }

    /// Makes the store what it was before a save that has failed, or has been overtaken: best effort. What could not be
    /// read before is left alone.
    func putBack(_ stored: Result<Credential?, CredentialStoreError>) async {
        if isSignOutPending {
            _ = await deleteStored()
            return
        }
        switch stored {
        case .success(let previous?): _ = await save(previous)
        case .success(nil): _ = await deleteStored()
        case .failure: return
        }
    }
}
