/// A credential store with its own lock and notes for its credentials.
///
/// A refresh token works once. If two processes send the same one, the service may end the sign-in. A place that
/// several machines can reach therefore needs a lock that all of them can reach as well, such as a row of the same
/// database. A store for such a place conforms to this protocol. Sessions, clients and the sign-ins of tool servers use
/// only its lock and its notes.
///
/// ```swift
/// struct Rows: SharedCredentialStore {
///     let database: Database
///     var lock: any CredentialLock { RowLock(database) }
///     var notes: any CredentialNotes { RowNotes(database) }
///     func load(_ slot: CredentialSlot) async throws(CredentialStoreError) -> Secret? { … }
///     func save(_ secret: Secret, in slot: CredentialSlot) async throws(CredentialStoreError) { … }
///     func delete(_ slot: CredentialSlot) async throws(CredentialStoreError) { … }
/// }
/// ```
/// A store that wraps another one must also conform, and must return the lock and the notes of the store that it wraps.
/// Otherwise the wrapped store's lock is not used.
///
/// If a hold of the lock can end before it is released, as with a lease, the store must refuse the late holder. In that
/// case, `prepareToSave`, `save` and `delete` throw ``CredentialStoreError/overtaken``.
public protocol SharedCredentialStore: CredentialStore {
    /// The lock that lets only one process of all machines at a time change a slot's credential.
    var lock: any CredentialLock { get }

    /// The notes that all processes of all machines share.
    var notes: any CredentialNotes { get }
}

/// A plain store for the processes of one machine, with that machine's lock and notes.
///
/// A store that conforms to ``SharedCredentialStore`` needs no such wrapper.
public struct LocalCredentialStore: SharedCredentialStore {
    /// The machine's lock.
    public let lock: any CredentialLock
    /// The machine's notes.
    public let notes: any CredentialNotes
    private let store: any CredentialStore

    /// Creates a store that keeps its secrets in `store`.
    ///
    /// - Parameters:
    ///   - store: A store that has no lock.
    ///   - lock: `FileCredentialLock` of ChappieFiles, or ``NoCredentialLock`` for a store that no other process can see.
    public init(_ store: any CredentialStore, lock: any CredentialLock & CredentialNotes) {
        self.store = store
        self.lock = lock
        notes = lock
    }

    /// Returns the secret in `slot`.
    public func load(_ slot: CredentialSlot) async throws(CredentialStoreError) -> Secret? {
        try await store.load(slot)
    }

    /// Returns the secret in `slot` to a caller that is about to delete it.
    public func loadForDeletion(_ slot: CredentialSlot) async throws(CredentialStoreError) -> Secret? {
        try await store.loadForDeletion(slot)
    }

    /// Checks whether the store can save.
    public func prepareToSave(in slot: CredentialSlot) async throws(CredentialStoreError) {
        try await store.prepareToSave(in: slot)
    }

    /// Replaces the secret in `slot`.
    public func save(_ secret: Secret, in slot: CredentialSlot) async throws(CredentialStoreError) {
        try await store.save(secret, in: slot)
    }

    /// Removes the secret in `slot`.
    public func delete(_ slot: CredentialSlot) async throws(CredentialStoreError) { try await store.delete(slot) }

    /// Returns the stream of the store.
    public func unlocks() -> AsyncStream<Void> { store.unlocks() }
}
