import ChappieCore

extension CredentialManager {
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
        let previous: Credential?
        if let held = heldNow { previous = held.credential } else { previous = try? await readStore().get() }
        try checkSignInGoesOn(epoch)
        if let error = await save(credential, verified: true) { throw CredentialFailure.store(error) }
        do {
            try checkSignInGoesOn(epoch)
        } catch {
            await putBack(previous)
            throw error
        }
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

    /// Best effort: the store has just worked.
    private func putBack(_ previous: Credential?) async {
        if let previous, !isSignOutPending {
            _ = await save(previous)
        } else {
            _ = await deleteStored()
        }
    }
}
