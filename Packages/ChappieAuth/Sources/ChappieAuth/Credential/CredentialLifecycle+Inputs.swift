@_spi(ChappieInternals) import ChappieCore

// The state machine's inputs, its actions, and the values in both.
extension CredentialLifecycle {
    /// Identifies a caller that waits for an answer.
    typealias Waiter = Int
    /// Identifies a job, so that a result finds its way back.
    typealias JobID = Int

    /// When an input arrived.
    struct Moment: Sendable {
        /// By the wall clock, which token expiry is measured with.
        let now: Date
        /// By the clock that can't be set, which waiting is measured with.
        let elapsed: Duration
    }

    /// A credential in use.
    struct Held: Sendable {
        var credential: Credential
        /// Grows with every change of tokens, so that a late 401 is only held against the token that it was about.
        let generation: Int
        /// Whether the store has it too. It is not used before.
        var isSaved: Bool
        /// The store's content when these tokens came, until they are saved: only that is overwritten later.
        var replaces: Credential?
    }

    /// The content of the store, and the tombstone beside it.
    struct Stored: Sendable {
        var credential: Credential?
        var tombstone: Tombstone?
    }

    /// A good answer for a waiter.
    struct Answer: Sendable {
        var held: Held?
        /// Whether the tokens have just come from the server.
        var isFromServer = false
    }

    /// An event that the machine is told of.
    enum Input: Sendable {
        case requestNeedsToken(Waiter)
        case accountAsked(Waiter)
        case refreshAsked(Waiter)
        case exportAsked(Waiter)
        /// The backend answered a request with this token with 401.
        case tokenRefused(generation: Int, Waiter)
        /// It did so even though the token was fresh.
        case freshTokenRefused(generation: Int, reason: String)
        case tokenAccepted(generation: Int)
        /// The waiter's request goes out with the old token instead of waiting longer for a new one.
        case patienceEnded(Waiter)
        case signedOut(revoking: Bool, Waiter)
        /// The caller of the sign-out goes on before the store has carried it out.
        case signOutOutlasted
        /// The tombstone can be read back: once it is gone, another process has deleted the credential or signed in.
        case tombstoneKept
        /// `after` counts the sign-outs at the start of the sign-in: a later one wins. `nil` for an import, which begins now.
        case signInCompleted(Credential, after: Int?, Waiter)
        case signInCancelled(Waiter)
        case settlingAsked(Waiter)
        case lockAnswered(JobID, CredentialStoreError?)
        case storeRead(JobID, Result<Stored, CredentialStoreError>)
        case storeSaved(JobID, CredentialStoreError?)
        case storeDeleted(JobID, CredentialStoreError?)
        case tokensRefreshed(JobID, Result<TokenAnswer, CredentialFailure>)
        case revocationEnded
    }

    /// Work that the manager has to do.
    enum Action: Sendable {
        case acquireLock(JobID, within: Duration)
        case releaseLock(JobID)
        case readStore(JobID)
        /// `verified`: reads it back as well, whatever the store has done about that itself.
        case save(JobID, Credential, verified: Bool)
        case delete(JobID)
        case refresh(JobID, Secret)
        /// In the background; ends in ``Input/revocationEnded``.
        case revoke(Credential)
        case answer(Waiter, Result<Answer, CredentialFailure>)
        /// The sign-out has been tried in the store. The credentials are revoked in any case, which ends in one
        /// ``Input/revocationEnded`` if there are any.
        case answerSignOut(Waiter, CredentialStoreError?, revoke: [Credential])
        /// Reports ``Input/patienceEnded(_:)`` after that time, unless the waiter is answered before.
        case startPatience(Waiter, Duration)
        case writeTombstone(Tombstone)
        case removeTombstone
    }
}

/// A sign-out that outlives the process, because the store did not carry it out in time.
struct Tombstone: Sendable {
    /// When the user signed out, by the wall clock.
    let at: Date
    /// Whether the server is to be told; `false` where the credential lives on elsewhere after an export.
    let revokes: Bool
    /// The accounts that were signed out; empty when the store could not be read either.
    let accounts: [ChappieAccountInfo]

    init(at: Date, revokes: Bool, _ credentials: [Credential]) {
        self.at = at
        self.revokes = revokes
        accounts = credentials.map { ChappieAccountInfo(userID: $0.info.userID, accountID: $0.info.accountID) }
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

/// The state of the slot's credential, for every watcher.
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
