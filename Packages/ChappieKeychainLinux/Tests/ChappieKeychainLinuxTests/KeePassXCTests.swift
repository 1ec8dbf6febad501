import ChappieAuth
import ChappieKeychainLinux
import ChappieTesting
import Testing

/// Against the real KeePassXC.
struct KeePassXCTests {
    private let slot = CredentialSlot(account: "work", accessGroup: "team")

    /// One program for all cases: starting it takes longer than any of them.
    @Test func keepsTheContract() async throws {
        let keePassXC = try await PrivateKeePassXC()
        for demand in CredentialStoreContract.cases {
            do {
                try await demand.run(keePassXC.store)
            } catch {
                Issue.record(error, "\(demand)")
            }
        }
    }

    @Test func aPersonCanReadWhatTheEntryIs() async throws {
        let keePassXC = try await PrivateKeePassXC()
        try await keePassXC.store.save(Secret("x"), in: slot)
        let text = try await Tool.secretTool.run(
            ["search", "--all", "service", "com.chappie.sdk"], environment: keePassXC.bus.environment)
        let lines = Set(text.split(separator: "\n").map(String.init))
        #expect(
            lines.isSuperset(of: [
                "label = Chappie credential for work (com.chappie.sdk)", "secret = x",
                "attribute.service = com.chappie.sdk", "attribute.account = work", "attribute.access-group = team",
            ]), "\(text)")
    }

    @Test func aLockedDatabaseIsLocked() async throws {
        let keePassXC = try await PrivateKeePassXC()
        try await keePassXC.store.save(Secret("x"), in: slot)
        try await keePassXC.lock()
        let locked = CredentialStoreError.locked("it has to be unlocked before it can be used")
        await #expect(throws: locked) { try await keePassXC.store.load(slot) }
        await #expect(throws: locked) { try await keePassXC.store.save(Secret("y"), in: slot) }
    }

    @Test func anEntryThatHasToBeConfirmedIsLocked() async throws {
        let keePassXC = try await PrivateKeePassXC(confirmsAccess: true)
        try await keePassXC.store.save(Secret("x"), in: slot)
        // Whoever has made an entry may read it over the same connection; another way to the bus has another one.
        let address = keePassXC.bus.address + ";" + keePassXC.bus.address
        await #expect(throws: CredentialStoreError.locked("it has to be unlocked before it can be used")) {
            try await SecretServiceCredentialStore.forTests(on: address).load(slot)
        }
        // Nobody sits in front of it: the question goes unanswered, and is taken back.
        let limit = Duration.milliseconds(500)
        let asking = SecretServiceCredentialStore.forTests(
            on: address, unlocking: .promptAllowed(deadline: limit))
        let start = ContinuousClock.now
        await #expect(throws: CredentialStoreError.self) { try await asking.load(slot) }
        #expect(ContinuousClock.now - start < .seconds(30))
    }
}
