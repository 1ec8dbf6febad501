@_spi(ChappieInternals) import ChappieCore

/// A renewal of the credential of one generation, queued or in progress.
///
/// A refresh token works once. Before the server is asked, the store is read and must be able to save. Before a refresh
/// token counts as invalid, the store is read once more. New tokens are used only after they have been saved, and are
/// never discarded because a store fails. A refused renewal deletes nothing. The stored credential loses its refresh
/// token and keeps the reason.
struct RenewalJob: Sendable {
    enum State: Sendable {
        /// Other jobs come first, or another process has the lock.
        case waiting
        /// The store is read, because another process may have renewed the credential.
        case reading
        /// The store is asked whether it can save, before the refresh token is used up.
        case preparing
        /// The server has been asked.
        case asking
        /// The lock was held for so long that the store is read before the new tokens are saved.
        case checking
        case saving
        /// The store is read once more, because the server no longer accepts the refresh token.
        case doubting(ChappieAuthError)
        /// The credential is saved without its refresh token.
        case marking(ChappieAuthError)
    }

    /// The states that may follow each state. They are drawn in docs/STATES.md.
    private static let next = [
        "waiting": ["reading"],
        "reading": ["preparing", "saving", "marking"],
        "preparing": ["asking", "waiting"],
        "asking": ["saving", "checking", "doubting", "marking"],
        "checking": ["saving", "preparing", "marking"],
        "saving": ["waiting"],
        "doubting": ["marking"],
    ]

    typealias Ending = Result<Void, ChappieAuthError>
    typealias Held = CredentialLifecycle.Held

    let generation: Int
    /// The need of the first waiter, which decides which tokens are sufficient.
    let need: CredentialLifecycle.Need
    /// The callers that wait for the renewal. `isEarly` is whether the request is sent with the current token if the
    /// renewal fails or takes long.
    var waiters: [(waiter: CredentialLifecycle.Waiter, need: CredentialLifecycle.Need, isEarly: Bool)] = []
    var state = State.waiting { didSet { assert(isDrawn(oldValue, state, in: Self.next)) } }

    init(of held: Held, _ need: CredentialLifecycle.Need) {
        generation = held.generation
        self.need = need
    }

    /// Whether the renewal is for a request whose access token the backend has refused.
    private var isForRefusal: Bool { if case .replacement = need { true } else { false } }

    /// Takes an input of the job in progress. Returns the result at the end of the job.
    mutating func handle(_ input: CredentialLifecycle.Input, in slot: inout SlotState) -> Ending? {
        switch (state, input) {
        case (.waiting, .lockAnswered(_, let error)):
            if let error { return .failure(.credentialStoreUnavailable(error)) }
            return read(.reading, in: &slot)
        case (.doubting(let failure), .storeRead(let result, _)):
            return doubted(failure, try? result.get().credentialInForce, in: &slot)
        case (_, .storeRead(let result, _)): return compare(result.map(\.credentialInForce), in: &slot)
        case (_, .storePrepared(let error)): return prepared(error, in: &slot)
        case (_, .tokensRefreshed(_, let result)): return refreshed(result, in: &slot)
        // This is best effort. This process knows that the refresh token is no longer valid, and other processes will
        // find out.
        case (.marking(let failure), .storeChanged): return .failure(failure)
        case (_, .storeChanged(let error)):
            if let error { return .failure(.credentialStoreUnavailable(error)) }
            slot.changeHeld { $0.replaces = nil }
            return .success(())
        default: return nil
        }
    }

    // MARK: The store

    private mutating func read(_ state: State, in slot: inout SlotState) -> Ending? {
        self.state = state
        slot.actions.append(.readStore(isDeleted: false))
        return nil
    }

    private mutating func save(
        _ credential: Credential, _ state: State = .saving, in slot: inout SlotState
    ) -> Ending? {
        self.state = state
        slot.actions.append(.save(credential, verified: false))
        return nil
    }

    /// Compares the credential in use with the store. Another process may have renewed it, and a sign-out or sign-in
    /// that happened since then wins. Tokens that are not stored yet are saved if the store still has the credential
    /// that they replace.
    private mutating func compare(
        _ stored: Result<Credential?, CredentialStoreError>, in slot: inout SlotState
    ) -> Ending? {
        guard let held = slot.held else { return .failure(.missingCredential) }
        switch stored {
        case .failure(let error):
            if case .checking = state { return save(held.credential, in: &slot) }
            return .failure(.credentialStoreUnavailable(error))
        // A save that was abandoned may have been carried out anyway.
        case .success(let stored?) where stored.hasSameTokens(as: held.credential):
            slot.changeHeld { $0.replaces = nil }
            return askIfNeeded(in: &slot)
        case .success(let stored?) where held.replaces.map(stored.hasSameTokens) ?? false:
            return save(held.credential, in: &slot)
        case .success(let stored):
            if held.replaces != nil, stored.map(held.credential.mayEnd) != true { slot.revoke(held.credential) }
            guard let stored else {
                slot.phase = .absent()
                return .failure(.missingCredential)
            }
            if let failure = slot.take(stored, insteadOf: held) { return .failure(failure) }
            return askIfNeeded(in: &slot)
        }
    }

    /// Gives up the refresh token, unless the store has a newer one. In that case another process was faster, and its
    /// credential is used.
    private mutating func doubted(
        _ failure: ChappieAuthError, _ stored: Credential?, in slot: inout SlotState
    ) -> Ending? {
        guard let held = slot.held else { return .failure(.missingCredential) }
        guard let stored, stored.refreshToken != held.credential.refreshToken else {
            let reason = failure.issuerError?.reason ?? failure.errorDescription ?? ""
            let rest = held.credential.unrenewable(because: reason, refused: isForRefusal)
            return lose(held, leaving: rest, failure, isStored: stored != nil, in: &slot)
        }
        if let failure = slot.take(stored, insteadOf: held) { return .failure(failure) }
        // If there is no refresh token, another process has also learned of the refusal.
        guard stored.refreshToken != nil else { return askIfNeeded(in: &slot) }
        slot.actions.append(.renewalWasTakenOver(reason(for: held, at: slot.moment.now)))
        return .success(())
    }

    // MARK: The server

    /// Ends the renewal if the current tokens are sufficient. Otherwise asks the server, once the store can save the
    /// answer.
    private mutating func askIfNeeded(in slot: inout SlotState) -> Ending? {
        guard let held = slot.held else { return .failure(.missingCredential) }
        let isFresh = held.credential.freshness(at: slot.moment.now) == .fresh
        let isOther = held.generation != generation
        let isEnough =
            switch need {
            case .account, .reload: true
            case .token: isOther && isFresh
            case .replacement: isOther
            case .refresh: false
            case .export: isFresh
            }
        if isEnough {
            if isOther { slot.actions.append(.renewalWasTakenOver(reason(for: held, at: slot.moment.now))) }
            return .success(())
        }
        guard held.credential.refreshToken != nil else { return cannotRenew(held, in: &slot) }
        // The server would consider an early renewal a misuse, and end the sign-in.
        if need == .refresh || isForRefusal, let date = held.credential.earliestRenewal(after: slot.moment.now) {
            let failure = ChappieAuthError.renewableLater(date)
            if isForRefusal { slot.changeHeld { $0.refusal = failure.errorDescription } }
            return .failure(failure)
        }
        state = .preparing
        slot.actions.append(.prepareToSave)
        return nil
    }

    private mutating func prepared(_ error: CredentialStoreError?, in slot: inout SlotState) -> Ending? {
        // The user may have signed out since then.
        guard let held = slot.held, let refreshToken = held.credential.refreshToken else {
            return .failure(.missingCredential)
        }
        // If the store can't save, the answer and the refresh token would be lost with this process.
        if let error { return .failure(.credentialStoreUnavailable(error)) }
        state = .asking
        slot.actions.append(
            .refresh(
                slot.lastJob, refreshToken, of: held.credential.issuedClientID,
                because: reason(for: held, at: slot.moment.now)))
        return nil
    }

    private func reason(for held: Held, at now: Date) -> CredentialLifecycle.RenewalReason {
        switch need {
        case .account, .token, .reload: held.credential.freshness(at: now) == .expired ? .ended : .due
        case .replacement: .refused
        case .refresh: .asked
        case .export: .exported
        }
    }

    private mutating func refreshed(
        _ result: Result<TokenResponse, ChappieAuthError>, in slot: inout SlotState
    ) -> Ending? {
        guard let held = slot.held else { return .failure(.missingCredential) }
        switch result {
        case .success(let answer) where !held.credential.isOwn(answer):
            let reason =
                "The service answered the renewal of your sign-in with another account's tokens. They are not used."
            let rest = held.credential.unrenewable(because: reason, refused: isForRefusal, aside: answer)
            return lose(held, leaving: rest, .reauthenticationRequired(reason), isStored: true, in: &slot)
        case .success(let answer):
            let new = held.credential.refreshed(with: answer, at: slot.moment.now)
            slot.hold(new, replacing: held.credential, isNew: true)
            // The tokens are saved immediately, because a crash before the save loses the sign-in. If the lock was held
            // for so long that another process may have signed out or in without it, this first reads the store.
            return slot.isLockOld ? read(.checking, in: &slot) : save(new, in: &slot)
        case .failure(let failure):
            guard let issuerError = failure.issuerError else { return .failure(failure) }
            if issuerError.endsTheGrant { return read(.doubting(failure), in: &slot) }
            guard issuerError.isRefusal else { return .failure(failure) }
            // The error code is unknown here, so the refresh token may be accepted again later.
            let refusal = ChappieAuthError.reauthenticationRequired(issuerError.reason)
            slot.changeHeld { held in
                held.renewalRefusal = refusal
                if isForRefusal { held.refusal = issuerError.reason }
            }
            return .failure(refusal)
        }
    }

    // MARK: Credentials that can't be renewed

    /// Ends a renewal of a credential that has no refresh token.
    private mutating func cannotRenew(_ held: Held, in slot: inout SlotState) -> Ending? {
        let isAsked = need == .refresh
        if held.credential.isAccessToken {
            // The token stays stored, because a refusal may come from a proxy on the way.
            let reason =
                isAsked
                ? "An access token can't be renewed."
                : "The access token has ended, or it was revoked. It can't be renewed."
            if !isAsked { slot.changeHeld { $0.refusal = reason } }
            return .failure(.reauthenticationRequired(reason + " Its owner can make a new one in ChatGPT."))
        }
        let failure = held.credential.ending
        if isAsked { return .failure(failure) }
        guard isForRefusal else { return lose(held, leaving: held.credential, failure, isStored: false, in: &slot) }
        let rest = held.credential.unrenewable(because: failure.errorDescription ?? "", refused: true)
        return lose(held, leaving: rest, failure, isStored: true, in: &slot)
    }

    /// Ends a renewal that failed permanently. The rest of the credential is first saved if it `isStored`.
    private mutating func lose(
        _ held: Held, leaving rest: Credential, _ failure: ChappieAuthError, isStored: Bool,
        in slot: inout SlotState
    ) -> Ending? {
        slot.lose(held, leaving: rest, failure)
        return isStored ? save(rest, .marking(failure), in: &slot) : .failure(failure)
    }
}
