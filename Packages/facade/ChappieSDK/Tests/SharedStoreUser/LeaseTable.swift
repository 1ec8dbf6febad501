import ChappieAuth
import ChappieCore
import FoundationEssentials
import Glibc
import Synchronization

/// A table of sign-ins that several machines share, as a database would have it: rows with a lease and a generation, here
/// in one folder. Its lock is the lease: it ends by itself, and a holder whose lease has ended can't save or delete.
final class LeaseTable: SharedCredentialStore, CredentialLock, CredentialNotes {
    private struct Row: Codable {
        var generation = 0
        var secret: Data?
        var note: Data?
        var holder: String?
        var heldUntil = Date(timeIntervalSince1970: 0)
    }

    private let folder: String
    private let lease: TimeInterval
    private let leaseOfRequest: TimeInterval
    /// This process's hold, and the row's generation when it was taken or changed last.
    private let held = Mutex<(holder: String, generation: Int)?>(nil)

    var lock: any CredentialLock { self }
    var notes: any CredentialNotes { self }

    /// - Parameters:
    ///   - lease: Seconds for which a hold lasts at first.
    ///   - leaseOfRequest: Seconds for which it lasts from the moment before the request.
    init(folder: String, lease: TimeInterval, leaseOfRequest: TimeInterval) {
        self.folder = folder
        self.lease = lease
        self.leaseOfRequest = leaseOfRequest
    }

    /// One transaction.
    private func change<Result>(
        _ slot: CredentialSlot, _ work: (inout Row) throws(CredentialStoreError) -> Result
    ) throws(CredentialStoreError) -> Result {
        let descriptor = open(folder + "/transactions", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        defer { close(descriptor) }
        guard descriptor >= 0, flock(descriptor, LOCK_EX) == 0 else { throw .failed("the table can't be locked") }
        let names = [slot.service, slot.account, slot.accessGroup ?? "", slot.issuer ?? ""].joined(separator: "\0")
        let name = Data(names.utf8).base64EncodedString().replacing("/", with: "_")
        let path = URL(filePath: "\(folder)/\(name).json")
        var row = (try? Data(contentsOf: path)).flatMap { try? JSONDecoder().decode(Row.self, from: $0) } ?? Row()
        let result = try work(&row)
        do {
            try JSONEncoder().encode(row).write(to: path, options: .atomic)
        } catch {
            throw .failed("the table can't be written")
        }
        return result
    }

    func acquire(
        _ slot: CredentialSlot, within limit: Duration
    ) async throws(CredentialStoreError) -> CredentialLockHold {
        let holder = UUID().uuidString
        let end = ContinuousClock.now + limit
        while try !takes(slot, as: holder) {
            guard ContinuousClock.now < end else { throw .busy(limit) }
            do {
                // A lease ends by the clock, which no event announces, so the table is read again.
                try await Task.sleep(for: .milliseconds(20))
            } catch {
                throw .failed("the wait for the lock was cancelled")
            }
        }
        return CredentialLockHold { [self] in
            held.withLock { if $0?.holder == holder { $0 = nil } }
            try? change(slot) { row throws(CredentialStoreError) in
                if row.holder == holder { row.holder = nil }
            }
        }
    }

    /// Takes the lease if nobody holds it, and returns whether it did.
    private func takes(_ slot: CredentialSlot, as holder: String) throws(CredentialStoreError) -> Bool {
        try change(slot) { row throws(CredentialStoreError) in
            guard row.holder == nil || row.heldUntil < Date() else { return false }
            row.holder = holder
            row.heldUntil = Date().addingTimeInterval(lease)
            held.withLock { $0 = (holder, row.generation) }
            return true
        }
    }

    func load(_ slot: CredentialSlot) throws(CredentialStoreError) -> Secret? {
        try change(slot) { row throws(CredentialStoreError) in row.secret.map { Secret(Array($0)) } }
    }

    func prepareToSave(in slot: CredentialSlot) throws(CredentialStoreError) {
        guard let held = held.withLock(\.self) else { return }
        try change(slot) { row throws(CredentialStoreError) in
            guard row.holder == held.holder, row.generation == held.generation else { throw .overtaken }
            row.heldUntil = Date().addingTimeInterval(leaseOfRequest)
        }
    }

    func save(_ secret: Secret, in slot: CredentialSlot) throws(CredentialStoreError) {
        try replace(secret.withBytes { Data($0) }, in: slot)
    }

    func delete(_ slot: CredentialSlot) throws(CredentialStoreError) { try replace(nil, in: slot) }

    private func replace(_ secret: Data?, in slot: CredentialSlot) throws(CredentialStoreError) {
        let known = held.withLock(\.self)?.generation
        let generation = try change(slot) { row throws(CredentialStoreError) in
            if let known, row.generation != known { throw .overtaken }
            row.secret = secret
            row.generation += 1
            return row.generation
        }
        held.withLock { $0?.generation = generation }
    }

    func setNote(_ note: [UInt8]?, for slot: CredentialSlot) {
        try? change(slot) { row throws(CredentialStoreError) in row.note = note.map { Data($0) } }
    }

    func note(for slot: CredentialSlot) -> [UInt8]? {
        try? change(slot) { row throws(CredentialStoreError) in row.note.map(Array.init) }
    }

    func announceChange(of slot: CredentialSlot) -> [UInt8]? { changeMark(for: slot) }

    func changeMark(for slot: CredentialSlot) -> [UInt8]? {
        try? change(slot) { row throws(CredentialStoreError) in Array("\(row.generation)".utf8) }
    }
}
