import ChappieCore

extension CredentialManager {
    /// Returns the slot's credential as a document, for ``importCredential(_:)`` on another machine. If the credential
    /// is due, it is first renewed.
    ///
    /// The copy and the original can't both be used. A refresh token works once, and the service ends the entire
    /// sign-in when it is used a second time. The caller must warn the user, keep the document secret, and stop using
    /// the original.
    ///
    /// - Throws: ``ChappieAuthError``, and `CancellationError`.
    @_spi(ChappieInternals) public func exportCredential() async throws -> Secret {
        try await accessToken(.export).credential.serialized()
    }

    /// Deletes the slot's credential in this process and in the store, and does not revoke it at the server. This is
    /// for the original after an export.
    ///
    /// - Throws: ``CredentialStoreError``. The credential is then still stored, and counts as deleted until it can be
    ///   deleted.
    public func forgetWithoutRevoking() async throws(CredentialStoreError) { try await signOut(revoking: false) }

    /// Saves an exported credential, reads it back, compares it, and then starts to use it. It replaces an earlier
    /// credential. If a step fails, the earlier credential stays. Neither credential is revoked.
    ///
    /// - Returns: The account of the credential.
    /// - Throws: ``CredentialStoreError``: `.corrupt` if `document` is not from `chappie auth export`, or `.foreign` if
    ///   it is for another issuer or backend.
    public func importCredential(_ document: Secret) async throws(CredentialStoreError) -> ChappieAccountInfo {
        let credential = try Credential(serialized: document, for: stored.origin).imported(at: clock.now)
        // The store may ask the user, which must not happen while other processes wait for the lock.
        if let error = await stored.prepareToSave() { throw error }
        let work = Task { try await adopt(credential, after: nil) }
        do {
            try await work.value
            observer?.happened(.signInEnded(.import, .succeeded))
        } catch ChappieAuthError.credentialStoreUnavailable(let error) {
            observer?.happened(.signInEnded(.import, .failed))
            throw error
        } catch {
            observer?.happened(.signInEnded(.import, .failed))
            throw .failed("the import did not succeed")
        }
        if let registrations = browserSignIn?.registrations, let clientID = credential.issuedClientID,
            case .continueWithChatGPT(let appName) = endpoints.grant
        {
            // This is best effort. As long as the credential is stored, the next sign-in finds the client id in it.
            let registration = ChappieClientRegistration(
                clientID: clientID, subject: credential.info.userID, email: credential.info.email, appName: appName)
            try? await registrations.save(registration, for: slot)
        }
        return credential.info
    }
}
