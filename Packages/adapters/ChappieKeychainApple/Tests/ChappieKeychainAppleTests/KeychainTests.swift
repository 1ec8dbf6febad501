import ChappieAuth
import ChappieTesting
import Testing

@testable import ChappieKeychainApple

/// Over a keychain in memory.
struct KeychainTests {
    private let keychain = InMemoryKeychain()
    private let slot = CredentialSlot()

    private func store(
        _ accessibility: ChappieKeychainAccessibility = .whenUnlockedThisDeviceOnly, groups: [String] = ["TEAM.app"]
    ) -> KeychainCredentialStore {
        KeychainCredentialStore(accessibility: accessibility, calls: keychain.calls(accessGroups: groups))
    }

    @Test(
        arguments: CredentialStoreContract.cases,
        [ChappieKeychainAccessibility.whenUnlockedThisDeviceOnly, .afterFirstUnlockThisDeviceOnly])
    func keepsTheContract(
        _ demand: CredentialStoreContract.Case, _ accessibility: ChappieKeychainAccessibility
    ) async throws {
        try await demand.run(store(accessibility, groups: ["TEAM.app", "TEAM.one", "TEAM.two"]))
        #expect(keychain.items.isEmpty)
    }

    // MARK: One item for each slot

    @Test func slotsAreApart() async throws {
        let store = store(groups: ["a", "group", "other", "", "b|group=c", "c"])
        let slots = [
            CredentialSlot(service: "a", account: "b", accessGroup: "group"),
            CredentialSlot(service: "a", account: "b", accessGroup: "other"),
            CredentialSlot(service: "a", account: "b", accessGroup: ""),
            CredentialSlot(service: "a", account: "c"),
            CredentialSlot(service: "c", account: "b"),
            CredentialSlot(service: "b", account: "a"),
            CredentialSlot(service: "a", account: "b", issuer: ""),
            CredentialSlot(service: "a", account: "b", issuer: "http://127.0.0.1:1"),
            CredentialSlot(service: "a", account: "b", accessGroup: "group", issuer: "http://127.0.0.1:1"),
            // Names that look like the form of another.
            CredentialSlot(service: "a|group=group", account: "b"),
            CredentialSlot(service: "a%7Cgroup=group", account: "b"),
            CredentialSlot(service: "a|issuer=http://127.0.0.1:1", account: "b"),
            CredentialSlot(service: "a", account: "b", accessGroup: "c", issuer: "b"),
            CredentialSlot(service: "a", account: "b", issuer: "b|group=c"),
            CredentialSlot(service: "a", account: "b", accessGroup: "b|group=c"),
            CredentialSlot(service: "a|\u{301}", account: "b"),
            CredentialSlot(service: "a%7C\u{301}", account: "b"),
            // Last, because a search for it finds the items of every group.
            CredentialSlot(service: "a", account: "b"),
        ]
        for (number, slot) in slots.enumerated() { try await store.save(Secret("secret \(number)"), in: slot) }
        #expect(keychain.items.count == slots.count)
        for isDeleted in [false, true] {
            for (number, slot) in slots.enumerated() {
                let expected = isDeleted && slot == slots.last ? nil : Secret("secret \(number)")
                #expect(try await store.load(slot) == expected, "\(slot)")
            }
            try await store.delete(CredentialSlot(service: "a", account: "b"))
        }
    }

    @Test func aPersonCanReadWhatTheItemIs() async throws {
        try await store().save(Secret("x"), in: CredentialSlot(account: "work"))
        let item = try #require(keychain.items.first)
        #expect(item.service == "com.chappie.sdk")
        #expect(item.account == "work")
        #expect(item.accessGroup == "TEAM.app")
        #expect(item.label == "Chappie credential for work (com.chappie.sdk)")
        let issuer = CredentialSlot(accessGroup: "TEAM.app", issuer: "http://127.0.0.1:1")
        try await store().save(Secret("x"), in: issuer)
        #expect(keychain.items.last?.service == "com.chappie.sdk|issuer=http://127.0.0.1:1|group=TEAM.app")
    }

    @Test func `programs share only the items of their common access group`() async throws {
        let (app, widget) = (
            store(groups: ["TEAM.app", "TEAM.shared"]), store(groups: ["TEAM.widget", "TEAM.shared"])
        )
        let shared = CredentialSlot(accessGroup: "TEAM.shared")
        try await app.save(Secret("shared"), in: shared)
        try await app.save(Secret("app's"), in: slot)
        #expect(try await widget.load(shared) == Secret("shared"))
        #expect(try await widget.load(slot) == nil)
        try await widget.save(Secret("renewed"), in: shared)
        #expect(try await app.load(shared) == Secret("renewed"))
        #expect(keychain.items.count == 2)
    }

    /// The program's first group may be another one in its next version.
    @Test func anItemInAnotherGroupOfTheProgramIsKept() async throws {
        try await store(groups: ["TEAM.app", "TEAM.shared"]).save(Secret("old"), in: slot)
        let later = store(groups: ["TEAM.shared", "TEAM.app"])
        #expect(try await later.load(slot) == Secret("old"))
        try await later.save(Secret("new"), in: slot)
        #expect(keychain.items.map(\.accessGroup) == ["TEAM.app"])
    }

    @Test func aSlotWithANulIsRefused() async throws {
        for slot in [CredentialSlot(account: "a\u{0}b"), CredentialSlot(issuer: "\u{0}")] {
            await #expect(throws: CredentialStoreError.self) { try await store().save(Secret("x"), in: slot) }
        }
        #expect(keychain.made.isEmpty)
    }

    // MARK: Two stores over one keychain

    /// Adds an item as another process does, without asking whether there is one.
    private func add(_ text: String) throws -> @Sendable () -> Void {
        let (query, calls) = (try KeychainQuery(slot), keychain.calls())
        let attributes = KeychainAttributes(
            label: "", accessibility: .afterFirstUnlockThisDeviceOnly, value: Secret(text))
        return { #expect([.success, .duplicateItem].contains(calls.add(query, attributes))) }
    }

    @Test func `an item that another process adds in the meantime is replaced`() async throws {
        keychain.interrupt(.add, try add("theirs"))
        try await store().save(Secret("ours"), in: slot)
        #expect(keychain.made == [.update, .add, .add, .update, .copyMatching])
        #expect(keychain.items.map(\.value) == [Secret("ours")])
        #expect(keychain.items.map(\.accessibility) == [.whenUnlockedThisDeviceOnly])
    }

    @Test func anItemThatComesAndGoesMeanwhileIsAnError() async throws {
        let (query, calls, theirs) = (try KeychainQuery(slot), keychain.calls(), try add("theirs"))
        keychain.interrupt(.add) { [keychain] in
            theirs()
            keychain.interrupt(.update) { _ = calls.delete(query) }
        }
        await #expect(throws: CredentialStoreError.failed("another program removed the item while it was being stored"))
        { try await store().save(Secret("ours"), in: slot) }
        try await store().save(Secret("ours"), in: slot)
        #expect(keychain.items.count == 1)
    }

    @Test func aSaveThatIsOvertakenIsNotVerified() async throws {
        let (query, calls) = (try KeychainQuery(slot), keychain.calls())
        keychain.interrupt(.copyMatching) {
            let theirs = KeychainAttributes(
                label: "", accessibility: .whenUnlockedThisDeviceOnly, value: Secret("theirs"))
            #expect(calls.update(query, theirs) == .success)
        }
        await #expect(throws: CredentialStoreError.notVerified) { try await store().save(Secret("ours"), in: slot) }
        #expect(try await store().load(slot) == Secret("theirs"))
    }

    @Test func `simultaneous saves by many stores create one item`() async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<16 {
                let store = store(groups: ["TEAM.app"])
                group.addTask { [slot] in
                    // Without the lock of the credential another save may come before the read-back.
                    do { try await store.save(Secret("secret \(number)"), in: slot) } catch CredentialStoreError
                        .notVerified
                    {}
                }
            }
            try await group.waitForAll()
        }
        #expect(keychain.items.count == 1)
        let last = try await store().load(slot)
        #expect((0..<16).contains { last == Secret("secret \($0)") })
    }

    // MARK: Accessibility

    @Test func `whenUnlocked reads and stores only while the device is unlocked`() async throws {
        let store = store()
        try await store.save(Secret("old"), in: slot)
        let locked = CredentialStoreError.locked("the device is locked")
        for state in [InMemoryKeychain.Lock.locked, .notYetUnlocked] {
            keychain.set(state)
            await #expect(throws: locked) { try await store.load(slot) }
            await #expect(throws: locked) { try await store.prepareToSave(in: slot) }
            await #expect(throws: locked) { try await store.save(Secret("new"), in: slot) }
            await #expect(throws: locked) { try await store.save(Secret("x"), in: CredentialSlot(account: "new")) }
        }
        keychain.set(.unlocked)
        #expect(try await store.load(slot) == Secret("old"))
        try await store.save(Secret("new"), in: slot)
    }

    @Test func afterFirstUnlockWorksInTheBackground() async throws {
        let store = store(.afterFirstUnlockThisDeviceOnly)
        keychain.set(.notYetUnlocked)
        let locked = CredentialStoreError.locked("the device has not been unlocked since it was started")
        await #expect(throws: locked) { try await store.save(Secret("x"), in: slot) }
        keychain.set(.locked)
        try await store.save(Secret("x"), in: slot)
        try await store.prepareToSave(in: slot)
        #expect(try await store.load(slot) == Secret("x"))
        try await store.delete(slot)
        #expect(try await store.load(slot) == nil)
    }

    @Test func `a device that is locked during a save leaves the old or the new secret`() async throws {
        let (store, keychain) = (store(), keychain)
        for call in [InMemoryKeychain.Call.add, .copyMatching, .update, .copyMatching] {
            keychain.set(.unlocked)
            keychain.interrupt(call) { keychain.set(.locked) }
            await #expect(throws: CredentialStoreError.locked("the device is locked")) {
                try await store.save(Secret("after \(call)"), in: slot)
            }
        }
        keychain.set(.unlocked)
        #expect(try await store.load(slot) == Secret("after copyMatching"))
        #expect(keychain.items.count == 1)
    }

    @Test func aSaveGivesAnItemTheStoresAccessibility() async throws {
        let (strict, lenient) = (store(), store(.afterFirstUnlockThisDeviceOnly))
        try await lenient.save(Secret("x"), in: slot)
        #expect(keychain.items.map(\.accessibility) == [.afterFirstUnlockThisDeviceOnly])
        // The device can't give up its protection to store it while it is locked: the renewal has to wait.
        keychain.set(.locked)
        #expect(try await strict.load(slot) == Secret("x"))
        await #expect(throws: CredentialStoreError.locked("the device is locked")) {
            try await strict.prepareToSave(in: slot)
        }
        #expect(keychain.items.map(\.accessibility) == [.afterFirstUnlockThisDeviceOnly])
        keychain.set(.unlocked)
        try await strict.prepareToSave(in: slot)
        #expect(keychain.items.map(\.accessibility) == [.whenUnlockedThisDeviceOnly])
        #expect(try await strict.load(slot) == Secret("x"))
        try await lenient.save(Secret("y"), in: slot)
        #expect(keychain.items.map(\.accessibility) == [.afterFirstUnlockThisDeviceOnly])
    }
}
