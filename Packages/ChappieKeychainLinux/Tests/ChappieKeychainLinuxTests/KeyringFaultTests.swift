@_spi(ChappieInternals) import ChappieAuth
import ChappieTesting
import Foundation
import TestFixtures
import Testing

@testable import ChappieKeychainLinux

/// Everything that can be wrong with a keyring is a different error, and none is a hang.
@Suite(.enabled(if: SystemProgram.keyrings.areUsable, "\(SystemProgram.keyrings.absence)"))
struct KeyringFaultTests {
    private let slot = CredentialSlot()

    // MARK: Locked

    @Test func aLockedKeyringSaysSoAtOnce() async throws {
        let keyring = try await PrivateKeyring()
        try await keyring.store.save(Secret("secret"), in: slot)
        try await keyring.lock()
        let empty = CredentialSlot(account: "nobody")
        try await expectLocked { _ = try await keyring.store.load(slot) }
        try await expectLocked { _ = try await keyring.store.load(empty) }
        try await expectLocked { try await keyring.store.save(Secret("other"), in: slot) }
        try await expectLocked { try await keyring.store.save(Secret("other"), in: empty) }
        try await expectLocked { try await keyring.store.prepareToSave(in: slot) }
        try await expectLocked { try await keyring.store.prepareToSave(in: empty) }
        try await expectLocked { try await keyring.store.delete(slot) }
        try await expectLocked { try await keyring.store.delete(empty) }
    }

    // MARK: Absent

    @Test func aBusWithoutAServiceIsAbsent() async throws {
        let bus = try await PrivateBus()
        let error = await failure(of: .forTests(on: bus.address))
        #expect(error == .absent("no keyring service (org.freedesktop.secrets) is on the session bus"))
    }

    @Test func aBusThatIsNotThereIsAbsent() async throws {
        let store = SecretServiceCredentialStore.forTests(on: "unix:path=/tmp/chappie-no-such-bus")
        guard case .absent(let detail) = await failure(of: store) else {
            Issue.record("not absent")
            return
        }
        #expect(detail.hasPrefix("the session bus can't be reached ("))
    }

    @Test func anAddressThatIsNoneIsAbsent() async throws {
        guard case .absent = await failure(of: .forTests(on: "nonsense")) else {
            Issue.record("not absent")
            return
        }
    }

    @Test func aServiceWithoutAKeyringHasNothingAndTakesNothing() async throws {
        let keyring = try await PrivateKeyring(isUnlocked: false)
        #expect(try await keyring.store.load(slot) == nil)
        let absent = CredentialStoreError.absent(
            "the keyring service has no default keyring; create one, for example with Seahorse")
        await #expect(throws: absent) { try await keyring.store.save(Secret("x"), in: slot) }
        await #expect(throws: absent) { try await keyring.store.prepareToSave(in: slot) }
    }

    // MARK: Denied

    @Test func aBusThatForbidsItIsDenied() async throws {
        let bus = try await PrivateBus(rules: #"<deny send_destination="org.freedesktop.secrets"/>"#)
        let keyring = try await PrivateKeyring(on: bus)
        guard case .denied = await failure(of: keyring.store) else {
            Issue.record("not denied")
            return
        }
    }

    @Test func aServiceThatForbidsItIsDenied() async throws {
        let service = try await FakeService(#"{"refuses": true}"#)
        #expect(await failure(of: service.store) == .denied("not for this program"))
    }

    @Test func aDismissedPromptIsDenied() async throws {
        let service = try await FakeService(#"{"creating": true, "prompt": "dismisses"}"#)
        let error = await #expect(throws: CredentialStoreError.self) {
            try await service.store.save(Secret("x"), in: slot)
        }
        #expect(error == .denied("the prompt was dismissed"))
    }

    // MARK: Not verified

    @Test func aServiceThatForgetsIsFoundOut() async throws {
        let service = try await FakeService(#"{"secret": "other"}"#)
        let error = await #expect(throws: CredentialStoreError.self) {
            try await service.store.save(Secret("x"), in: slot)
        }
        #expect(error == .notVerified)
    }

    // MARK: Corrupt

    @Test func aSecretThatCannotBeDecodedIsCorrupt() async throws {
        let service = try await FakeService(#"{"secret": "garbled"}"#)
        let error = await #expect(throws: CredentialStoreError.self) {
            try await service.store.save(Secret("x"), in: slot)
        }
        guard case .corrupt = error else {
            Issue.record("not corrupt: \(String(describing: error))")
            return
        }
        let again = await failure(of: service.store)
        #expect(again == error)
    }

    // MARK: Timed out

    @Test func aServiceThatAnswersNothingTimesOut() async throws {
        let service = try await FakeService(#"{"silent": true}"#)
        try await expectTimeout(busAddress: service.bus.address)
    }

    @Test func aStoppedServiceTimesOut() async throws {
        let keyring = try await PrivateKeyring()
        keyring.daemon.signal(SIGSTOP)
        try await expectTimeout(busAddress: keyring.bus.address)
        // And the next call works once the service does.
        keyring.daemon.signal(SIGCONT)
        #expect(try await keyring.store.load(slot) == nil)
    }

    @Test func aBusThatNeverAnswersTimesOut() async throws {
        let socket = try SilentSocket()
        try await expectTimeout(busAddress: "unix:path=\(socket.path)")
    }

    @Test func aCancelledCallEndsAtOnce() async throws {
        let socket = try SilentSocket()
        let store = SecretServiceCredentialStore.forTests(on: "unix:path=\(socket.path)")
        let clock = ContinuousClock()
        let task = Task { try await store.load(CredentialSlot()) }
        // Connected means that the call is under way.
        try await socket.waitForAConnection()
        let start = clock.now
        task.cancel()
        let result = await task.result
        #expect(clock.now - start < Patience.limit)
        #expect(throws: CredentialStoreError.failed("the call was cancelled")) { try result.get() }
    }

    @Test func aTaskThatIsCancelledBeforeItBeginsDoesNothing() async throws {
        let keyring = try await PrivateKeyring()
        let store = keyring.store
        let slot = slot
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            try await store.save(Secret("x"), in: slot)
        }
        await #expect(throws: CredentialStoreError.failed("the call was cancelled")) { try await task.value }
        #expect(try await store.load(slot) == nil)
    }

    // MARK: Helpers

    private func expectLocked(_ body: () async throws -> Void) async throws {
        let start = ContinuousClock.now
        let error = await #expect(throws: CredentialStoreError.self) { try await body() }
        #expect(error == .isLocked)
        #expect(ContinuousClock.now - start < Patience.limit)
    }

    /// Reads and writes each have a deadline of their own.
    private func expectTimeout(busAddress: String) async throws {
        let (reading, writing) = (Duration.milliseconds(300), Duration.milliseconds(500))
        let store = SecretServiceCredentialStore.forTests(
            on: busAddress, readDeadline: reading, writeDeadline: writing)
        try await expectTimeout(reading) { _ = try await store.load(slot) }
        try await expectTimeout(writing) { try await store.save(Secret("x"), in: slot) }
        try await expectTimeout(writing) { try await store.delete(slot) }
    }

    private func expectTimeout(_ deadline: Duration, of body: () async throws -> Void) async throws {
        let start = ContinuousClock.now
        await #expect(throws: CredentialStoreError.timedOut(deadline)) { try await body() }
        let elapsed = ContinuousClock.now - start
        #expect(elapsed >= deadline)
        #expect(elapsed < Patience.limit)
    }

    private func failure(of store: SecretServiceCredentialStore) async -> CredentialStoreError? {
        await #expect(throws: CredentialStoreError.self) { try await store.load(slot) }
    }
}
