public import ChappieAuth
import Synchronization

/// A ``SharedCredentialStore`` in memory, with failures and waits on demand.
///
/// ```swift
/// let store = InMemoryCredentialStore()
/// store.fail(.save, with: .locked("the login keyring is locked"), times: 1)
/// ```
public final class InMemoryCredentialStore: SharedCredentialStore {
    /// A call of a store.
    public enum Operation: String, Sendable, Hashable { case load, prepareToSave, save, delete }

    private struct State {
        var secrets: [CredentialSlot: Secret]
        var failures: [Operation: (error: CredentialStoreError, times: Int)] = [:]
        var gates: [Operation: ScriptedGate] = [:]
        var calls: [Operation] = []
    }

    /// The lock from the initializer.
    public let lock: any CredentialLock
    /// The notes from the initializer.
    public let notes: any CredentialNotes
    private let state: Mutex<State>

    /// Creates a store that holds these secrets.
    ///
    /// - Parameters:
    ///   - secrets: The stored secrets. Default: none.
    ///   - lock: The lock, which also keeps the notes. Default: one that locks nothing and keeps no notes.
    public init(
        _ secrets: [CredentialSlot: Secret] = [:], lock: any CredentialLock & CredentialNotes = NoCredentialLock()
    ) {
        self.lock = lock
        notes = lock
        state = Mutex(State(secrets: secrets))
    }

    /// The secret stored in `slot`, regardless of failures and waits. Setting it is what another process would do.
    public subscript(slot: CredentialSlot) -> Secret? {
        get { state.withLock { $0.secrets[slot] } }
        set { state.withLock { $0.secrets[slot] = newValue } }
    }

    /// Every call so far, including those that failed or are waiting.
    public var calls: [Operation] { state.withLock(\.calls) }

    /// Makes the next `times` calls of `operation` fail without a change. Zero ends the failures.
    public func fail(_ operation: Operation, with error: CredentialStoreError, times: Int = .max) {
        state.withLock { $0.failures[operation] = times > 0 ? (error, times) : nil }
    }

    /// Makes the next call of `operation` wait until `gate` opens. A cancelled caller also waits, because a store whose
    /// answer hangs in a system call can't be cancelled either.
    public func wait(at gate: ScriptedGate, before operation: Operation) {
        state.withLock { $0.gates[operation] = gate }
    }

    /// Returns the secret in `slot`.
    public func load(_ slot: CredentialSlot) async throws(CredentialStoreError) -> Secret? {
        try await begin(.load)
        return self[slot]
    }

    /// Fails and waits on demand, and does nothing else.
    public func prepareToSave(in slot: CredentialSlot) async throws(CredentialStoreError) {
        try await begin(.prepareToSave)
    }

    /// Replaces the secret in `slot`.
    public func save(_ secret: Secret, in slot: CredentialSlot) async throws(CredentialStoreError) {
        try await begin(.save)
        self[slot] = secret
    }

    /// Empties `slot`.
    public func delete(_ slot: CredentialSlot) async throws(CredentialStoreError) {
        try await begin(.delete)
        self[slot] = nil
    }

    private func begin(_ operation: Operation) async throws(CredentialStoreError) {
        let gate = state.withLock { state in
            state.calls.append(operation)
            return state.gates.removeValue(forKey: operation)
        }
        if let gate { await Task { try? await gate.pass() }.value }
        let error = state.withLock { state -> CredentialStoreError? in
            guard let failure = state.failures[operation] else { return nil }
            state.failures[operation] = failure.times > 1 ? (failure.error, failure.times - 1) : nil
            return failure.error
        }
        if let error { throw error }
    }
}
