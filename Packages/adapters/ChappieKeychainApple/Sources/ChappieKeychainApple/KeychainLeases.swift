@_spi(ChappieInternals) import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import Synchronization

/// A ``CredentialLock`` whose locks are items of the keychain, which the system adds only if there is none.
///
/// The keychain does not notice the end of a process, so an item says when it ends. The next holder removes an item that
/// has ended, if it is still the item that was read. The items can be read after the first unlock, because a renewal in
/// the background needs them, and whoever can read the credential can read them.
final class KeychainLeases: CredentialLock {
    /// The time for which a lease is given. The token endpoint has 60 seconds to answer.
    static let lifetime = Duration.seconds(75)

    private let calls: SecItemCalls
    private let worker: StoreWorker
    private let deadline: Duration
    private let clock: any ChappieClock
    /// The owners of the leases that this process has through this store.
    private let held = Mutex<[CredentialSlot: [UInt8]]>([:])

    init(calls: SecItemCalls, worker: StoreWorker, deadline: Duration, clock: any ChappieClock) {
        self.calls = calls
        self.worker = worker
        self.deadline = deadline
        self.clock = clock
    }

    func acquire(
        _ slot: CredentialSlot, within limit: Duration
    ) async throws(CredentialStoreError) -> CredentialLockHold {
        var query = try KeychainQuery(slot, .lease)
        let owner = Lease.newOwner()
        query.owner = owner
        let (start, wanted) = (clock.elapsed, query)
        do throws(CredentialStoreError) {
            try await clock.waitForLock(limit, since: start) { () throws(CredentialStoreError) in
                try await worker.perform(within: deadline) { [self] _ throws(CredentialStoreError) in
                    try take(wanted, owner)
                }
            }
        } catch {
            // The system may have added the item after the caller stopped waiting.
            release(wanted)
            throw error
        }
        held.withLock { $0[slot] = owner }
        return CredentialLockHold { [self] in
            held.withLock { if $0[slot] == owner { $0[slot] = nil } }
            release(wanted)
        }
    }

    /// Makes the lease of `slot` last from now on, if this process has one. The caller is on the store's thread.
    ///
    /// - Throws: ``CredentialStoreError/overtaken`` if the lease has ended and another process has removed it.
    func extend(_ slot: CredentialSlot) throws(CredentialStoreError) {
        guard let owner = held.withLock({ $0[slot] }) else { return }
        var query = try KeychainQuery(slot, .lease)
        query.owner = owner
        let status = calls.update(query, attributes(of: owner))
        guard status != .itemNotFound else { throw .overtaken }
        try status.check(query, .afterFirstUnlockThisDeviceOnly)
    }

    // MARK: Steps, which block

    /// Adds the item, after it has removed one that has ended. Returns whether it was added.
    private func take(_ query: KeychainQuery, _ owner: [UInt8]) throws(CredentialStoreError) -> Bool {
        if try add(query, owner) { return true }
        var search = query
        search.owner = nil
        let (status, value) = calls.copyMatching(search)
        if status != .itemNotFound {
            try status.check(search, .afterFirstUnlockThisDeviceOnly)
            let lease = value.flatMap(Lease.init)
            guard lease?.isOver(at: clock.now) != false else { return false }
            search.owner = lease?.owner
            _ = calls.delete(search)
        }
        return try add(query, owner)
    }

    private func add(_ query: KeychainQuery, _ owner: [UInt8]) throws(CredentialStoreError) -> Bool {
        let status = calls.add(query, attributes(of: owner))
        try status.check(query, .afterFirstUnlockThisDeviceOnly, allowing: [.duplicateItem])
        return status == .success
    }

    private func release(_ query: KeychainQuery) { worker.enqueue { [calls] in _ = calls.delete(query) } }

    private func attributes(of owner: [UInt8]) -> KeychainAttributes {
        KeychainAttributes(
            label: "Chappie lock", accessibility: .afterFirstUnlockThisDeviceOnly,
            value: Lease(owner: owner, end: clock.now.addingTimeInterval(Self.lifetime.inSeconds)).secret)
    }
}

/// The value of a lock's item: its owner, and the time at which it ends, in milliseconds since 1970.
private struct Lease {
    private static let ownerLength = 16
    let owner: [UInt8]
    let end: Date

    init(owner: [UInt8], end: Date) {
        self.owner = owner
        self.end = end
    }

    /// Reads a value. Returns `nil` for bytes that are no lease. Another program may have stored them.
    init?(_ value: Secret) {
        let bytes = value.withBytes { Array($0) }
        guard bytes.count == Self.ownerLength + 8 else { return nil }
        owner = Array(bytes.prefix(Self.ownerLength))
        let milliseconds = bytes.suffix(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        end = Date(timeIntervalSince1970: Double(milliseconds) / 1000)
    }

    static func newOwner() -> [UInt8] { (0..<ownerLength).map { _ in UInt8.random(in: .min ... .max) } }

    var secret: Secret {
        let milliseconds = UInt64(max(end.timeIntervalSince1970 * 1000, 0))
        return Secret(owner + (0..<8).reversed().map { UInt8(truncatingIfNeeded: milliseconds >> ($0 * 8)) })
    }

    /// Returns whether the lease has ended. One that ends too late was written before the clock was set back.
    func isOver(at now: Date) -> Bool {
        end <= now || end > now.addingTimeInterval(KeychainLeases.lifetime.inSeconds)
    }
}
