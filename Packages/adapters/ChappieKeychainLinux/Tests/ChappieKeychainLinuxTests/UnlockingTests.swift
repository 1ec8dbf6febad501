@_spi(ChappieInternals) import ChappieAuth
import TestFixtures
import Testing

@testable import ChappieKeychainLinux

/// Only a user who is asked opens a locked keyring, and only if prompts are allowed.
@Suite(.enabled(if: SystemProgram.keyrings.areUsable, "\(SystemProgram.keyrings.absence)"))
struct UnlockingTests {
    private let slot = CredentialSlot()

    private func asking(
        on bus: PrivateBus, within deadline: Duration = Patience.limit
    ) -> SecretServiceCredentialStore {
        .forTests(on: bus.address, unlocking: .promptAllowed(deadline: deadline))
    }

    // MARK: gnome-keyring

    @Test func gnomeKeyringIsUnlockedByItsPrompt() async throws {
        let keyring = try await PrivateKeyring()
        try await keyring.answerPrompts(with: PrivateKeyring.password)
        let asking = asking(on: keyring.bus)
        try await asking.save(Secret("secret"), in: slot)
        try await keyring.lock()
        await #expect(throws: CredentialStoreError.isLocked) { try await keyring.store.load(slot) }
        #expect(try await asking.load(slot) == Secret("secret"))
        // An open keyring is open for a store that may not ask, too.
        #expect(try await keyring.store.load(slot) == Secret("secret"))
    }

    @Test func `GNOME Keyring is unlocked for a save, even into an empty slot`() async throws {
        let keyring = try await PrivateKeyring()
        try await keyring.answerPrompts(with: PrivateKeyring.password)
        try await keyring.lock()
        try await asking(on: keyring.bus).save(Secret("secret"), in: slot)
        #expect(try await keyring.store.load(slot) == Secret("secret"))
    }

    @Test func aWrongPasswordAndThenACancelIsDenied() async throws {
        let keyring = try await PrivateKeyring()
        try await keyring.answerPrompts(with: "wrong")
        try await keyring.lock()
        await #expect(throws: CredentialStoreError.denied("the prompt was dismissed")) {
            try await asking(on: keyring.bus).load(slot)
        }
    }

    // MARK: A fake service with a set answer to its prompt

    @Test func anAcceptedPromptOpensTheKeyring() async throws {
        let service = try await FakeService(#"{"locked": true}"#)
        let asking = asking(on: service.bus)
        try await asking.prepareToSave(in: slot)
        #expect(try await service.promptCalls("Prompt") == 1)
        #expect(try await asking.load(slot) == Secret("stored"))
        try await asking.save(Secret("other"), in: slot)
        #expect(try await asking.load(slot) == Secret("other"))
        #expect(try await service.promptCalls("Prompt") == 1)
    }

    @Test func theUserIsNotAskedWithoutPermission() async throws {
        let service = try await FakeService(#"{"locked": true}"#)
        await expectRefusals(.isLocked, of: service.store)
        #expect(try await service.promptCalls("Prompt") == 0)
        // A prompt that is not shown is given back.
        #expect(try await service.promptCalls("Dismiss") == 3)
    }

    @Test func `a prompt of KWallet that does not end is taken back and the keyring is locked`() async throws {
        let service = try await FakeService(#"{"locked": true, "kwallet": true, "prompt": "waits"}"#)
        await inGoodTime(atLeast: KWallet.patience) {
            await #expect(throws: CredentialStoreError.isLocked) { try await service.store.load(slot) }
        }
        #expect(try await service.promptCalls("Prompt") == 1)
        #expect(try await service.promptCalls("Dismiss") == 1)
    }

    @Test(arguments: ["accepts", "dismisses"])
    func `a prompt of an open KWallet is answered at once`(how: String) async throws {
        let service = try await FakeService(#"{"locked": true, "kwallet": true, "prompt": "\#(how)"}"#)
        if how == "accepts" {
            #expect(try await service.store.load(slot) == Secret("stored"))
        } else {
            await #expect(throws: CredentialStoreError.isLocked) { try await service.store.load(slot) }
        }
        #expect(try await service.promptCalls("Prompt") == 1)
    }

    @Test func aDismissedPromptIsDenied() async throws {
        let service = try await FakeService(#"{"locked": true, "prompt": "dismisses"}"#)
        await expectRefusals(.denied("the prompt was dismissed"), of: asking(on: service.bus))
    }

    private func expectRefusals(_ error: CredentialStoreError, of store: SecretServiceCredentialStore) async {
        await #expect(throws: error) { try await store.load(slot) }
        await #expect(throws: error) { try await store.save(Secret("x"), in: slot) }
        await #expect(throws: error) { try await store.delete(slot) }
    }

    /// One service takes the prompt back on request; the other ignores the request.
    @Test(arguments: ["waits", "ignores"])
    func `an unanswered prompt is withdrawn at its own deadline`(how: String) async throws {
        let service = try await FakeService(#"{"locked": true, "prompt": "\#(how)"}"#)
        let limit = Duration.milliseconds(400)
        await inGoodTime {
            await #expect(throws: CredentialStoreError.timedOut(limit)) {
                try await asking(on: service.bus, within: limit).load(slot)
            }
        }
        // The keyring's thread is free again, and gives back a prompt that it has not shown.
        await #expect(throws: CredentialStoreError.isLocked) { try await service.store.load(slot) }
        #expect(try await service.promptCalls("Prompt") == 1)
        #expect(try await service.promptCalls("Dismiss") == 2)
    }

    @Test func aServiceThatGoesAwayWhileItAsksIsAbsent() async throws {
        let service = try await FakeService(#"{"locked": true, "prompt": "leaves"}"#)
        await #expect(throws: CredentialStoreError.absent("the keyring service went away while it asked the user")) {
            try await asking(on: service.bus).load(slot)
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
        let asking = asking(on: service.bus)
        let task = Task { [slot] in try await asking.load(slot) }
        #expect(try await eventually { try await service.promptCalls("Prompt") == 1 })
        await inGoodTime {
            task.cancel()
            await #expect(throws: CredentialStoreError.cancelled) { try await task.value }
        }
        // Behind the other on the same thread, so the prompt has been taken back when it returns. It gives back its own.
        await #expect(throws: CredentialStoreError.isLocked) { try await service.store.load(slot) }
        #expect(try await service.promptCalls("Prompt") == 1)
        #expect(try await service.promptCalls("Dismiss") == 2)
    }
}
