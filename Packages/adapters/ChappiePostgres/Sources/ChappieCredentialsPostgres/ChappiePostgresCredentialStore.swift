@_spi(ChappieInternals) public import ChappieAuth
@_spi(ChappieInternals) package import ChappieCore
@_spi(ChappieInternals) public import ChappieCrypto
@_exported public import ChappiePostgres

/// A store that keeps the sign-ins of many users in a PostgreSQL database, for a service on many machines.
///
/// ```swift
/// let database = try ChappiePostgresDatabase(
///     connectionString: "postgresql://chat@db.example/chat?sslmode=verify-full")
/// let signIns = database.credentials(sealedWith: try .file("/run/credentials/chat.service/chappie-keys"))
/// let client = Chappie.client(configuration: configuration, store: .custom(signIns))
/// ```
/// This makes the service a keeper of its users' tokens. The SDK itself is for programs on the user's own machine and
/// does not do that. The operator answers for the keys, the database and its backups.
///
/// A credential is encrypted with the operator's key before it leaves the process (AES-256-GCM). The names of its slot
/// are not, so use the service's own user ids. Whoever may write the table can restore an older row, whose refresh token
/// is spent. The user then has to sign in again.
///
/// The lock of a credential is a lease in its row, which works through a pooler and survives a restart of the server. A
/// machine that stops while it renews a token delays the others for 20 seconds before its request, and for 75 seconds
/// after it. A request whose token has ended in the meantime fails as busy. A machine that continues after its lease has
/// ended can't overwrite what another one has stored. If it had sent its refresh token, that user must sign in again. The
/// same can happen if an asynchronous stand-by server takes over and has not received the last change.
///
/// Other machines see a sign-out within the interval of `credentials(sealedWith:changesWithin:)`.
/// If the database can't be reached, requests continue with the tokens in memory until these end.
///
/// Sign-ins of the plan route ("Continue with ChatGPT") are refused with
/// ``ChappieAuth/CredentialStoreError/unsafeFile(_:remedy:)``. They are for a program on its user's own machine.
public final class ChappiePostgresCredentialStore: SharedCredentialStore {
    private static let purpose = "chappie credential 1"

    private let rows: CredentialRows
    private let keys: ChappieSealingKeys
    private let leases: RowLeases
    private let marks: RowNotes

    /// The leases in the rows.
    public var lock: any CredentialLock { leases }
    /// The notes in the rows.
    public var notes: any CredentialNotes { marks }

    package init(
        _ database: ChappiePostgresDatabase, _ keys: ChappieSealingKeys, changesWithin interval: Duration,
        _ times: LeaseTimes = .init(), clock: any ChappieClock = SystemClock()
    ) {
        rows = CredentialRows(database)
        self.keys = keys
        leases = RowLeases(rows, times, clock: clock)
        marks = RowNotes(rows, keys, every: interval, clock: clock)
    }

    // MARK: Credentials

    /// Returns the credential in `slot`.
    ///
    /// - Throws: ``ChappieAuth/CredentialStoreError/failed(_:)`` if the database can't be reached or the row's key is
    ///   missing, and ``ChappieAuth/CredentialStoreError/corrupt(_:)`` if the row does not open. The row is unchanged.
    public func load(_ slot: CredentialSlot) async throws(CredentialStoreError) -> Secret? {
        try slot.checkForDatabase()
        return try await stored(slot)
    }

    /// Returns the credential in `slot` before it is deleted.
    public func loadForDeletion(_ slot: CredentialSlot) async throws(CredentialStoreError) -> Secret? {
        try slot.checkNames()
        return try await stored(slot)
    }

    private func stored(_ slot: CredentialSlot) async throws(CredentialStoreError) -> Secret? {
        let row = try await rows.perform { [schema = rows.schema] connection, _ throws(PostgresFailure) in
            let found = try schema.read([schema.credential(of: slot)], on: connection)[2]
            return found.rows.isEmpty ? nil : (sealed: found.bytes(0, 0), keyID: found.integer(0, 1))
        }
        guard let row else { return nil }
        return try keys.open(row.sealed, sealedBy: row.keyID, for: slot, as: Self.purpose)
    }

    /// Makes the lease of a renewal last until its answer is stored. Before a sign-in, checks whether the database
    /// accepts changes.
    ///
    /// - Throws: ``ChappieAuth/CredentialStoreError/overtaken`` if another machine has changed the credential or has its
    ///   lease.
    public func prepareToSave(in slot: CredentialSlot) async throws(CredentialStoreError) {
        try slot.checkForDatabase()
        if let hold = leases.hold(of: slot) { return try await leases.extend(slot, hold) }
        let (mayWrite, isStandby) = try await rows.perform {
            [schema = rows.schema] connection, _ throws(PostgresFailure) in
            let found = try schema.read([schema.readiness], on: connection)[2]
            return (found.integer(0, 0) != 0, found.integer(0, 1) != 0)
        }
        guard !isStandby else { throw .failed("the database server is a stand-by server, which can only be read") }
        guard mayWrite else { throw .failed("the role of the connection string may not change the table of sign-ins") }
    }

    /// Replaces the credential in `slot`.
    ///
    /// - Throws: ``ChappieAuth/CredentialStoreError/overtaken`` if this process has the lease of the slot, and another
    ///   one has changed the credential since.
    public func save(_ secret: Secret, in slot: CredentialSlot) async throws(CredentialStoreError) {
        try slot.checkForDatabase()
        let sealed = try keys.seal(secret, for: slot, as: Self.purpose)
        let keyID = keys.currentID
        let hold = leases.hold(of: slot)
        let rest = leases.afterSave
        try await change(slot, hold, hasHappened: { $0 == sealed }) { schema in
            hold.map { schema.save(sealed, keyID, in: slot, over: $0, keeping: rest) }
                ?? schema.save(sealed, keyID, in: slot)
        }
    }

    /// Removes the credential in `slot`.
    ///
    /// - Throws: ``ChappieAuth/CredentialStoreError/overtaken`` as ``save(_:in:)`` does.
    public func delete(_ slot: CredentialSlot) async throws(CredentialStoreError) {
        try slot.checkNames()
        let hold = leases.hold(of: slot)
        try await change(slot, hold, hasHappened: { $0 == nil }) { $0.removal(of: slot, over: hold?.generation) }
    }

    /// Changes the credential of a row with one statement, and notes the row's new generation.
    ///
    /// - Parameter hasHappened: Whether the stored bytes are those that the statement stores. An earlier attempt may
    ///   have been committed.
    private func change(
        _ slot: CredentialSlot, _ hold: RowLeases.Hold?, hasHappened: @escaping @Sendable ([UInt8]?) -> Bool,
        _ statement: @escaping @Sendable (PostgresSchema) -> PostgresStatement
    ) async throws(CredentialStoreError) {
        let changed = try await rows.perform { [schema = rows.schema] connection, isRepeated throws(PostgresFailure) in
            let results = try schema.begin(
                [schema.credential(of: slot), schema.mark(of: slot), statement(schema)], on: connection)
            let (before, state) = (results[2], results[3].state)
            let isDone = hasHappened(before.rows.isEmpty ? nil : before.bytes(0, 0))
            if isRepeated, isDone, hold.map({ state?.generation == $0.generation + 1 }) ?? true {
                try schema.rollBack(on: connection)
                return state
            }
            try schema.commit([], on: connection)
            return results[4].state
        }
        guard let changed else {
            // Without a lease, the row had nothing to remove.
            guard hold == nil else { throw .overtaken }
            return
        }
        if let hold { leases.changed(slot, hold, to: changed.generation) }
        marks.changed(slot, to: changed.mark)
    }

    // MARK: Keys

    /// Encrypts credentials again that were encrypted with an earlier key. Call it until it returns 0, after all
    /// machines have the new key. It can run at the same time as renewals.
    ///
    /// - Parameter limit: The greatest number of credentials to encrypt in this call. Default: 500.
    /// - Returns: The number of credentials that were encrypted again.
    /// - Throws: ``ChappieAuth/CredentialStoreError/failed(_:)`` if only rows are left that do not open, with the user of
    ///   one of them. Such rows are unchanged.
    public func reseal(limit: Int = 500) async throws(CredentialStoreError) -> Int {
        let current = keys.currentID
        let found = try await rows.perform { [schema = rows.schema] connection, _ throws(PostgresFailure) in
            let found = try schema.read([schema.sealed(otherThan: current, limit: limit)], on: connection)[2]
            return found.rows.map { (found.slot($0), found.bytes($0, 4), found.integer($0, 5), found.integer($0, 6)) }
        }
        var count = 0
        var failure: CredentialStoreError?
        for (slot, old, keyID, generation) in found {
            let sealed: [UInt8]
            do throws(CredentialStoreError) {
                let secret = try keys.open(old, sealedBy: keyID, for: slot, as: Self.purpose)
                sealed = try keys.seal(secret, for: slot, as: Self.purpose)
            } catch {
                let reason = error.errorDescription ?? ""
                failure = .failed("the sign-in of \(slot.account) was not encrypted again: \(reason)")
                continue
            }
            let schema = rows.schema
            let state = try await rows.change { _ in
                schema.reseal(sealed, current, of: slot, generation: generation, from: keyID)
            }
            // A renewal in the meantime has used the current key.
            if state != nil { count += 1 }
        }
        if count == 0, let failure { throw failure }
        return count
    }

    /// Returns the number of credentials that were encrypted with an earlier key. When it is 0, the earlier keys are no
    /// longer needed.
    ///
    /// - Throws: ``ChappieAuth/CredentialStoreError`` if the database can't be reached.
    public func countSealedWithEarlierKeys() async throws(CredentialStoreError) -> Int {
        let current = keys.currentID
        return try await rows.perform { [schema = rows.schema] connection, _ throws(PostgresFailure) in
            try schema.read([schema.count(sealedOtherThan: current)], on: connection)[2].integer(0, 0)
        }
    }
}

extension ChappiePostgresDatabase {
    /// Returns the store of this database's sign-ins. Call it once in a process, since each store asks for changes on its
    /// own.
    ///
    /// - Parameters:
    ///   - keys: The keys with which credentials are encrypted.
    ///   - interval: The time within which this process sees a sign-out on another machine. It is also the pause between
    ///     two queries for changes, of which there is one for a process. Default: one second.
    public func credentials(
        sealedWith keys: ChappieSealingKeys, changesWithin interval: Duration = .seconds(1)
    ) -> ChappiePostgresCredentialStore {
        ChappiePostgresCredentialStore(self, keys, changesWithin: interval)
    }
}
