import Synchronization

/// A sign-in whose user has approved, from the exchange of the code to the stored credential.
///
/// A caller that is cancelled does not interrupt the exchange: the server's answer may have the only copy of new tokens.
/// They are revoked then. ``CredentialManager/settle(within:)`` waits for it, so that a program that ends leaves no tokens
/// behind that nobody knows.
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

    /// Exchanges the code and takes the credential into use.
    ///
    /// - Parameters:
    ///   - signOuts: The number of sign-outs when the sign-in began.
    ///   - onSaving: Called before the credential is taken into use.
    /// - Throws: The errors of `exchange` and of ``CredentialManager/adopt(_:after:)``. `CancellationError`.
    func run(
        after signOuts: Int, onSaving: @escaping @Sendable () async -> Void,
        _ exchange: @escaping @Sendable () async throws -> Credential
    ) async throws {
        let work = Task {
            let credential = try await exchange()
            guard begin() else {
                // A revocation may end another sign-in of the same user, which is in use.
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
            // A credential that is being stored is given back by the manager.
            if giveUp() { work.cancel() }
        }
    }

    /// - Returns: Whether the credential may be stored.
    private func begin() -> Bool {
        phase.withLock { phase in
            guard phase == .exchanging else { return false }
            phase = .saving
            return true
        }
    }

    /// - Returns: Whether the credential is being stored already.
    private func giveUp() -> Bool {
        phase.withLock { phase in
            if phase == .exchanging { phase = .givenUp }
            return phase == .saving
        }
    }
}
