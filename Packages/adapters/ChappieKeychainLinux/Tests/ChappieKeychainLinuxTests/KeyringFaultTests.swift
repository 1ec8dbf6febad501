@_spi(ChappieInternals) import ChappieAuth
import Foundation
import TestFixtures
import Testing

@testable import ChappieKeychainLinux

/// Everything that can be wrong with a keyring is a different error, and none is a hang.
@Suite(.enabled(if: SystemProgram.keyrings.areUsable, "\(SystemProgram.keyrings.absence)"))
struct KeyringFaultTests {
    private let slot = CredentialSlot()

    @Test func aLockedKeyringSaysSoAtOnce() async throws {
        let keyring = try await PrivateKeyring()
        let store = keyring.store
        try await store.save(Secret("secret"), in: slot)
        try await keyring.lock()
        for slot in [slot, CredentialSlot(account: "nobody")] {
            await inGoodTime {
                await #expect(throws: CredentialStoreError.isLocked) { try await store.load(slot) }
                await #expect(throws: CredentialStoreError.isLocked) { try await store.save(Secret("x"), in: slot) }
                await #expect(throws: CredentialStoreError.isLocked) { try await store.prepareToSave(in: slot) }
                await #expect(throws: CredentialStoreError.isLocked) { try await store.delete(slot) }
            }
        }
    }

    // MARK: Absent

    @Test func aBusWithoutAServiceIsAbsent() async throws {
        let bus = try await PrivateBus()
        await expectRefusal(
            "absent", saying: "no keyring service (org.freedesktop.secrets) is on the session bus", on: bus.address)
    }

    @Test(arguments: ["unix:path=/tmp/chappie-no-such-bus", "nonsense"])
    func aBusThatIsNotThereIsAbsent(address: String) async throws {
        await expectRefusal("absent", saying: "the session bus can't be reached (", on: address)
    }

    @Test func `a service without a keyring contains nothing and accepts nothing`() async throws {
        let keyring = try await PrivateKeyring(isUnlocked: false)
        #expect(try await keyring.store.load(slot) == nil)
        let words = "the keyring service has no default keyring; create one, for example with Seahorse"
        await refusal("absent", saying: words) { try await keyring.store.save(Secret("x"), in: slot) }
        await refusal("absent", saying: words) { try await keyring.store.prepareToSave(in: slot) }
    }

    // MARK: Denied

    @Test func aBusThatForbidsItIsDenied() async throws {
        let bus = try await PrivateBus(rules: #"<deny send_destination="org.freedesktop.secrets"/>"#)
        let keyring = try await PrivateKeyring(on: bus)
        await expectRefusal("denied", on: keyring.bus.address)
    }

    @Test func aServiceThatForbidsItIsDenied() async throws {
        let service = try await FakeService(#"{"refuses": true}"#)
        await expectRefusal("denied", saying: "not for this program", on: service.bus.address)
    }

    // MARK: Faults that a save finds

    @Test(arguments: [
        (#"{"creating": true, "prompt": "dismisses"}"#, "denied", "the prompt was dismissed"),
        // The service forgets the secret.
        (#"{"secret": "other"}"#, "notVerified", "gave back something else"),
        (#"{"secret": "garbled"}"#, "corrupt", "its secret can't be decoded"),
    ])
    func aSaveThatIsNotOneIsFoundOut(parameters: String, kind: String, words: String) async throws {
        let service = try await FakeService(parameters)
        await refusal(kind, saying: words) { try await service.store.save(Secret("x"), in: slot) }
        if kind == "corrupt" { await expectRefusal(kind, saying: words, on: service.bus.address) }
    }

    // MARK: Faults of one session

    @Test(arguments: [#"{"creating": true, "refused": 1}"#, #"{"creating": true, "misread": 1}"#])
    func `a session whose key is refused or misread is replaced once`(parameters: String) async throws {
        let service = try await FakeService(parameters)
        try await service.store.save(Secret("x"), in: slot)
        #expect(try await service.store.load(slot) == Secret("x"))
    }

    @Test func `a service that refuses each session is believed`() async throws {
        let service = try await FakeService(#"{"refused": 1000}"#)
        await expectRefusal("failed", saying: "Client public key size is invalid", on: service.bus.address)
    }

    // MARK: Timed out, cancelled

    /// Reads and writes each have a deadline of their own.
    private func expectTimeouts(on busAddress: String) async throws {
        let (reading, writing) = (Duration.milliseconds(300), Duration.milliseconds(500))
        let store = SecretServiceCredentialStore.forTests(
            on: busAddress, readDeadline: reading, writeDeadline: writing)
        await inGoodTime(atLeast: reading + writing * 2) {
            await #expect(throws: CredentialStoreError.timedOut(reading)) { try await store.load(slot) }
            await #expect(throws: CredentialStoreError.timedOut(writing)) {
                try await store.save(Secret("x"), in: slot)
            }
            await #expect(throws: CredentialStoreError.timedOut(writing)) { try await store.delete(slot) }
        }
    }

    @Test func aServiceThatAnswersNothingTimesOut() async throws {
        let service = try await FakeService(#"{"silent": true}"#)
        try await expectTimeouts(on: service.bus.address)
    }

    @Test func aStoppedServiceTimesOut() async throws {
        let keyring = try await PrivateKeyring()
        keyring.daemon.signal(SIGSTOP)
        try await expectTimeouts(on: keyring.bus.address)
        // And the next call works once the service does.
        keyring.daemon.signal(SIGCONT)
        #expect(try await keyring.store.load(slot) == nil)
    }

    @Test func aBusThatNeverAnswersTimesOut() async throws {
        let socket = try SilentSocket()
        try await expectTimeouts(on: socket.address)
    }

    @Test func aCancelledCallEndsAtOnce() async throws {
        let socket = try SilentSocket()
        let store = SecretServiceCredentialStore.forTests(on: socket.address)
        let task = Task { try await store.load(CredentialSlot()) }
        // Connected means that the call is under way.
        try await socket.waitForAConnection()
        await inGoodTime {
            task.cancel()
            await #expect(throws: CredentialStoreError.cancelled) { try await task.value }
        }
    }

    @Test func `a task that is cancelled before it begins does nothing`() async throws {
        let keyring = try await PrivateKeyring()
        let store = keyring.store
        let task = Task { [slot] in
            withUnsafeCurrentTask { $0?.cancel() }
            try await store.save(Secret("x"), in: slot)
        }
        await #expect(throws: CredentialStoreError.cancelled) { try await task.value }
        #expect(try await store.load(slot) == nil)
    }

    private func expectRefusal(_ kind: String, saying words: String = "", on address: String) async {
        await refusal(kind, saying: words) {
            _ = try await SecretServiceCredentialStore.forTests(on: address).load(slot)
        }
    }
}
