@_spi(ChappieInternals) import ChappieAuth
import TestFixtures
import Testing

@testable import ChappieKeychainLinux

/// A locked keyring is opened only by a person who is asked, and only where that is allowed.
@Suite(.enabled(if: SystemProgram.keyrings.areUsable, "\(SystemProgram.keyrings.absence)"))
struct UnlockingTests {
    private let slot = CredentialSlot()
    private let unlocking = SecretServiceCredentialStore.Unlocking.promptAllowed(deadline: .seconds(60))

    // MARK: gnome-keyring

    @Test func gnomeKeyringIsUnlockedByItsPrompt() async throws {
        let keyring = try await PrivateKeyring()
        try await keyring.answerPrompts(with: PrivateKeyring.password)
        let asking = SecretServiceCredentialStore.forTests(on: keyring.bus.address, unlocking: unlocking)
        try await asking.save(Secret("secret"), in: slot)
        try await keyring.lock()
        await #expect(throws: CredentialStoreError.isLocked) {
            try await keyring.store.load(slot)
        }
        #expect(try await asking.load(slot) == Secret("secret"))
        // Open is open, also for those that may not ask.
        #expect(try await keyring.store.load(slot) == Secret("secret"))
    }

    @Test func gnomeKeyringIsUnlockedForASaveAndForAnEmptySlot() async throws {
        let keyring = try await PrivateKeyring()
        try await keyring.answerPrompts(with: PrivateKeyring.password)
        let asking = SecretServiceCredentialStore.forTests(on: keyring.bus.address, unlocking: unlocking)
        try await keyring.lock()
        try await asking.save(Secret("secret"), in: slot)
        #expect(try await keyring.store.load(slot) == Secret("secret"))
    }

    @Test func aWrongPasswordAndThenACancelIsDenied() async throws {
        let keyring = try await PrivateKeyring()
        try await keyring.answerPrompts(with: "wrong")
        try await keyring.lock()
        await #expect(throws: CredentialStoreError.denied("the prompt was dismissed")) {
            try await SecretServiceCredentialStore.forTests(on: keyring.bus.address, unlocking: unlocking).load(slot)
        }
    }

    // MARK: A service that is told how the prompt is answered

    @Test func anAcceptedPromptOpensTheKeyring() async throws {
        let service = try await FakeService(#"{"locked": true}"#)
        let asking = SecretServiceCredentialStore.forTests(on: service.bus.address, unlocking: unlocking)
        #expect(try await asking.load(slot) == Secret("stored"))
        #expect(try await service.promptCalls("Prompt") == 1)
        try await asking.save(Secret("other"), in: slot)
        #expect(try await asking.load(slot) == Secret("other"))
        #expect(try await service.promptCalls("Prompt") == 1)
    }

    @Test func preparingToSaveAsksBeforeTheSave() async throws {
        let service = try await FakeService(#"{"locked": true}"#)
        let asking = SecretServiceCredentialStore.forTests(on: service.bus.address, unlocking: unlocking)
        try await asking.prepareToSave(in: slot)
        #expect(try await service.promptCalls("Prompt") == 1)
        #expect(try await asking.load(slot) == Secret("stored"))
        try await asking.save(Secret("other"), in: slot)
        #expect(try await service.promptCalls("Prompt") == 1)
    }

    @Test func theUserIsNotAskedWithoutPermission() async throws {
        let service = try await FakeService(#"{"locked": true}"#)
        let locked = CredentialStoreError.isLocked
        await #expect(throws: locked) { try await service.store.load(slot) }
        await #expect(throws: locked) { try await service.store.save(Secret("x"), in: slot) }
        await #expect(throws: locked) { try await service.store.delete(slot) }
        #expect(try await service.promptCalls("Prompt") == 0)
    }

    @Test func aDismissedPromptIsDenied() async throws {
        let service = try await FakeService(#"{"locked": true, "prompt": "dismisses"}"#)
        let asking = SecretServiceCredentialStore.forTests(on: service.bus.address, unlocking: unlocking)
        let denied = CredentialStoreError.denied("the prompt was dismissed")
        await #expect(throws: denied) { try await asking.load(slot) }
        await #expect(throws: denied) { try await asking.save(Secret("x"), in: slot) }
        await #expect(throws: denied) { try await asking.delete(slot) }
    }

    /// A service that takes the prompt back when it is told to, and one that does not listen any more.
    @Test(arguments: ["waits", "ignores"])
    func anUnansweredPromptIsTakenBackAtItsOwnDeadline(how: String) async throws {
        let service = try await FakeService(#"{"locked": true, "prompt": "\#(how)"}"#)
        let limit = Duration.milliseconds(400)
        let asking = SecretServiceCredentialStore.forTests(
            on: service.bus.address, unlocking: .promptAllowed(deadline: limit))
        let start = ContinuousClock.now
        await #expect(throws: CredentialStoreError.timedOut(limit)) { try await asking.load(slot) }
        #expect(ContinuousClock.now - start < Patience.limit)
        // The keyring's thread is free again.
        await #expect(throws: CredentialStoreError.isLocked) {
            try await service.store.load(slot)
        }
        #expect(try await service.promptCalls("Dismiss") == 1)
    }

    @Test func aServiceThatGoesAwayWhileItAsksIsAbsent() async throws {
        let service = try await FakeService(#"{"locked": true, "prompt": "leaves"}"#)
        let asking = SecretServiceCredentialStore.forTests(on: service.bus.address, unlocking: unlocking)
        await #expect(throws: CredentialStoreError.absent("the keyring service went away while it asked the user")) {
            try await asking.load(slot)
        }
    }

    @Test(arguments: ["waits", "ignores"])
    func anUnansweredPromptForANewItemTimesOut(how: String) async throws {
        let service = try await FakeService(#"{"creating": true, "prompt": "\#(how)"}"#)
        let limit = Duration.milliseconds(600)
        let impatient = SecretServiceCredentialStore.forTests(on: service.bus.address, writeDeadline: limit)
        await #expect(throws: CredentialStoreError.timedOut(limit)) { try await impatient.save(Secret("x"), in: slot) }
        // The keyring's thread is free again.
        #expect(try await service.store.load(slot) == nil)
    }

    @Test func anAcceptedPromptForANewItemMakesIt() async throws {
        let service = try await FakeService(#"{"creating": true}"#)
        try await service.store.save(Secret("x"), in: slot)
        #expect(try await service.store.load(slot) == Secret("x"))
    }

    @Test func cancellingTakesThePromptBack() async throws {
        let service = try await FakeService(#"{"locked": true, "prompt": "waits"}"#)
        let asking = SecretServiceCredentialStore.forTests(on: service.bus.address, unlocking: unlocking)
        let slot = slot
        let task = Task { try await asking.load(slot) }
        while try await service.promptCalls("Prompt") == 0 {}
        let start = ContinuousClock.now
        task.cancel()
        await #expect(throws: CredentialStoreError.failed("the call was cancelled")) { try await task.value }
        #expect(ContinuousClock.now - start < Patience.limit)
        // Behind the other on the same thread, so the prompt has been taken back when it returns.
        await #expect(throws: CredentialStoreError.self) { try await service.store.load(slot) }
        #expect(try await service.promptCalls("Dismiss") == 1)
    }
}
