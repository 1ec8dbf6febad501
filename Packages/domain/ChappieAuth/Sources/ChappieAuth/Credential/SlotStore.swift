@_spi(ChappieInternals) import ChappieCore
import Dispatch

/// The stored credential of one slot, with its lock and the notes that other processes read.
struct SlotStore: Sendable {
    let slot: CredentialSlot
    let store: any SharedCredentialStore
    let origin: CredentialOrigin
    let notes: NoteKeeper

    func acquireLock(within limit: Duration) async -> Result<CredentialLockHold, CredentialStoreError> {
        do throws(CredentialStoreError) {
            return .success(try await store.lock.acquire(slot, within: limit))
        } catch {
            return .failure(error)
        }
    }

    /// Asks the store whether it can save. Returns the failure, if any.
    func prepareToSave() async -> CredentialStoreError? {
        do {
            try await store.prepareToSave(in: slot)
            return nil
        } catch {
            return error
        }
    }

    /// Deletes the credential, and informs the other processes. Returns the failure, if any.
    func delete() async -> CredentialStoreError? {
        var failure: CredentialStoreError?
        do {
            try await store.delete(slot)
        } catch {
            failure = error
        }
        await notes.announceChange()
        return failure
    }

    /// Reads the stored credential and the notes. `isDeleted` is whether the content is to be deleted and not used.
    func read(isDeleted: Bool) async -> CredentialLifecycle.Input {
        let noted: (mark: [UInt8]?, tombstone: Tombstone?)
        do throws(CredentialStoreError) {
            noted = try await notes.read()
        } catch {
            return .storeRead(.failure(error))
        }
        do throws(CredentialStoreError) {
            let document = try await isDeleted ? store.loadForDeletion(slot) : store.load(slot)
            let credential = try document.map { document throws(CredentialStoreError) in
                try Credential(serialized: document, for: origin)
            }
            notes.storeWasRead(after: noted.mark)
            return .storeRead(.success(.init(credential: credential, tombstone: noted.tombstone)))
        } catch {
            return .storeRead(.failure(error), tombstone: noted.tombstone)
        }
    }

    /// Saves `credential` and, if `verified`, reads it back. Informs the other processes.
    ///
    /// - Returns: The failure, if any. If the credential can't be read back at that moment, for example because the
    ///   screen has just been locked, the store has accepted it, and this is not a failure.
    func save(_ credential: Credential, verified: Bool) async -> CredentialStoreError? {
        let document = credential.serialized()
        var failure: CredentialStoreError?
        do {
            try await store.save(document, in: slot)
        } catch {
            failure = error
        }
        if verified, failure == nil {
            do {
                if try await store.load(slot) != document { failure = .notVerified }
            } catch {}
        }
        await notes.announceChange()
        return failure
    }
}

/// Blocks the calling thread until `work` has ended, for at most `limit`. Returns whether it has ended.
///
/// The work runs on the global executor's threads and doesn't need the caller's thread, so the two can't wait for each
/// other.
@_spi(ChappieInternals)
public func blocking(within limit: Duration, _ work: @escaping @Sendable () async -> Void) -> Bool {
    let done = DispatchSemaphore(value: 0)
    // The priority of the main thread, for which TaskPriority has no name. A lower one would let other work delay it.
    Task.detached(priority: TaskPriority(rawValue: 33)) {
        await work()
        done.signal()
    }
    let milliseconds = min(max(limit.inSeconds * 1000, 0), 3_600_000)
    return done.wait(timeout: .now() + .milliseconds(Int(milliseconds))) == .success
}
