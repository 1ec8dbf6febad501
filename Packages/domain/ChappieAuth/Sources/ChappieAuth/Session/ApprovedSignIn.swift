import Synchronization

/// A sign-in that the user has approved, from the exchange of the code to the stored credential.
///
/// Cancelling the caller does not interrupt the exchange, because the server's answer may have the only copy of new
/// tokens. The tokens are then revoked. ``CredentialManager/settle(within:)`` waits for this, so that a program that
/// ends leaves no unknown tokens behind.
final class ApprovedSignIn: Sendable {
    private enum Phase {
        /// Next: `givenUp`, `saving`.
        case exchanging
        case givenUp
        case saving
    }

    private let manager: CredentialManager
    private let phase = Mutex(Phase.exchanging)

    init(_ manager: CredentialManager) { self.manager = manager }

    /// Exchanges the code and starts to use the credential.
    ///
    /// - Parameters:
    ///   - signOuts: The number of sign-outs when the sign-in began.
    ///   - onSaving: Called before the credential is used.
    /// - Throws: The errors of `exchange` and of ``CredentialManager/adopt(_:after:)``, and `CancellationError`.
    func run(
        after signOuts: Int, onSaving: @escaping @Sendable () async -> Void,
        _ exchange: @escaping @Sendable () async throws -> Credential
    ) async throws {
        let work = Task {
            let credential = try await exchange()
            guard begin() else {
                // A revocation may end another sign-in of the same user that is in use.
                if await manager.retainedCredential().map(credential.mayEnd) != true {
                    try? await manager.tokens.revoke(credential)
                }
                throw CancellationError()
            }
            await onSaving()
            try await manager.adopt(credential, after: signOuts)
        }
        manager.settleAfter(Task { _ = try? await work.value })
        try await withTaskCancellationHandler {
            try await work.value
        } onCancel: {
            // If the credential is already being stored, the manager handles the cancellation.
            if giveUp() { work.cancel() }
        }
    }

    /// Starts the saving phase, unless the caller was cancelled. Returns whether the credential may be stored.
    private func begin() -> Bool {
        phase.withLock { phase in
            guard phase == .exchanging else { return false }
            phase = .saving
            return true
        }
    }

    /// Gives up the exchange if it is still in progress. Returns whether the credential is already being stored.
    private func giveUp() -> Bool {
        phase.withLock { phase in
            if phase == .exchanging { phase = .givenUp }
            return phase == .saving
        }
    }
}
