@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieCrypto
import ChappieRuntime

/// The keys of one database in a credential store, with the current key at the start:
/// `{"version":1,"keys":["base64url", …]}`.
///
/// There is more than one key only while a rotation is under way.
struct ThreadKeys: Sendable {
    let store: any CredentialStore
    let slot: CredentialSlot

    /// Creates the keys of one database.
    ///
    /// - Parameter owner: the owner of the threads, or `nil` for a folder that the program named.
    init(of database: String, in store: any CredentialStore, owner: ThreadsOwner?) {
        self.store = store
        slot = owner?.keySlot(of: database) ?? CredentialSlot(account: "threads-\(database)")
    }

    /// Returns the sealers for the stored keys.
    ///
    /// - Throws: `locked`, or `wrongKey` if the key is missing.
    func load() async throws(StoreError) -> [RecordSealer] { try await sealers(in: secret()) }

    /// Returns whether the credential store has no key.
    ///
    /// - Throws: `locked` if it does not answer.
    func isMissing() async throws(StoreError) -> Bool {
        try await reached { () async throws(CredentialStoreError) in try await store.load(slot) } == nil
    }

    /// Returns the keys in their stored form.
    func secret() async throws(StoreError) -> Secret {
        let secret = try await reached { () async throws(CredentialStoreError) in try await store.load(slot) }
        guard let secret else {
            throw .wrongKey("their key, \(slot.account), is not in the credential store any more")
        }
        return secret
    }

    func sealers(in secret: Secret) async throws(StoreError) -> [RecordSealer] {
        let json = secret.withBytes { try? ChappieJSON(parsing: Array($0)) }
        if let version = json?["version"]?.int, version > 1 { throw .tooNew(found: version, known: 1) }
        var sealers: [RecordSealer] = []
        for text in json?["keys"]?.array ?? [] {
            guard let bytes = text.string.flatMap(Base64URL.decode), bytes.count == RecordSealer.keyCount else {
                throw .wrongKey("the entry \(slot.account) of the keyring is not a key")
            }
            sealers.append(try await reached { () throws(CredentialStoreError) in try RecordSealer(Secret(bytes)) })
        }
        guard !sealers.isEmpty else { throw .wrongKey("the entry \(slot.account) of the keyring is not a key") }
        return sealers
    }

    func save(_ sealers: [RecordSealer]) async throws(StoreError) {
        let keys = sealers.map { sealer in ChappieJSON.string(sealer.key.withBytes { Base64URL.encode($0) }) }
        let secret = Secret((["version": 1, "keys": .array(keys)] as ChappieJSON).serialized())
        try await reached { () async throws(CredentialStoreError) in try await store.save(secret, in: slot) }
    }

    func delete() async { try? await store.delete(slot) }

    static func newSealer() throws(StoreError) -> RecordSealer {
        do throws(CredentialStoreError) {
            return try RecordSealer()
        } catch {
            throw .unavailable(error.errorDescription ?? "the crypto library failed")
        }
    }

    /// Runs `body`, and reports a failure to reach the key with the store's message.
    private func reached<Output>(
        _ body: () async throws(CredentialStoreError) -> Output
    ) async throws(StoreError) -> Output {
        do throws(CredentialStoreError) {
            return try await body()
        } catch {
            if case .unsafeFile(let reason, let remedy) = error { throw .unsafeFile(reason, remedy: remedy) }
            if case .tooNew(_, let found, let known) = error { throw .tooNew(found: found, known: known) }
            let words = error.errorDescription ?? "the keyring failed"
            throw .locked(words.hasSuffix(".") ? String(words.dropLast()) : words)
        }
    }
}

/// The keys of threads that have a running turn.
struct KeysOfOpenTurns {
    private var threads: [String: (turns: Set<String>, sealers: [RecordSealer])] = [:]

    func sealers(for thread: String) -> [RecordSealer]? { threads[thread]?.sealers }

    /// Follows records of a thread that were stored with these keys.
    ///
    /// - Returns: the turns that began with them and have not ended.
    mutating func follow(
        _ records: [ChappieThreadRecord], of thread: String, _ sealers: [RecordSealer]
    ) -> Set<String> {
        let earlier = threads[thread]?.turns ?? []
        var turns = earlier
        for record in records {
            guard let turn = record.turnID else { continue }
            switch record.kind {
            case .turnStarted, .turnResumed: turns.insert(turn)
            case .turnFinished, .turnFailed, .turnInterrupted, .approvalPending: turns.remove(turn)
            default: continue
            }
        }
        threads[thread] = turns.isEmpty ? nil : (turns, sealers)
        return turns.subtracting(earlier)
    }

    mutating func close(_ turns: [String], in thread: String) {
        guard let sealers = threads[thread]?.sealers, let open = threads[thread]?.turns.subtracting(turns) else {
            return
        }
        threads[thread] = open.isEmpty ? nil : (open, sealers)
    }

    mutating func close(_ thread: String) { threads[thread] = nil }
}
