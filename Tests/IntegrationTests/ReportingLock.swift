import ChappieAuth
import ChappieTesting

/// A lock that tells when it is asked for.
struct ReportingLock: CredentialLock {
    let lock: any CredentialLock
    let isAskedFor = ScriptedGate()

    func acquire(
        _ slot: CredentialSlot, within limit: Duration
    ) async throws(CredentialStoreError) -> CredentialLockHold {
        isAskedFor.open()
        try? await isAskedFor.pass()
        return try await lock.acquire(slot, within: limit)
    }
}
