@_spi(ChappieInternals) import ChappieCore

// The state machine's inputs, its actions, and the values in both.
extension CredentialLifecycle {
    /// Identifies a caller that waits for an answer.
    typealias Waiter = Int
    /// Identifies a job, so that an answer that it no longer waits for is known as such.
    typealias JobID = Int

    /// When an input arrived.
    struct Moment: Sendable {
        /// By the wall clock, which token expiry is measured with.
        let now: Date
        /// By the clock that can't be set, which waiting is measured with.
        let elapsed: Duration
    }

    /// The caller waits for one of these.
    enum Need: Sendable, Hashable {
        /// The credential, as it is.
        case account
        /// A token for a request: renewed first when it is due.
        case token
        /// New tokens from the server, whether they are due or not.
        case refresh
        /// The credential for another machine: renewed first when it is due, in any case after reading the store.
        case export
        /// Another token than that of this generation, which the backend answered with 401.
        case replacement(of: Int)
    }

    /// Why the server is asked for tokens, for a log.
    enum RenewalReason: String, Sendable {
        case due = "the access token ends soon"
        case ended = "the access token has ended"
        case refused = "the backend refused the access token"
        case asked = "the program asked for it"
        case exported = "the credential is exported"
    }

    /// A credential in use.
    struct Held: Sendable {
        let credential: Credential
        /// Grows with every change of tokens, so that a late 401 is only held against the token that it was about.
        let generation: Int
        /// The store's content when these tokens came, until they are saved: they are not used before, and only that is
        /// overwritten later.
        var replaces: Credential?
        /// When the tokens came from the server, by the clock that can't be set.
        let cameAt: Duration?
        /// No early refresh before this time, because one has just failed.
        var earlyRefreshPause: Duration?
        /// The sentence with which the backend refused the token although it was fresh.
        var refusal: String?
    }

    /// The content of the store, and the tombstone beside it.
    struct Stored: Sendable {
        var credential: Credential?
        var tombstone: Tombstone?

        /// The credential that counts as stored: one that the tombstone means is gone.
        var credentialInForce: Credential? {
            credential.flatMap { tombstone?.means($0) == true ? nil : $0 }
        }
    }

    /// A good answer for a waiter.
    enum Answer: Sendable {
        /// `isNew`: the tokens have just come from the server.
        case credential(Held, isNew: Bool)
        /// The sign-out has been tried in the store. The credentials are to be revoked in any case, which ends in one
        /// ``Input/revocationEnded`` if there are any.
        case signedOut(CredentialStoreError?, revoke: [Credential])
        case settled
    }

    /// An event that the machine is told of.
    enum Input: Sendable {
        case asked(Need, Waiter)
        /// The backend took the token, or refused it although it was fresh.
        case backendAnswered(generation: Int, refusal: String?)
        /// The waiter's request goes out with the old token instead of waiting longer for a new one.
        case patienceEnded(Waiter)
        case signedOut(revoking: Bool, Waiter)
        /// The caller of the sign-out goes on before the store has carried it out.
        case signOutOutlasted
        /// `after` counts the sign-outs at the start of the sign-in: a later one wins. `nil` for an import, which begins now.
        case signInCompleted(Credential, after: Int?, Waiter)
        case signInCancelled(Waiter)
        case settlingAsked(Waiter)
        case lockAnswered(JobID, CredentialStoreError?)
        case storeRead(Result<Stored, CredentialStoreError>)
        /// The store can save, or says why it can't.
        case storePrepared(CredentialStoreError?)
        /// The credential has been saved or deleted, or could not be.
        case storeChanged(CredentialStoreError?)
        case tokensRefreshed(JobID, Result<TokenAnswer, CredentialFailure>)
        case revocationEnded
    }

    /// Work that the manager has to do.
    enum Action: Sendable {
        case acquireLock(JobID, within: Duration)
        case releaseLock(JobID)
        case readStore
        case prepareToSave
        /// `verified`: reads it back as well, whatever the store has done about that itself.
        case save(Credential, verified: Bool)
        case delete
        case refresh(JobID, Secret, because: RenewalReason)
        /// In the background; ends in ``Input/revocationEnded``.
        case revoke(Credential)
        case answer(Waiter, Result<Answer, CredentialFailure>)
        /// Reports ``Input/patienceEnded(_:)`` after that time, unless the waiter is answered before.
        case startPatience(Waiter, Duration)
        /// Keeps the tombstone for other processes and later ones; `nil` removes it.
        case keepTombstone(Tombstone?)
    }
}

/// A sign-out that outlives the process, because the store did not carry it out in time.
struct Tombstone: Sendable {
    /// When the user signed out, by the wall clock.
    let at: Date
    /// Whether the server is to be told; `false` where the credential lives on elsewhere after an export.
    let revokes: Bool
    /// The accounts that were signed out; empty when the store could not be read either.
    private(set) var accounts: [ChappieAccountInfo] = []

    init(at: Date, revokes: Bool, _ credentials: [Credential]) {
        self.at = at
        self.revokes = revokes
        for credential in credentials { add(credential) }
    }

    mutating func add(_ credential: Credential) {
        accounts.append(ChappieAccountInfo(userID: credential.info.userID, accountID: credential.info.accountID))
    }

    /// Whether `stored` is the credential that the user wanted gone, and not a later sign-in.
    func means(_ stored: Credential) -> Bool {
        guard accounts.isEmpty else { return accounts.contains { $0.isSameAccount(as: stored.info) } }
        return stored.lastRefresh.map { $0 <= at } ?? true
    }

    /// `nil` for a document that is none: it then means nothing.
    init?(serialized document: [UInt8]) {
        guard let json = try? ChappieJSON(parsing: document),
            let at = json["signed_out_at"]?.string.flatMap(HTTPDate.rfc3339)
        else { return nil }
        self.at = at
        revokes = json["revokes"]?.bool ?? true
        accounts = (json["accounts"]?.array ?? []).map {
            ChappieAccountInfo(userID: $0["user_id"]?.string, accountID: $0["account_id"]?.string)
        }
    }

    func serialized() -> [UInt8] {
        let accounts = accounts.map { account -> ChappieJSON in
            var members = ChappieJSONObject()
            members["account_id"] = account.accountID.map { .string($0) }
            members["user_id"] = account.userID.map { .string($0) }
            return .object(members)
        }
        // The next whole second: a sign-in of the same second counts as earlier.
        let at = at.addingTimeInterval(1).ISO8601Format()
        let members: [(String, ChappieJSON)] = [
            ("signed_out_at", .string(at)), ("revokes", .bool(revokes)), ("accounts", .array(accounts)),
        ]
        return ChappieJSON.object(ChappieJSONObject(members)).serializedBytes()
    }
}

/// The manager publishes this state of the slot's credential to every watcher.
struct CredentialSnapshot: Sendable, Equatable {
    enum Status: Sendable, Hashable {
        /// The store has not been read yet.
        case unknown
        case signedOut
        case signedIn(ChappieAccountInfo, expiresAt: Date?)
        case reauthenticationRequired(ChappieAuthError)
        /// The store could not be read.
        case unavailable(CredentialStoreError)
    }

    var status = Status.unknown
    /// Grows with every change; a watcher that has seen a later one ignores an earlier one.
    var sequence = 0
    /// How often the user has signed out.
    var signOuts = 0

    /// Whether the credential that was in use at `earlier` is so no longer.
    func isLoss(after earlier: CredentialSnapshot) -> Bool {
        if signOuts != earlier.signOuts { return true }
        guard case .signedIn(let account, _) = earlier.status else { return false }
        switch status {
        case .signedIn(let new, _): return !new.isSameAccount(as: account)
        case .signedOut, .reauthenticationRequired: return true
        case .unknown, .unavailable: return false
        }
    }
}
