public import ChappieAuth
import ChappieCore
import Dispatch

/// The behaviour of every ``SharedCredentialStore``, as a list of cases that any testing framework can run.
///
/// ```swift
/// @Test(arguments: SharedCredentialStoreContract.cases)
/// func keepsTheContract(_ contractCase: SharedCredentialStoreContract.Case) async throws {
///     try await contractCase.run { MyStore(table) }
/// }
/// ```
/// The store must also fulfil ``CredentialStoreContract``. The cases write to services that begin with
/// `com.chappie.contract`, and delete what they wrote.
public enum SharedCredentialStoreContract {
    /// One requirement for a store.
    public struct Case: Sendable, CustomStringConvertible {
        /// The requirement as a fact: `a lock that is released is free`.
        public let name: String
        let check: @Sendable (_ one: any SharedCredentialStore, _ two: any SharedCredentialStore) async throws -> Void

        /// Runs the case, and then runs it again with one of the stores wrapped in another store.
        ///
        /// - Parameter store: Returns a new store with the same storage at each call, as another machine would have it.
        /// - Throws: ``ContractViolation`` if the requirement is not met, and any error that the store should not have
        ///   thrown.
        public func run(_ store: @Sendable () throws -> any SharedCredentialStore) async throws {
            for slot in slots { try await store().delete(slot) }
            try await check(store(), store())
            for slot in slots { try await store().delete(slot) }
            try await check(WrappedStore(store: store()), store())
            for slot in slots { try await store().delete(slot) }
        }

        /// The name.
        public var description: String { name }
    }

    private static let slots = ["one", "two"].map {
        CredentialSlot(service: "com.chappie.contract.shared", account: $0)
    }

    /// Every case.
    public static let cases: [Case] = [
        Case(name: "a lock that another store holds is busy past the limit, and free once it is released") { one, two in
            var hold: CredentialLockHold? = try await one.lock.acquire(slots[0], within: .seconds(10))
            do {
                _ = try await two.lock.acquire(slots[0], within: .milliseconds(50))
                throw ContractViolation("Two stores hold one lock.")
            } catch CredentialStoreError.busy {}
            withExtendedLifetime(hold) {}
            hold = nil
            _ = try await two.lock.acquire(slots[0], within: .seconds(10))
        },
        Case(name: "two slots don't wait for each other") { one, two in
            let hold = try await one.lock.acquire(slots[0], within: .seconds(10))
            _ = try await two.lock.acquire(slots[1], within: .seconds(10))
            withExtendedLifetime(hold) {}
        },
        Case(name: "what one store saves while it holds the lock, the next holder loads") { one, two in
            var hold: CredentialLockHold? = try await one.lock.acquire(slots[0], within: .seconds(10))
            try await one.prepareToSave(in: slots[0])
            try await one.save(Secret("from one"), in: slots[0])
            withExtendedLifetime(hold) {}
            hold = nil
            let other = try await two.lock.acquire(slots[0], within: .seconds(10))
            try require(try await two.load(slots[0]) == Secret("from one"), "The other store loads something else.")
            withExtendedLifetime(other) {}
        },
        Case(name: "a note of one store is read by another, and so is its removal") { one, two in
            let noted = await onAThread {
                one.notes.setNote([1, 2, 3], for: slots[0])
                return (two.notes.note(for: slots[0]), two.notes.note(for: slots[1]))
            }
            try require(noted.0 == [1, 2, 3], "The note is not there.")
            try require(noted.1 == nil, "Another slot has the note as well.")
            let removed = await onAThread {
                two.notes.setNote(nil, for: slots[0])
                return one.notes.note(for: slots[0])
            }
            try require(removed == nil, "The note is still there.")
        },
        Case(name: "a change that one store announces changes the mark of another within two seconds") { one, two in
            let (before, mark) = await onAThread {
                (two.notes.changeMark(for: slots[0]), one.notes.announceChange(of: slots[0]))
            }
            try require(mark != nil && mark != before, "The change has no mark.")
            let end = ContinuousClock.now + .seconds(2)
            while await onAThread({ two.notes.changeMark(for: slots[0]) }) != mark {
                try require(ContinuousClock.now < end, "The other store does not see the mark.")
                try await Task.sleep(for: .milliseconds(5))
            }
        },
    ]

    /// The cases of a store whose lock can end before it is released. Give the stores short leases.
    public static let leaseCases: [Case] = [
        Case(name: "a hold that has ended can neither save nor delete what another holder has saved") { one, two in
            let late = try await one.lock.acquire(slots[0], within: .seconds(10))
            let next = try await two.lock.acquire(slots[0], within: .seconds(30))
            try await two.prepareToSave(in: slots[0])
            try await two.save(Secret("from two"), in: slots[0])
            try await expectOvertaken { try await one.prepareToSave(in: slots[0]) }
            try await expectOvertaken { try await one.save(Secret("from one"), in: slots[0]) }
            try await expectOvertaken { try await one.delete(slots[0]) }
            try require(try await two.load(slots[0]) == Secret("from two"), "The late holder has changed the secret.")
            withExtendedLifetime((late, next)) {}
        },
        Case(name: "a hold that has ended can't begin a renewal while another process holds the lock") { one, two in
            let late = try await one.lock.acquire(slots[0], within: .seconds(10))
            let next = try await two.lock.acquire(slots[0], within: .seconds(30))
            try await expectOvertaken { try await one.prepareToSave(in: slots[0]) }
            withExtendedLifetime((late, next)) {}
        },
        Case(name: "what was saved without the lock in the meantime is not deleted by its holder") { one, two in
            try await one.save(Secret("old"), in: slots[0])
            let hold = try await one.lock.acquire(slots[0], within: .seconds(10))
            try await two.save(Secret("new"), in: slots[0])
            try await expectOvertaken { try await one.delete(slots[0]) }
            try await expectOvertaken { try await one.save(Secret("renewed"), in: slots[0]) }
            try require(try await two.load(slots[0]) == Secret("new"), "The holder has changed the secret.")
            withExtendedLifetime(hold) {}
        },
    ]

    private static func expectOvertaken(_ call: () async throws -> Void) async throws {
        do {
            try await call()
        } catch CredentialStoreError.overtaken {
            return
        }
        throw ContractViolation("The late holder was not refused.")
    }
}

/// Runs work that may block.
private func onAThread<Value: Sendable>(_ work: @escaping @Sendable () -> Value) async -> Value {
    await withCheckedContinuation { result in
        DispatchQueue.global().async { result.resume(returning: work()) }
    }
}

/// A store that wraps another one, as a store that counts or logs does. It also forwards the lock and the notes.
private struct WrappedStore: SharedCredentialStore {
    let store: any SharedCredentialStore

    var lock: any CredentialLock { store.lock }
    var notes: any CredentialNotes { store.notes }

    func load(_ slot: CredentialSlot) async throws(CredentialStoreError) -> Secret? { try await store.load(slot) }
    func loadForDeletion(_ slot: CredentialSlot) async throws(CredentialStoreError) -> Secret? {
        try await store.loadForDeletion(slot)
    }
    func prepareToSave(in slot: CredentialSlot) async throws(CredentialStoreError) {
        try await store.prepareToSave(in: slot)
    }
    func save(_ secret: Secret, in slot: CredentialSlot) async throws(CredentialStoreError) {
        try await store.save(secret, in: slot)
    }
    func delete(_ slot: CredentialSlot) async throws(CredentialStoreError) { try await store.delete(slot) }
}
