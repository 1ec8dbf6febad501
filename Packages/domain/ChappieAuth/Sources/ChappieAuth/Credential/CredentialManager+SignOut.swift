@_spi(ChappieInternals) import ChappieCore

extension CredentialManager {
    /// Deletes the slot's credential: immediately in this process, then in the store, then at the server (best effort,
    /// at most 10 s). Sessions of this manager become `signedOut`. This also works if the stored credential can't be
    /// read. The server then revokes the credential that this process knows, if any.
    ///
    /// - Throws: ``CredentialStoreError`` if the stored credential could not be deleted. It then counts as deleted
    ///   until it can be deleted. An empty slot and a server that can't be reached are not errors.
    public func signOut() async throws(CredentialStoreError) { try await signOut(revoking: true) }

    func signOut(revoking: Bool) async throws(CredentialStoreError) {
        do {
            try await beginSignOut(revoking: revoking).finish()
        } catch ChappieAuthError.credentialStoreUnavailable(let error) {
            throw error
        } catch {}
    }

    /// Signs out immediately, for every thread. The store and the server follow in the background.
    func beginSignOut(revoking: Bool = true) -> SignOut {
        let (waiter, stored) = newWaiter()
        let revoked = Promise<Void>()
        report(.signedOut(revoking: revoking, waiter))
        let snapshot = status.value
        Task.detached { [self] in
            guard case .signedOut(let error, let credentials) = try? await stored.value() else { return }
            observer?.happened(.signOutEnded(error == nil ? .succeeded : .failed))
            var failure: (any Error)? = error.map(ChappieAuthError.credentialStoreUnavailable)
            for credential in credentials {
                do {
                    try await tokens.revoke(credential)
                } catch {
                    failure = failure ?? error
                }
            }
            if !credentials.isEmpty { report(.revocationEnded) }
            revoked.fulfil(failure.map { .failure($0) } ?? .success(()))
        }
        return SignOut(snapshot: snapshot, manager: self, stored: stored, revoked: revoked)
    }

    /// A sign-out in progress.
    struct SignOut: Sendable {
        let snapshot: CredentialSnapshot
        let manager: CredentialManager
        let stored: Promise<CredentialLifecycle.Answer>
        let revoked: Promise<Void>

        /// Waits until the store and the server have finished.
        ///
        /// - Throws: ``ChappieAuthError``: `credentialStoreUnavailable` if the credential could not be deleted (the
        ///   server is asked to revoke it anyway), or another error if only the server failed.
        func finish() async throws {
            // The store's part can't be cancelled, because the caller may then report "signed out".
            _ = await uncancelled { [stored] in try? await stored.value() }
            try await revoked.value()
        }

        /// Blocks the calling thread until the credential is deleted from the store, for at most `limit`. After that
        /// the credential is marked as deleted, so that the sign-out outlives a process that ends now.
        func waitUntilGone(within limit: Duration) {
            let isGone = blocking(within: limit) { [stored] in _ = try? await stored.value() }
            guard !isGone else { return }
            manager.report(.signOutOutlasted)
            _ = blocking(within: limit) { [manager] in await manager.stored.notes.finish(within: limit) }
        }
    }
}
