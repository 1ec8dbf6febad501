@_spi(ChappieInternals) import ChappieAuth
import ChappieTesting
import Foundation
import TestFixtures
import Testing

@testable import ChappieKeychainLinux

/// Against the real gnome-keyring.
@Suite(.enabled(if: SystemProgram.keyrings.areUsable, "\(SystemProgram.keyrings.absence)"))
struct KeyringTests {
    private let slot = CredentialSlot()

    @Test(arguments: CredentialStoreContract.cases)
    func keepsTheContract(_ demand: CredentialStoreContract.Case) async throws {
        let keyring = try await PrivateKeyring()
        try await demand.run(keyring.store)
    }

    @Test func slotsAreApart() async throws {
        let keyring = try await PrivateKeyring()
        let store = keyring.store
        // The one without an access group is saved last: what the others have in common must not be replaced by it.
        let slots = [
            CredentialSlot(service: "a", account: "b", accessGroup: "group"),
            CredentialSlot(service: "a", account: "b", accessGroup: "other"),
            CredentialSlot(service: "a", account: "b", accessGroup: ""),
            CredentialSlot(service: "a", account: "c"),
            CredentialSlot(service: "c", account: "b"),
            CredentialSlot(service: "b", account: "a"),
            CredentialSlot(service: "a", account: "b", issuer: "http://127.0.0.1:1"),
            CredentialSlot(service: "a", account: "b", accessGroup: "group", issuer: "http://127.0.0.1:1"),
            CredentialSlot(service: "a", account: "b"),
        ]
        for (number, slot) in slots.enumerated() { try await store.save(Secret("secret \(number)"), in: slot) }
        for isDeleted in [false, true] {
            for (number, slot) in slots.enumerated() {
                let expected = isDeleted && number == 8 ? nil : Secret("secret \(number)")
                #expect(try await store.load(slot) == expected, "\(slot)")
            }
            try await store.delete(slots[8])
        }
    }

    @Test func savesAtTheSameTimeAllEndWell() async throws {
        let keyring = try await PrivateKeyring()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<8 {
                // Another store each time: what they share is the keyring.
                let store = keyring.store
                group.addTask { try await store.save(Secret("secret \(number)"), in: CredentialSlot()) }
            }
            try await group.waitForAll()
        }
        let last = try #require(try await keyring.store.load(slot))
        #expect((0..<8).contains { last == Secret("secret \($0)") })
        #expect(try await itemCount(keyring) == 1)
    }

    @Test func aPersonCanReadWhatTheItemIs() async throws {
        let keyring = try await PrivateKeyring()
        let content = #"{"token":"x"}"#
        try await keyring.store.save(Secret(content), in: CredentialSlot(account: "work", accessGroup: "team"))
        let lines = try await keyring.bus.searchSecrets("account", "work")
        #expect(
            Set(lines).isSuperset(of: [
                "label = Chappie credential for work (com.chappie.sdk)", "secret = \(content)",
                "schema = com.chappie.Credential", "attribute.service = com.chappie.sdk", "attribute.account = work",
                "attribute.access-group = team",
            ]), "\(lines)")
        try await keyring.store.save(Secret("x"), in: CredentialSlot(account: "threads-1"))
        let key = try await keyring.bus.searchSecrets("account", "threads-1")
        #expect(key.contains("label = Chappie key of stored threads (com.chappie.sdk)"), "\(key)")
        try await keyring.store.save(Secret("x"), in: slot)
        let other = try await keyring.bus.searchSecrets("account", "default")
        #expect(!other.isEmpty && !other.contains { $0.contains("access-group") }, "\(other)")
    }

    @Test func survivesARestartOfTheService() async throws {
        let keyring = try await PrivateKeyring()
        let store = keyring.store
        try await store.save(Secret("secret"), in: slot)
        keyring.daemon.end()
        let restarted = try await PrivateKeyring(on: keyring.bus)
        #expect(try await store.load(slot) == Secret("secret"))
        withExtendedLifetime(restarted) {}
    }

    /// A renewed token has to be stored without delay.
    @Test func aSaveAfterALoadNeedsNoNewConnection() async throws {
        let keyring = try await PrivateKeyring()
        let store = keyring.store
        try await store.save(Secret("first"), in: slot)
        #expect(try await store.load(slot) == Secret("first"))
        let connections = try await connectionCount(keyring)
        try await store.save(Secret("second"), in: slot)
        #expect(try await store.load(slot) == Secret("second"))
        // The bus numbers connections one after the other; the one in between is the question itself.
        #expect(try await connectionCount(keyring) == connections + 1)
        #expect(try await itemCount(keyring) == 1)
    }

    /// In a process of its own: in this one, other tests open and close descriptors all the time.
    @Test func `a restart of the service between two calls leaves no descriptor open`() async throws {
        await #expect(processExitsWith: .success) {
            let bus = try await PrivateBus()
            try await Self.loadAndEndTheService(on: bus)
            let descriptors = try Self.descriptorCount()
            let rounds = 10
            for _ in 0..<rounds { try await Self.loadAndEndTheService(on: bus) }
            // A thread of the library closes a dropped connection. Less than one descriptor a round is not a leak.
            var left = 0
            let areClosed = try await eventually {
                left = try Self.descriptorCount()
                return left < descriptors + rounds
            }
            #expect(areClosed, "\(left) descriptors are open, and \(descriptors) were")
        }
    }

    private static func loadAndEndTheService(on bus: PrivateBus) async throws {
        let keyring = try await PrivateKeyring(on: bus)
        #expect(try await keyring.store.load(CredentialSlot()) == nil)
        keyring.daemon.end()
        // The bus sends all clients at the same time that the name has lost its owner.
        let hasNoOwner = try await eventually {
            try await bus.call(
                "org.freedesktop.DBus.NameHasOwner", at: "/org/freedesktop/DBus", in: "org.freedesktop.DBus",
                ["org.freedesktop.secrets"]
            ).contains("false")
        }
        try #require(hasNoOwner)
    }

    private static func descriptorCount() throws -> Int {
        try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count
    }

    @Test(arguments: ["another program", "the store"])
    func anItemThatIsRemovedIsMadeAgain(by remover: String) async throws {
        let keyring = try await PrivateKeyring()
        try await keyring.store.save(Secret("first"), in: slot)
        #expect(try await keyring.store.load(slot) == Secret("first"))
        if remover == "the store" {
            try await keyring.store.delete(slot)
        } else {
            try await SystemProgram.secretTool.run(
                ["clear", "service", slot.service, "account", slot.account], environment: keyring.bus.environment)
        }
        try await keyring.store.save(Secret("second"), in: slot)
        #expect(try await keyring.store.load(slot) == Secret("second"))
        #expect(try await itemCount(keyring) == 1)
    }

    /// As earlier versions stored it, made by another client.
    @Test func `an item without an issuer belongs to the default issuer`() async throws {
        let keyring = try await PrivateKeyring()
        let attributes = ["xdg:schema", "com.chappie.Credential", "service", slot.service, "account", slot.account]
        try await SystemProgram.secretTool.run(
            ["store", "--label=Chappie credential for default (com.chappie.sdk)"] + attributes,
            environment: keyring.bus.environment, input: .text("earlier"))
        #expect(try await keyring.store.load(slot) == Secret("earlier"))
        #expect(try await keyring.store.load(CredentialSlot(issuer: "http://127.0.0.1:1")) == nil)
        try await keyring.store.save(Secret("later"), in: slot)
        #expect(try await itemCount(keyring) == 1)
    }

    @Test func aSlotWithANulIsRefused() async throws {
        let store = SecretServiceCredentialStore.forTests(on: "unix:path=/tmp/chappie-no-such-bus")
        await refusal("failed", saying: "the names of a credential's slot can't contain a NUL character") {
            try await store.save(Secret("x"), in: CredentialSlot(account: "a\u{0}b"))
        }
    }

    // MARK: The two levels of accessibility

    private static let sessionIsLocked = CredentialStoreError.locked("the login session is locked")

    @Test func `whenUnlocked reads only while the login session is not locked`() async throws {
        let keyring = try await PrivateKeyring()
        let sessionLock = ManualSessionLock(.locked)
        let store = SecretServiceCredentialStore.forTests(on: keyring.bus.address, sessionLock: sessionLock)
        // A renewed token is kept and a sign-out is obeyed all the same.
        try await store.save(Secret("old"), in: slot)
        try await store.delete(slot)
        try await store.save(Secret("secret"), in: slot)
        await #expect(throws: Self.sessionIsLocked) { try await store.load(slot) }
        // What is deleted is not used: its tokens can be revoked.
        #expect(try await store.loadForDeletion(slot) == Secret("secret"))
        for state in [SessionLockState.unlocked, .noSession("there is no system bus")] {
            sessionLock.set(state)
            #expect(try await store.load(slot) == Secret("secret"))
        }
        // An unknown state counts as locked.
        let silence = CredentialStoreError.sessionUnknown("it did not answer within 2 s")
        sessionLock.fail(with: silence)
        await #expect(throws: silence) { try await store.load(slot) }
        #expect(try await store.loadForDeletion(slot) == Secret("secret"))
        let later = SecretServiceCredentialStore.forTests(
            on: keyring.bus.address, accessibility: .afterFirstUnlockThisDeviceOnly,
            sessionLock: ManualSessionLock(.locked))
        #expect(try await later.load(slot) == Secret("secret"))
    }

    @Test func whenUnlockedFollowsLogind() async throws {
        let keyring = try await PrivateKeyring()
        let logind = try await PrivateLogind()
        try await logind.addSession("c1")
        let store = SecretServiceCredentialStore.forTests(
            on: keyring.bus.address, sessionLock: logind.lock(["XDG_SESSION_ID": "c1"]))
        try await store.save(Secret("secret"), in: slot)
        #expect(try await store.load(slot) == Secret("secret"))
        try await logind.setLocked(true, session: "c1")
        await #expect(throws: Self.sessionIsLocked) { try await store.load(slot) }
        try await logind.setLocked(false, session: "c1")
        #expect(try await store.load(slot) == Secret("secret"))
    }

    @Test(arguments: [ChappieKeychainAccessibility.whenUnlockedThisDeviceOnly, .afterFirstUnlockThisDeviceOnly])
    func bothNeedTheKeyringUnlocked(level: ChappieKeychainAccessibility) async throws {
        let keyring = try await PrivateKeyring()
        let store = SecretServiceCredentialStore.forTests(on: keyring.bus.address, accessibility: level)
        try await store.save(Secret("secret"), in: slot)
        try await keyring.lock()
        await #expect(throws: CredentialStoreError.isLocked) { try await store.load(slot) }
    }

    /// The highest number of a connection so far, which is the asking connection's.
    private func connectionCount(_ keyring: PrivateKeyring) async throws -> Int {
        try #require(await keyring.bus.connections().compactMap { Int($0.dropFirst(":1.".count)) }.max())
    }

    private func itemCount(_ keyring: PrivateKeyring) async throws -> Int {
        try await keyring.bus.searchSecrets("xdg:schema", "com.chappie.Credential").count { $0.hasPrefix("label = ") }
    }
}
