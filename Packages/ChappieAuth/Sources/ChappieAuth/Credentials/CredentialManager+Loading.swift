extension CredentialManager {
    /// The credential to work with; reads the store when there is none in memory.
    ///
    /// - Throws: ``CredentialFailure``; `CancellationError`.
    func current() async throws -> HeldCredential {
        if isSignOutPending {
            // The person has signed out: whatever the store says about that, nothing goes out under the old name.
            _ = await settleSignOut()
            throw CredentialFailure.missingCredential
        }
        if let held = heldNow { return held.isSaved ? held : try await saveAgain(held) }
        if case .mismatched(let failure) = phase { throw failure }
        if let loading { return try await loading.value() }
        let flight = Flight<HeldCredential>()
        loading = flight
        Task {
            let result: Result<HeldCredential, any Error>
            do { result = .success(try await load()) } catch { result = .failure(error) }
            loading = nil
            flight.land(result)
        }
        return try await flight.value()
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

    /// Saves a credential that the store did not take before.
    private func saveAgain(_ held: HeldCredential) async throws(CredentialFailure) -> HeldCredential {
        let result: Result<HeldCredential?, CredentialStoreError> = await withStore {
            guard let now = heldNow, now.generation == held.generation, !now.isSaved else { return .success(heldNow) }
            if let error = await save(held.credential) { return .failure(error) }
            markSaved(generation: held.generation)
            return .success(heldNow)
        }
        switch result {
        case .success(let now?): return now
        case .success(nil): throw .missingCredential
        case .failure(let error): throw .store(error)
        }
    }

    func markSaved(generation: Int) {
        guard case .held(var held) = phase, held.generation == generation else { return }
        held.isSaved = true
        phase = .held(held)
    }
}
