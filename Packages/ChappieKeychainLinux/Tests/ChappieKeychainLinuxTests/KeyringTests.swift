import ChappieAuth
import ChappieKeychainLinux
import Foundation
import TestFixtures
import Testing

/// Against the real gnome-keyring.
struct KeyringTests {
    private let slot = CredentialSlot()

    @Test func anEmptySlotGivesNil() async throws {
        let keyring = try await PrivateKeyring()
        #expect(try await keyring.store.load(slot) == nil)
    }

    @Test(arguments: [0, 1, 255, 4096, 65_536])
    func givesBackTheBytesThatWereSaved(count: Int) async throws {
        let keyring = try await PrivateKeyring()
        // Every byte value, so NUL and invalid UTF-8 as well.
        let secret = Secret((0..<count).map { UInt8(truncatingIfNeeded: $0 &* 7) })
        try await keyring.store.save(secret, in: slot)
        let loaded = try #require(try await keyring.store.load(slot))
        #expect(loaded == secret)
    }

    @Test func overwrites() async throws {
        let keyring = try await PrivateKeyring()
        try await keyring.store.save(Secret("first"), in: slot)
        try await keyring.store.save(Secret("second"), in: slot)
        #expect(try await keyring.store.load(slot) == Secret("second"))
        #expect(try await itemCount(keyring) == 1)
    }

    @Test func deletes() async throws {
        let keyring = try await PrivateKeyring()
        try await keyring.store.delete(slot)
        try await keyring.store.save(Secret("secret"), in: slot)
        try await keyring.store.delete(slot)
        #expect(try await keyring.store.load(slot) == nil)
        #expect(try await itemCount(keyring) == 0)
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
            CredentialSlot(service: "a", account: "b"),
        ]
        for (number, slot) in slots.enumerated() { try await store.save(Secret("secret \(number)"), in: slot) }
        for (number, slot) in slots.enumerated() {
            #expect(try await store.load(slot) == Secret("secret \(number)"), "\(slot)")
        }
        try await store.delete(slots[6])
        #expect(try await store.load(slots[6]) == nil)
        for (number, slot) in slots.enumerated().dropLast() {
            #expect(try await store.load(slot) == Secret("secret \(number)"), "\(slot)")
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
        try await keyring.store.save(
            Secret(#"{"token":"x"}"#), in: CredentialSlot(account: "work", accessGroup: "team"))
        let text = try await keyring.bus.searchSecrets("service", "com.chappie.sdk")
        let lines = Set(text.split(separator: "\n").map(String.init))
        #expect(
            lines.isSuperset(of: [
                "label = Chappie credential for work (com.chappie.sdk)",
                #"secret = {"token":"x"}"#,
                "schema = com.chappie.Credential",
                "attribute.service = com.chappie.sdk",
                "attribute.account = work",
                "attribute.access-group = team",
            ]), "\(text)")
    }

    @Test func withoutAGroupThereIsNoGroupAttribute() async throws {
        let keyring = try await PrivateKeyring()
        try await keyring.store.save(Secret("x"), in: slot)
        let text = try await keyring.bus.searchSecrets("service", "com.chappie.sdk")
        #expect(text.contains("attribute.account = default"))
        #expect(!text.contains("access-group"))
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

    /// What a renewal stores has no time to lose.
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
    }

    @Test func anItemThatSomebodyElseHasRemovedIsMadeAgain() async throws {
        let keyring = try await PrivateKeyring()
        try await keyring.store.save(Secret("first"), in: slot)
        #expect(try await keyring.store.load(slot) == Secret("first"))
        try await SystemProgram.secretTool.run(
            ["clear", "service", slot.service, "account", slot.account], environment: keyring.bus.environment)
        try await keyring.store.save(Secret("second"), in: slot)
        #expect(try await keyring.store.load(slot) == Secret("second"))
        #expect(try await itemCount(keyring) == 1)
    }

    @Test func aSaveAfterADeleteMakesANewItem() async throws {
        let keyring = try await PrivateKeyring()
        try await keyring.store.save(Secret("first"), in: slot)
        try await keyring.store.delete(slot)
        try await keyring.store.save(Secret("second"), in: slot)
        #expect(try await keyring.store.load(slot) == Secret("second"))
        #expect(try await itemCount(keyring) == 1)
    }

    @Test func aSlotWithANulIsRefused() async throws {
        let keyring = try await PrivateKeyring()
        let error = await #expect(throws: CredentialStoreError.self) {
            try await keyring.store.save(Secret("x"), in: CredentialSlot(account: "a\u{0}b"))
        }
        guard case .failed(let detail) = error else {
            Issue.record("not failed: \(String(describing: error))")
            return
        }
        #expect(detail.contains("NUL"))
    }

    /// How many connections the bus has had so far, that of the question included.
    private func connectionCount(_ keyring: PrivateKeyring) async throws -> Int {
        let names = try await keyring.bus.call(
            "org.freedesktop.DBus.ListNames", at: "/org/freedesktop/DBus", in: "org.freedesktop.DBus")
        let numbers = names.split(whereSeparator: { "':, ()[]".contains($0) }).compactMap { name in
            name.hasPrefix("1.") ? Int(name.dropFirst(2)) : nil
        }
        return try #require(numbers.max())
    }

    private func itemCount(_ keyring: PrivateKeyring) async throws -> Int {
        let text = try await keyring.bus.searchSecrets("xdg:schema", "com.chappie.Credential")
        return text.split(separator: "\n").filter { $0.hasPrefix("label = ") }.count
    }
}
