@_spi(ChappieInternals) public import ChappieAuth
public import ChappieCore

/// A store that keeps credentials in the keychain of an Apple device, with a generic password for each slot in the data
/// protection keychain.
///
/// ```swift
/// let store = KeychainCredentialStore()
/// try await store.save(Secret(json), in: CredentialSlot(account: "work"))
/// ```
///
/// An item never leaves its device. It is not synchronized by iCloud, and a backup does not transfer it to another
/// device. It may remain after its program has been removed. Programs share it if they have its access group. Each save
/// gives the item the store's accessibility. With ``ChappieKeychainAccessibility/whenUnlockedThisDeviceOnly`` the
/// system also refuses to *store* while the device is locked. ``prepareToSave(in:)`` detects this before a refresh
/// token is used up.
///
/// The system's calls block, so they run on the store's own thread, one after the other. A call whose task is cancelled
/// throws ``CredentialStoreError/failed(_:)`` at once.
///
/// The lock and the notes are items next to the credential, in the same access group, so exactly the programs that share
/// the credential reach them. The lock is a lease: it ends by itself 75 seconds after its holder was last seen. A holder
/// that was suspended for longer gets ``CredentialStoreError/overtaken`` and changes nothing.
///
/// A Mac's data protection keychain is available to programs that are signed with an application identifier. A program
/// that was started with `swift run` or is signed ad hoc has none. It keeps its credential in an encrypted file
/// (`ChappieCredentialStorage.encryptedFile(passphrase:)` of ChappieSDK).
/// <https://developer.apple.com/documentation/technotes/tn3137-on-mac-keychains>
public struct KeychainCredentialStore: SharedCredentialStore {
    /// The maximum size of a secret, in bytes.
    static let limit = 1 << 20

    /// The lock of the credentials in the keychain.
    public var lock: any CredentialLock { leases }
    /// The notes that the programs share.
    public let notes: any CredentialNotes

    private let accessibility: ChappieKeychainAccessibility
    private let deadline: Duration
    private let calls: SecItemCalls
    private let worker: StoreWorker
    private let leases: KeychainLeases

    /// Creates a store that uses these calls, for tests. On Apple's platforms, `init(accessibility:deadline:)` uses
    /// the system's calls.
    ///
    /// - Parameters:
    ///   - accessibility: The condition for reading a credential. The default is
    ///     ``ChappieKeychainAccessibility/whenUnlockedThisDeviceOnly``.
    ///   - deadline: The limit for all steps of a call together. Must be positive. The default is 10 seconds.
    ///   - notes: The notes of the programs that share the credential. The default is items of the keychain. Files in the
    ///     folder of an app group take less time before each request.
    ///   - clock: The clock of the leases.
    ///   - calls: The keychain.
    public init(
        accessibility: ChappieKeychainAccessibility = .whenUnlockedThisDeviceOnly,
        deadline: Duration = .seconds(10), notes: (any CredentialNotes)? = nil,
        clock: any ChappieClock = SystemClock(), calls: SecItemCalls
    ) {
        precondition(deadline > .zero, "A keychain call needs a deadline above zero.")
        self.accessibility = accessibility
        self.deadline = deadline
        self.calls = calls
        self.notes = notes ?? KeychainNotes(calls: calls)
        worker = StoreWorker(label: "chappie.keychain")
        leases = KeychainLeases(calls: calls, worker: worker, deadline: deadline, clock: clock)
    }

    /// Returns the secret in `slot`, or `nil` if the keychain has no item for it.
    ///
    /// - Throws: `absent`, `locked`, `denied`, `timedOut`, `corrupt` or `failed`.
    public func load(_ slot: CredentialSlot) async throws(CredentialStoreError) -> Secret? {
        let query = try KeychainQuery(slot)
        return try await worker.perform(within: deadline) { _ throws(CredentialStoreError) in try value(of: query) }
    }

    /// Checks that a save can succeed: the keychain answers, and the system lets the program store an existing item.
    /// Gives that item the store's accessibility and leaves its secret unchanged.
    ///
    /// - Throws: `absent`, `locked`, `denied`, `timedOut`, `overtaken` or `failed`.
    public func prepareToSave(in slot: CredentialSlot) async throws(CredentialStoreError) {
        let query = try KeychainQuery(slot)
        let attributes = attributes(of: slot, value: nil)
        try await worker.perform(within: deadline) { _ throws(CredentialStoreError) in
            try leases.extend(slot)
            try calls.update(query, attributes).check(query, accessibility, allowing: [.itemNotFound, .decode])
        }
    }

    /// Replaces the secret in `slot`, which may have at most 1 MiB, and reads it back. Also replaces a corrupt item.
    ///
    /// - Throws: `absent`, `locked`, `denied`, `timedOut`, `notVerified`, `overtaken` or `failed`. After `timedOut` and after a
    ///   cancellation, the system may still execute a call that has begun.
    public func save(_ secret: Secret, in slot: CredentialSlot) async throws(CredentialStoreError) {
        let query = try KeychainQuery(slot)
        guard secret.count <= Self.limit else {
            throw .failed("a secret of \(secret.count) bytes is longer than the limit of \(Self.limit) bytes")
        }
        let attributes = attributes(of: slot, value: secret)
        try await worker.perform(within: deadline) { _ throws(CredentialStoreError) in
            try leases.extend(slot)
            try calls.write(attributes, to: query).check(query, accessibility)
            guard try value(of: query) == secret else { throw .notVerified }
        }
    }

    /// Removes the secret in `slot`. An empty slot is not an error.
    ///
    /// - Throws: `absent`, `locked`, `denied`, `timedOut`, `overtaken` or `failed`.
    public func delete(_ slot: CredentialSlot) async throws(CredentialStoreError) {
        let query = try KeychainQuery(slot)
        try await worker.perform(within: deadline) { _ throws(CredentialStoreError) in
            try leases.extend(slot)
            try calls.delete(query).check(query, accessibility, allowing: [.itemNotFound])
        }
    }

    /// Returns a stream with an element each time the device has been unlocked.
    public func unlocks() -> AsyncStream<Void> { calls.unlocks() }

    // MARK: Steps, which block

    /// Returns the secret of an item. Its bytes may come from another program of the access group.
    private func value(of query: KeychainQuery) throws(CredentialStoreError) -> Secret? {
        let (status, value) = calls.copyMatching(query)
        guard status != .itemNotFound else { return nil }
        try status.check(query, accessibility)
        guard let value else { throw .corrupt("the keychain's item for it has no value") }
        guard value.count <= Self.limit else { throw .corrupt("the keychain's item is larger than any credential") }
        return value
    }

    private func attributes(of slot: CredentialSlot, value: Secret?) -> KeychainAttributes {
        KeychainAttributes(label: slot.label, accessibility: accessibility, value: value)
    }
}
