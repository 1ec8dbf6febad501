@_spi(ChappieInternals) import ChappieCore

// The state machine's inputs, its actions, and the values in both.
extension CredentialLifecycle {
    /// An identifier of a caller that waits for an answer.
    typealias Waiter = Int
    /// An identifier of a job. With it, the machine recognises an answer that arrives too late for the job.
    typealias JobID = Int

    /// The time when an input arrived.
    struct Timestamp: Sendable {
        /// The time by the wall clock, which measures token expiry.
        let now: Date
        /// The time by the clock that can't be set, which measures waiting.
        let elapsed: Duration
    }

    /// The result that a caller waits for.
    enum Need: Sendable, Hashable {
        /// The credential in its current state.
        case account
        /// A token for a request. If it is due, it is first renewed.
        case token
        /// New tokens from the server, whether the current ones are due or not.
        case refresh
        /// The credential for another machine. The store is read first, and the tokens are renewed if they are due.
        case export
        /// The store's current credential, whatever its account. A refused renewal may be tried again.
        case reload
        /// A token other than the token of this generation, which the backend answered with 401.
        case replacement(of: Int)
    }

    /// The reason for asking the server for tokens, for a log.
    enum RenewalReason: String, Sendable {
        case due = "the access token ends soon"
        case ended = "the access token has ended"
        case refused = "the backend refused the access token"
        case asked = "the program asked for it"
        case exported = "the credential is exported"
    }

    /// A credential in use.
    struct Held: Sendable {
        var credential: Credential
        /// A number that grows with every change of tokens, so that a late 401 counts only against the token that it
        /// was about.
        let generation: Int
        /// The credential in the store when these tokens arrived, or `nil` once they are saved. Tokens are not used
        /// before they are saved, and a later save overwrites this credential only.
        var replaces: Credential?
        /// The time when the tokens arrived from the server, by the clock that can't be set.
        let cameAt: Duration?
        /// The end of a pause in early refreshes, because one has just failed.
        var earlyRefreshPause: Duration?
        /// The backend's reason for refusing the token although it was fresh, as a sentence.
        var refusal: String?
        /// The token endpoint's refusal to renew these tokens, if it reveals nothing about the refresh token. The
        /// endpoint is not asked again for a request.
        var renewalRefusal: ChappieAuthError?
        /// The failure of a renewal that the program asked for.
        var failedRefresh: ChappieAuthError?
    }

    /// The content of the store, and the tombstone that accompanies it.
    struct Stored: Sendable {
        var credential: Credential?
        var tombstone: Tombstone?

        /// The stored credential, unless the tombstone marks it as deleted.
        var credentialInForce: Credential? {
            credential.flatMap { tombstone?.means($0) == true ? nil : $0 }
        }
    }

    /// A successful answer for a waiter.
    enum Answer: Sendable {
        /// A credential. `isNew` is whether the tokens have just arrived from the server.
        case credential(Held, isNew: Bool)
        /// The store has tried to sign out. The credentials are to be revoked in any case. If there are any,
        /// ``Input/revocationEnded`` follows once.
        case signedOut(CredentialStoreError?, revoke: [Credential])
        case settled
    }

    /// An event that the machine handles.
    enum Input: Sendable {
        case asked(Need, Waiter)
        /// The backend accepted the token, or refused it although it was fresh.
        case backendAnswered(generation: Int, refusal: String?)
        /// The waiter's request is sent with the current token instead of waiting longer for a new one.
        case patienceEnded(Waiter)
        case signedOut(revoking: Bool, Waiter)
        /// The caller of the sign-out continues before the store has carried it out.
        case signOutOutlasted
        /// Another process has changed the store. It is read before the next caller gets a credential.
        case storeMayHaveChanged
        /// A sign-in has completed. `after` is the number of sign-outs at the start of the sign-in, because a later
        /// sign-out wins. It is `nil` for an import, which begins now.
        case signInCompleted(Credential, after: Int?, Waiter)
        case signInCancelled(Waiter)
        case settlingAsked(Waiter)
        case lockAnswered(JobID, CredentialStoreError?)
        /// The store has been read. `tombstone` is the one that accompanies a store that could not be read.
        case storeRead(Result<Stored, CredentialStoreError>, tombstone: Tombstone? = nil)
        /// The store can save, or has reported the reason why it can't.
        case storePrepared(CredentialStoreError?)
        /// The credential has been saved or deleted, or the store failed.
        case storeChanged(CredentialStoreError?)
        case tokensRefreshed(JobID, Result<TokenResponse, ChappieAuthError>)
        case revocationEnded
    }

    /// Work that the manager has to do.
    enum Action: Sendable {
        case acquireLock(JobID, within: Duration)
        case releaseLock(JobID)
        /// Reads the store. `isDeleted` is whether the content is to be deleted and not used.
        case readStore(isDeleted: Bool)
        case prepareToSave
        /// Saves the credential. If `verified`, the manager also reads the credential back, even if the store has
        /// verified it itself.
        case save(Credential, verified: Bool)
        case delete
        /// Asks the server for new tokens. `of` is the client id that the server issued, if any.
        case refresh(JobID, Secret, of: String?, because: RenewalReason)
        /// Revokes the credential in the background. ``Input/revocationEnded`` follows.
        case revoke(Credential)
        case answer(Waiter, Result<Answer, ChappieAuthError>)
        /// Reports ``Input/patienceEnded(_:)`` after this time, unless the waiter gets its answer before that.
        case startPatience(Waiter, Duration)
        /// Another process has renewed the credential, so that this one did not have to.
        case renewalWasTakenOver(RenewalReason)
        /// The token endpoint has refused the refresh token, and the access token is still valid.
        case renewalWasRefused(Credential)
        /// Keeps the tombstone for other processes and later ones. `nil` removes it.
        case keepTombstone(Tombstone?)
    }
}
