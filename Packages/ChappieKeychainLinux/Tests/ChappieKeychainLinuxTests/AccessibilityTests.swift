import ChappieAuth
import ChappieKeychainLinux
import ChappieTesting
import Testing

/// The two levels, on the real gnome-keyring.
struct AccessibilityTests {
    private let slot = CredentialSlot()

    @Test func whenUnlockedReadsOnlyWhileTheLoginSessionIsNotLocked() async throws {
        let keyring = try await PrivateKeyring()
        let sessionLock = ManualSessionLock()
        let store = SecretServiceCredentialStore.forTests(on: keyring.bus, sessionLock: sessionLock)
        try await store.save(Secret("secret"), in: slot)
        sessionLock.set(.locked)
        await #expect(throws: CredentialStoreError.locked("the login session is locked")) { try await store.load(slot) }
        sessionLock.set(.unlocked)
        #expect(try await store.load(slot) == Secret("secret"))
        sessionLock.set(.noSession("there is no system bus"))
        #expect(try await store.load(slot) == Secret("secret"))
    }

    @Test func whenUnlockedFollowsLogind() async throws {
        let keyring = try await PrivateKeyring()
        let logind = try await PrivateLogind()
        try await logind.addSession("c1")
        let store = SecretServiceCredentialStore.forTests(
            on: keyring.bus, sessionLock: logind.lock(["XDG_SESSION_ID": "c1"]))
        try await store.save(Secret("secret"), in: slot)
        #expect(try await store.load(slot) == Secret("secret"))
        try await logind.setLocked(true, session: "c1")
        await #expect(throws: CredentialStoreError.locked("the login session is locked")) { try await store.load(slot) }
        try await logind.setLocked(false, session: "c1")
        #expect(try await store.load(slot) == Secret("secret"))
    }

    @Test func whatCannotBeLearntCountsAsLocked() async throws {
        let keyring = try await PrivateKeyring()
        let sessionLock = ManualSessionLock()
        let store = SecretServiceCredentialStore.forTests(on: keyring.bus, sessionLock: sessionLock)
        try await store.save(Secret("secret"), in: slot)
        sessionLock.fail(with: .timedOut(.seconds(2)))
        await #expect(throws: CredentialStoreError.timedOut(.seconds(2))) { try await store.load(slot) }
    }

    @Test func aRenewedTokenIsKeptAlsoWhileTheLoginSessionIsLocked() async throws {
        let keyring = try await PrivateKeyring()
        let store = SecretServiceCredentialStore.forTests(on: keyring.bus, sessionLock: ManualSessionLock(.locked))
        try await store.save(Secret("renewed"), in: slot)
        #expect(try await keyring.store.load(slot) == Secret("renewed"))
        try await store.delete(slot)
        #expect(try await keyring.store.load(slot) == nil)
    }

    @Test func afterFirstUnlockReadsAlsoWhileTheLoginSessionIsLocked() async throws {
        let keyring = try await PrivateKeyring()
        let store = SecretServiceCredentialStore.forTests(
            on: keyring.bus, accessibility: .afterFirstUnlockThisDeviceOnly, sessionLock: ManualSessionLock(.locked))
        try await store.save(Secret("secret"), in: slot)
        #expect(try await store.load(slot) == Secret("secret"))
    }

    @Test(arguments: [ChappieKeychainAccessibility.whenUnlockedThisDeviceOnly, .afterFirstUnlockThisDeviceOnly])
    func bothNeedTheKeyringUnlocked(level: ChappieKeychainAccessibility) async throws {
        let keyring = try await PrivateKeyring()
        let store = SecretServiceCredentialStore.forTests(on: keyring.bus, accessibility: level)
        try await store.save(Secret("secret"), in: slot)
        try await keyring.lock()
        await #expect(throws: CredentialStoreError.locked("it has to be unlocked before it can be used")) {
            try await store.load(slot)
        }
    }
}
