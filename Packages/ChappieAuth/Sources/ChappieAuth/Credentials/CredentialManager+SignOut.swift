import ChappieCore

extension CredentialManager {
    /// Forgets the slot's credential: at once in this process, then in the store, then at the server (best effort, 10 s
    /// at most). Sessions of this manager become `signedOut`. Works also when what is stored can't be read; the server is
    /// then told of what this process knows, if anything.
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
    ///
    /// One that could not be carried out at once is made up for later, but not at the cost of whoever has signed in to the
    /// slot meanwhile.
    func settleSignOut() async -> CredentialStoreError? {
        let hold = await lockForChange()
        defer { withExtendedLifetime(hold) {} }
        return await withStore {
            let epoch = board.epoch
            guard settledEpoch != epoch, heldNow == nil else { return nil }
            let earlier = unsettledSignOut.flatMap { $0.epoch == epoch ? $0 : nil }
            if case .held(let held) = phase { remember(held.credential) }
            if earlier != nil || !hasJustRefusedToBeRead {
                // What is stored may be newer than what is known here: another process may have renewed it.
                switch await readStore() {
                case .success(let stored?):
                    if let earlier, !earlier.means(stored) {
                        settledEpoch = max(settledEpoch, epoch)
                        return nil
                    }
                    remember(stored)
                case .failure(let error) where earlier != nil && !error.isDamage: return error
                case .success(nil), .failure: break
                }
            }
            phase = .absent
            if let error = await deleteStored() {
                unsettledSignOut =
                    earlier ?? UnsettledSignOut(epoch: epoch, at: clock.now, accounts: unrevoked.map(\.info))
                return error
            }
            settledEpoch = max(settledEpoch, epoch)
            if earlier != nil {
                // Nobody waits for it any more.
                for credential in unrevoked { revokeInBackground(credential) }
                unrevoked = []
            }
            return nil
        }
    }

    /// Whether the person was asked for access a moment ago, in vain; deleting needs none.
    private var hasJustRefusedToBeRead: Bool {
        switch readFailure {
        case .denied, .noPassphrase, .wrongPassphrase: true
        default: false
        }
    }

    private func remember(_ credential: Credential) {
        guard !unrevoked.contains(where: credential.hasSameTokens) else { return }
        unrevoked.append(credential)
    }
}

extension CredentialStoreError {
    /// Whether there is something that can't be read, whoever asks.
    fileprivate var isDamage: Bool { if case .corrupt = self { true } else { false } }
}
