import ChappieAuth
import ChappieTesting
import FoundationEssentials
import Testing

@testable import ChappieKeychainApple

/// Two programs of one access group, over a keychain in memory.
struct KeychainSharingTests {
    private let keychain = InMemoryKeychain()
    private let clock = ManualClock()
    private let slot = CredentialSlot(accessGroup: "TEAM.shared")

    private func program(_ name: String) -> KeychainCredentialStore {
        KeychainCredentialStore(clock: clock, calls: keychain.calls(accessGroups: ["TEAM.\(name)", "TEAM.shared"]))
    }

    private func lease(_ store: KeychainCredentialStore) async throws -> CredentialLockHold {
        try await store.lock.acquire(slot, within: .zero)
    }

    @Test(arguments: SharedCredentialStoreContract.cases)
    func keepsTheContract(_ demand: SharedCredentialStoreContract.Case) async throws {
        try await demand.run { KeychainCredentialStore(calls: keychain.calls(accessGroups: ["TEAM.shared"])) }
    }

    @Test(arguments: RegistrationStoreContract.cases)
    func keepsTheContractOfRegistrations(_ demand: RegistrationStoreContract.Case) async throws {
        let groups = ["TEAM.app", "other", "group", ""]
        try await demand.run(KeychainRegistrationStore(calls: keychain.calls(accessGroups: groups)))
    }

    @Test func `the access group is all that two programs need in common`() async throws {
        let (app, widget) = (program("app"), program("widget"))
        var hold: CredentialLockHold? = try await lease(app)
        await #expect(throws: CredentialStoreError.busy(.zero)) { try await lease(widget) }
        try await app.save(Secret("new"), in: slot)
        withExtendedLifetime(hold) {}
        hold = nil
        _ = try await app.load(slot)  // The release is before it in the queue of the store.
        _ = try await lease(widget)
        #expect(try await widget.load(slot) == Secret("new"))
        #expect(Set(keychain.items.map(\.accessGroup)) == ["TEAM.shared"])
        let stranger = KeychainCredentialStore(clock: clock, calls: keychain.calls(accessGroups: ["TEAM.stranger"]))
        await #expect(
            throws: CredentialStoreError.denied("this program has no entitlement for the access group TEAM.shared")
        ) { try await lease(stranger) }
    }

    @Test func `a holder that was suspended for too long changes nothing`() async throws {
        let (app, widget) = (program("app"), program("widget"))
        try await app.save(Secret("old"), in: slot)
        let late = try await lease(app)
        clock.advance(by: KeychainLeases.lifetime + .seconds(1))
        let hold = try await lease(widget)
        try await widget.save(Secret("widget's"), in: slot)
        await #expect(throws: CredentialStoreError.overtaken) { try await app.prepareToSave(in: slot) }
        await #expect(throws: CredentialStoreError.overtaken) { try await app.save(Secret("late"), in: slot) }
        await #expect(throws: CredentialStoreError.overtaken) { try await app.delete(slot) }
        #expect(try await app.load(slot) == Secret("widget's"))
        withExtendedLifetime(late) {}
        withExtendedLifetime(hold) {}
    }

    @Test func `the release of an overtaken lease leaves the next one`() async throws {
        let (app, widget) = (program("app"), program("widget"))
        var late: CredentialLockHold? = try await lease(app)
        clock.advance(by: KeychainLeases.lifetime + .seconds(1))
        let hold = try await lease(widget)
        withExtendedLifetime(late) {}
        late = nil
        _ = try await app.load(slot)
        await #expect(throws: CredentialStoreError.busy(.zero)) { try await lease(app) }
        withExtendedLifetime(hold) {}
    }

    @Test func `a lease lasts from the last call before the token is sent`() async throws {
        let (app, widget) = (program("app"), program("widget"))
        let hold = try await lease(app)
        clock.advance(by: .seconds(60))
        try await app.prepareToSave(in: slot)
        clock.advance(by: .seconds(60))
        await #expect(throws: CredentialStoreError.busy(.zero)) { try await lease(widget) }
        try await app.save(Secret("x"), in: slot)
        withExtendedLifetime(hold) {}
    }

    /// Another process ends and removes its lease between the two looks of this one.
    @Test func `a lease that is removed in the meantime is free`() async throws {
        let (app, widget) = (program("app"), program("widget"))
        let hold = try await lease(app)
        let query = try KeychainQuery(slot, .lease)
        keychain.interrupt(.copyMatching) { [keychain] in
            _ = keychain.calls(accessGroups: ["TEAM.shared"]).delete(query)
        }
        _ = try await lease(widget)
        withExtendedLifetime(hold) {}
    }

    /// The lease that was read has ended, and a third process has replaced it since.
    @Test func `only the lease that was read is removed`() async throws {
        let (app, widget, third) = (program("app"), program("widget"), program("third"))
        let late = try await lease(app)
        clock.advance(by: KeychainLeases.lifetime + .seconds(1))
        let (query, clock) = (try KeychainQuery(slot, .lease), clock)
        keychain.interrupt(.delete) { [keychain] in
            let calls = keychain.calls(accessGroups: ["TEAM.shared"])
            _ = calls.delete(query)
            var theirs = query
            theirs.owner = Array(repeating: 7, count: 16)
            let end = UInt64((clock.now.timeIntervalSince1970 + 10) * 1000)
            let value = Secret(
                Array(repeating: 7, count: 16) + (0..<8).reversed().map { UInt8(truncatingIfNeeded: end >> ($0 * 8)) })
            _ = calls.add(
                theirs,
                KeychainAttributes(label: "", accessibility: .afterFirstUnlockThisDeviceOnly, value: value))
        }
        await #expect(throws: CredentialStoreError.busy(.zero)) { try await lease(widget) }
        await #expect(throws: CredentialStoreError.busy(.zero)) { try await lease(third) }
        withExtendedLifetime(late) {}
    }

    @Test func `a clock that was set back delays no one for longer than a lease`() async throws {
        let hold = try await lease(program("app"))
        clock.setWall(to: clock.now.addingTimeInterval(-86_400))
        _ = try await lease(program("widget"))
        withExtendedLifetime(hold) {}
    }

    @Test(arguments: [Secret("x"), Secret(Array(repeating: 0, count: 25)), nil])
    func `what is no lease is replaced`(_ value: Secret?) async throws {
        let calls = keychain.calls(accessGroups: ["TEAM.shared"])
        _ = calls.add(
            try KeychainQuery(slot, .lease),
            KeychainAttributes(label: "", accessibility: .afterFirstUnlockThisDeviceOnly, value: value))
        _ = try await lease(program("app"))
    }

    @Test func `a renewal and a sign-out in the background find their lease and note`() async throws {
        let app = program("app")
        keychain.set(.locked)
        let hold = try await lease(app)
        app.notes.setNote([1], for: slot)
        #expect(program("widget").notes.note(for: slot) == [1])
        withExtendedLifetime(hold) {}
        keychain.set(.notYetUnlocked)
        let locked = CredentialStoreError.locked("the device has not been unlocked since it was started")
        await #expect(throws: locked) { try await program("widget").lock.acquire(slot, within: .zero) }
    }

    // MARK: Registrations

    @Test func `two programs have one registration and one id of the machine`() async throws {
        let app = KeychainRegistrationStore(
            accessGroup: "TEAM.shared", calls: keychain.calls(accessGroups: ["TEAM.app", "TEAM.shared"]))
        let widget = KeychainRegistrationStore(
            accessGroup: "TEAM.shared", calls: keychain.calls(accessGroups: ["TEAM.widget", "TEAM.shared"]))
        let registration = ChappieClientRegistration(clientID: "oaiapp_1", subject: "user", appName: "Notes")
        try await app.save(registration, for: slot)
        #expect(try await widget.registration(for: slot) == registration)
        #expect(try await app.hostID() == widget.hostID())
        let own = KeychainRegistrationStore(calls: keychain.calls(accessGroups: ["TEAM.other"]))
        #expect(try await own.hostID() != app.hostID())
    }

    @Test(arguments: [#"{"clientID":"a b","appName":"N"}"#, #"{"appName":"N"}"#, "", "\u{0}"])
    func `a registration of another form is an error and stays`(_ text: String) async throws {
        let calls = keychain.calls()
        let slot = CredentialSlot()
        _ = calls.add(
            try KeychainQuery(slot, .registration),
            KeychainAttributes(label: "", accessibility: .afterFirstUnlockThisDeviceOnly, value: Secret(text)))
        await #expect(
            throws: CredentialStoreError.corrupt("the keychain's item with the registration of this app can't be read")
        ) { try await KeychainRegistrationStore(calls: calls).registration(for: slot) }
        #expect(keychain.items.map(\.value) == [Secret(text)])
    }
}
