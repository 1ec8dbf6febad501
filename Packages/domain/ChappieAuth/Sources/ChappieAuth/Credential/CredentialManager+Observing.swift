import ChappieCore

/// The reports of a credential to the observer.
extension CredentialManager {
    /// Acquires the lock, and reports how long that took.
    func acquireLock(within limit: Duration) async -> Result<CredentialLockHold, CredentialStoreError> {
        guard let observer else { return await stored.acquireLock(within: limit) }
        let start = clock.elapsed
        let result = await stored.acquireLock(within: limit)
        let isHeld = if case .success = result { true } else { false }
        observer.happened(.lockAwaited(clock.elapsed - start, isHeld: isHeld))
        return result
    }

    /// Returns the failure of a change, after the report that another machine has taken it over.
    func observed(_ failure: CredentialStoreError?) -> CredentialStoreError? {
        if failure == .overtaken { observer?.happened(.credentialOvertaken) }
        return failure
    }
}

extension CredentialLifecycle.RenewalReason {
    var observed: ChappieRenewalReason {
        switch self {
        case .due: .due
        case .ended: .ended
        case .refused: .refused
        case .asked: .asked
        case .exported: .exported
        }
    }
}

extension ChappieGrant {
    var observed: ChappieObservedGrant {
        switch self {
        case .deviceCode: .device
        case .browser, .continueWithChatGPT: .browser
        case .accessToken: .accessToken
        }
    }
}
