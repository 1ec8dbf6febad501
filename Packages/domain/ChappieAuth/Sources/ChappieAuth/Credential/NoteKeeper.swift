@_spi(ChappieInternals) import ChappieCore
import Synchronization

/// A reader and writer of a slot's ``CredentialNotes``: the tombstone of a sign-out that the store has not carried out,
/// and the mark of the last change.
///
/// The notes may be on a disk that does not answer, so separate threads read and write them.
final class NoteKeeper: Sendable {
    static let deadline = Duration.seconds(10)
    /// The workers of all slots. A worker for each slot would be a thread for each busy user of a server.
    private static let workers = (1...4).map { StoreWorker(label: "chappie.credential-notes-\($0)") }

    private let notes: any CredentialNotes
    private let slot: CredentialSlot
    private let clock: any ChappieClock
    /// The slot's worker, which does the slot's work in order.
    private let worker: StoreWorker
    /// The last change of the tombstone that has not been carried out.
    private let change = Mutex<Tombstone??>(nil)
    /// The tombstone that could not be stored. The mutex is held while a tombstone is written, removed or read.
    private let unkept = Mutex<Tombstone?>(nil)
    /// The mark at the time when the store was last read or changed here.
    private let knownMark = Mutex<[UInt8]?>(nil)

    init(of slot: CredentialSlot, in notes: any CredentialNotes, clock: any ChappieClock) {
        self.slot = slot
        self.notes = notes
        self.clock = clock
        worker = Self.workers[Int(slot.hashValue.magnitude % UInt(Self.workers.count))]
    }

    /// Reads the mark and the tombstone, before the store is read.
    func read() async throws(CredentialStoreError) -> (mark: [UInt8]?, tombstone: Tombstone?) {
        try await worker.perform(within: Self.deadline) { [self] _ throws(CredentialStoreError) in
            var tombstone = tombstone()
            let mark = notes.changeMark(for: slot)
            let isLastChange = mark != nil && tombstone?.mark == mark
            tombstone?.isLastChange = isLastChange
            return (mark, tombstone)
        }
    }

    /// Records that the store was read after the mark. If the read fails, this is not called. The mark then stays
    /// unknown, and the next request tries again.
    func storeWasRead(after mark: [UInt8]?) { knownMark.withLock { $0 = mark } }

    /// Returns whether another process has changed the store since it was read. Returns `false` if the disk does not
    /// answer.
    func showAChange() async -> Bool {
        let mark =
            notes.readsMarksFromMemory
            ? notes.changeMark(for: slot)
            : try? await worker.perform(within: .seconds(1)) { [notes, slot] _ in notes.changeMark(for: slot) }
        guard let mark else { return false }
        return mark != knownMark.withLock(\.self)
    }

    /// Informs the other processes of a change here. If the disk does not answer, the others get no notice, but nothing
    /// else is lost.
    func announceChange() async { try? await worker.perform(within: Self.deadline) { [self] _ in _ = announce() } }

    /// Notes that the tombstone has changed. ``carryOut(_:)`` follows. Only the last of several changes counts.
    func tombstoneChanged(to tombstone: Tombstone?) { change.withLock { $0 = .some(tombstone) } }

    /// Keeps the changed tombstone, and then calls `next`. If the disk does not answer, this calls `next` at the
    /// deadline.
    func carryOut(_ next: @escaping @Sendable () -> Void) {
        let isKept = Promise<Void>()
        worker.enqueue { [self] in
            _ = tombstone()
            isKept.fulfil(.success(()))
        }
        Task.detached { [clock] in
            let late = CredentialStoreError.timedOut(Self.deadline)
            try? await withDeadline(Self.deadline, clock: clock, late: late) { try await isKept.value() }
            next()
        }
    }

    /// Waits until all earlier work has been carried out, for at most `limit`.
    func finish(within limit: Duration) async { try? await worker.perform(within: limit) { _ in } }

    /// Carries out the last change of the tombstone, and returns the tombstone. Two threads may arrive here in an order
    /// other than the order of the changes, and a tombstone that is written after its removal would end the next
    /// sign-in.
    private func tombstone() -> Tombstone? {
        unkept.withLock { unkept in
            let change = change.withLock { change in
                defer { change = nil }
                return change
            }
            if let change {
                var change = change
                if change != nil { change?.mark = announce() }
                notes.setNote(change?.serialized(), for: slot)
                unkept = notes.note(for: slot) == nil ? change : nil
            }
            return notes.note(for: slot).flatMap(Tombstone.init(serialized:)) ?? unkept
        }
    }

    @discardableResult
    private func announce() -> [UInt8]? {
        // The new mark may replace another process's mark. In that case, the store also has to be read for that change.
        let coversAnother = notes.changeMark(for: slot) != knownMark.withLock(\.self)
        guard let mark = notes.announceChange(of: slot) else { return nil }
        knownMark.withLock { $0 = coversAnother ? nil : mark }
        return mark
    }
}
