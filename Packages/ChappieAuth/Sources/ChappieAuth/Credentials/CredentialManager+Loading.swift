extension CredentialManager {
    /// The credential to work with; reads the store when there is none in memory.
    ///
    /// Whoever is cancelled stops waiting; the store's work goes on.
    ///
    /// - Throws: ``CredentialFailure``; `CancellationError`.
    func current() async throws -> HeldCredential {
        if let held = heldNow, held.isSaved { return held }
        if case .mismatched(let failure) = phase, !isSignOutPending { throw failure }
        if let loading { return try await loading.value() }
        let flight = Flight<HeldCredential>()
        loading = flight
        Task {
            let result: Result<HeldCredential, any Error>
            do { result = .success(try await catchUp()) } catch { result = .failure(error) }
            loading = nil
            flight.land(result)
        }
        return try await flight.value()
    }

    private func catchUp() async throws(CredentialFailure) -> HeldCredential {
        if isSignOutPending {
            // The person has signed out: whatever the store says about that, nothing goes out under the old name.
            _ = await settleSignOut()
            throw .missingCredential
        }
        if let held = heldNow { return held.isSaved ? held : try await saveAgain(held) }
        return try await load()
    }

    private func load() async throws(CredentialFailure) -> HeldCredential {
        let epoch = board.epoch
        let stored = await withStore { await readStore() }
        guard board.epoch == epoch else { throw .missingCredential }
        // A sign-in may have finished while this waited for its turn.
        if let held = heldNow { return held }
        switch (stored, phase) {
        case (.failure(let error), _):
            board.publish(.unavailable(error), in: epoch)
            throw .store(error)
        case (.success(nil), .rejected(_, let failure)): throw failure
        case (.success(nil), _):
            phase = .absent
            board.publish(.signedOut, in: epoch)
            throw .missingCredential
        case (.success(let credential?), .rejected(let rejected?, let failure))
        where credential.hasSameTokens(as: rejected):
            throw failure
        case (.success(let credential?), _): return hold(credential, isSaved: true, epoch: epoch)
        }
    }

    /// Saves a credential that the store did not take before, unless the slot has changed hands since.
    private func saveAgain(_ held: HeldCredential) async throws(CredentialFailure) -> HeldCredential {
        let lock = await lockForChange()
        defer { withExtendedLifetime(lock) {} }
        let result: Result<HeldCredential, CredentialFailure> = await withStore {
            guard let now = heldNow else { return .failure(.missingCredential) }
            guard now.generation == held.generation, !now.isSaved else { return .success(now) }
            switch await readStore() {
            case .failure(let error): return .failure(.store(error))
            case .success(let stored):
                guard heldNow?.generation == held.generation else { return .failure(.missingCredential) }
                if let other = yield(held, to: stored) { return other }
            }
            if let error = await save(held.credential) { return .failure(.store(error)) }
            markSaved(generation: held.generation)
            return heldNow.map { .success($0) } ?? .failure(.missingCredential)
        }
        return try result.get()
    }

    /// What becomes of tokens that the store does not have yet, when it now holds `stored`; `nil` when they are to be
    /// saved, because it still holds what they replace.
    ///
    /// Who has signed out or in meanwhile has the later word: the tokens are given up then.
    func yield(_ held: HeldCredential, to stored: Credential?) -> Result<HeldCredential, CredentialFailure>? {
        guard let stored else {
            phase = .absent
            board.publish(.signedOut, in: held.epoch)
            revokeInBackground(held.credential)
            return .failure(.missingCredential)
        }
        // A save that was given up may have been carried out all the same.
        if stored.hasSameTokens(as: held.credential) {
            markSaved(generation: held.generation)
            return heldNow.map { .success($0) }
        }
        if let replaced = held.replaces, stored.hasSameTokens(as: replaced) { return nil }
        revokeInBackground(held.credential)
        guard stored.info.isSameAccount(as: held.credential.info) else { return .failure(mismatch(in: held.epoch)) }
        return .success(hold(stored, isSaved: true, epoch: held.epoch))
    }

    func markSaved(generation: Int) {
        guard case .held(var held) = phase, held.generation == generation else { return }
        held.isSaved = true
        held.replaces = nil
        phase = .held(held)
    }
}
