@_spi(ChappieInternals) import ChappieAuth
import ChappieCore
import ChappiePostgres
import Synchronization

/// The lengths of leases.
package struct LeaseTimes: Sendable {
    /// From the start until the holder asks the service.
    let atFirst: Duration
    /// From the moment before the request. The token endpoint has 60 seconds to answer.
    let forRequest: Duration
    /// After a credential has been stored.
    let afterSave: Duration

    package init(
        atFirst: Duration = .seconds(20), forRequest: Duration = .seconds(75), afterSave: Duration = .seconds(5)
    ) {
        self.atFirst = atFirst
        self.forRequest = forRequest
        self.afterSave = afterSave
    }
}

/// A ``CredentialLock`` whose locks are leases in the rows of the table.
///
/// A lease needs no separate connection, works through every pooler, and survives a restart of the server. A session's
/// advisory lock ends with its connection while the request continues, and through a pooler two processes can have it.
final class RowLeases: CredentialLock {
    /// The hold of a lease.
    struct Hold: Sendable {
        let holder: UUID
        /// The generation of the row when the lease was taken, or when this process last changed the row.
        var generation: Int
    }

    private let rows: CredentialRows
    private let times: LeaseTimes
    private let clock: any ChappieClock
    /// The leases that this process has through this store.
    private let held = Mutex<[CredentialSlot: Hold]>([:])

    init(_ rows: CredentialRows, _ times: LeaseTimes, clock: any ChappieClock) {
        self.rows = rows
        self.times = times
        self.clock = clock
    }

    func acquire(
        _ slot: CredentialSlot, within limit: Duration
    ) async throws(CredentialStoreError) -> CredentialLockHold {
        try slot.checkForDatabase()
        let holder = UUID()
        let start = clock.elapsed
        do throws(CredentialStoreError) {
            try await clock.waitForLock(limit, since: start, pausingAtMost: .milliseconds(200)) {
                () throws(CredentialStoreError) in
                try await take(slot, as: holder)
            }
        } catch {
            // The server may have given the lease after the caller stopped waiting.
            release(slot, holder)
            throw error
        }
        return CredentialLockHold { [self] in
            held.withLock { if $0[slot]?.holder == holder { $0[slot] = nil } }
            release(slot, holder)
        }
    }

    private func take(_ slot: CredentialSlot, as holder: UUID) async throws(CredentialStoreError) -> Bool {
        let (schema, time) = (rows.schema, times.atFirst)
        let row = try await rows.change { _ in schema.take(slot, as: holder, for: time) }
        guard let row else { return false }
        held.withLock { $0[slot] = Hold(holder: holder, generation: row.generation) }
        return true
    }

    private func release(_ slot: CredentialSlot, _ holder: UUID) {
        Task.detached { [rows] in
            _ = try? await rows.change { _ in rows.schema.release(slot, holder) }
        }
    }

    /// The hold that this process has of a slot.
    func hold(of slot: CredentialSlot) -> Hold? { held.withLock { $0[slot] } }

    /// Records that this process has changed the row.
    func changed(_ slot: CredentialSlot, _ hold: Hold, to generation: Int) {
        held.withLock { if $0[slot]?.holder == hold.holder { $0[slot]?.generation = generation } }
    }

    /// Makes a lease last until the service has answered and the answer is stored.
    ///
    /// - Throws: ``CredentialStoreError/overtaken`` if the lease has ended and another process has taken it, or if the
    ///   credential has been changed.
    func extend(_ slot: CredentialSlot, _ hold: Hold) async throws(CredentialStoreError) {
        let (schema, time) = (rows.schema, times.forRequest)
        guard try await rows.change({ _ in schema.extend(slot, hold, for: time) }) != nil else { throw .overtaken }
    }

    /// The time for which a lease lasts after a credential was stored.
    var afterSave: Duration { times.afterSave }
}
