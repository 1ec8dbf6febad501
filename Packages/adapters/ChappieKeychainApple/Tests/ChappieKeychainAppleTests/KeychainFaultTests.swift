import ChappieAuth
import ChappieTesting
import Dispatch
import FoundationEssentials
import Testing

@testable import ChappieKeychainApple

/// The answers of a keychain that fails.
struct KeychainFaultTests {
    private let keychain = InMemoryKeychain()
    private let slot = CredentialSlot()
    private var store: KeychainCredentialStore { KeychainCredentialStore(calls: keychain.calls()) }

    /// A call of a store, and the call of the keychain that is its first.
    private struct Use: Sendable {
        let call: InMemoryKeychain.Call
        let perform: @Sendable (KeychainCredentialStore, CredentialSlot) async throws -> Void
    }

    private static let uses = [
        Use(call: .copyMatching) { _ = try await $0.load($1) },
        Use(call: .update) { try await $0.prepareToSave(in: $1) },
        Use(call: .update) { try await $0.save(Secret("new"), in: $1) }, Use(call: .delete) { try await $0.delete($1) },
    ]

    @Test(
        arguments: [
            (.interactionNotAllowed, .locked("the device is locked")),
            (.inDarkWake, .locked("the device is locked")),
            (
                .missingEntitlement,
                .denied("this program is not signed with an application identifier; without one, use `.encryptedFile`")
            ),
            (.userCanceled, .denied("the user cancelled the system's question")),
            (.authFailed, .denied("the system could not verify the user")),
            (.notAvailable, .absent("the system has none for this session")),
            // errSecParam, and a number that no page names.
            (KeychainStatus(rawValue: -50), .failed("the keychain answered with status -50")),
            (KeychainStatus(rawValue: .min), .failed("the keychain answered with status -2147483648")),
        ] as [(KeychainStatus, CredentialStoreError)])
    func everyStatusIsAnErrorOfThePort(_ status: KeychainStatus, _ error: CredentialStoreError) async throws {
        try await store.save(Secret("old"), in: slot)
        for use in Self.uses {
            keychain.fail(use.call, with: status)
            await #expect(throws: error) { try await use.perform(store, slot) }
            keychain.fail(use.call, with: nil)
            #expect(try await store.load(slot) == Secret("old"))
        }
    }

    @Test func aStatusOfALaterStepIsAnErrorToo() async throws {
        keychain.fail(.add, with: .userCanceled)
        await #expect(throws: CredentialStoreError.denied("the user cancelled the system's question")) {
            try await store.save(Secret("x"), in: slot)
        }
        #expect(keychain.items.isEmpty)
        keychain.fail(.add, with: nil)
        keychain.fail(.copyMatching, with: .authFailed)
        await #expect(throws: CredentialStoreError.denied("the system could not verify the user")) {
            try await store.save(Secret("x"), in: slot)
        }
        // An item that is there for the keychain, and that no search finds.
        keychain.fail(.update, with: .itemNotFound)
        await #expect(throws: CredentialStoreError.failed("another program removed the item while it was being stored"))
        { try await store.save(Secret("y"), in: slot) }
        #expect(keychain.items.map(\.value) == [Secret("x")])
    }

    @Test func aWriteThatIsNotReadBackIsNotVerified() async throws {
        keychain.fail(.copyMatching, with: .itemNotFound)
        await #expect(throws: CredentialStoreError.notVerified) { try await store.save(Secret("x"), in: slot) }
    }

    @Test func anAccessGroupWithoutAnEntitlementIsNamed() async throws {
        let shared = CredentialSlot(accessGroup: "TEAM.shared")
        for use in Self.uses {
            await #expect(
                throws: CredentialStoreError.denied(
                    "this program has no entitlement for the access group TEAM.shared")
            ) { try await use.perform(store, shared) }
            let unsigned = KeychainCredentialStore(calls: keychain.calls(accessGroups: []))
            await #expect(
                throws: CredentialStoreError.denied(
                    "this program is not signed with an application identifier; without one, use `.encryptedFile`")
            ) { try await use.perform(unsigned, slot) }
        }
        #expect(keychain.items.isEmpty)
    }

    // MARK: What other programs of the access group store

    @Test func `an item without a value is corrupt until a save replaces it`() async throws {
        try await store.save(Secret("x"), in: slot)
        keychain.overwrite(with: nil)
        await #expect(throws: CredentialStoreError.corrupt("the keychain's item for it has no value")) {
            try await store.load(slot)
        }
        try await store.prepareToSave(in: slot)
        try await store.save(Secret("y"), in: slot)
        #expect(try await store.load(slot) == Secret("y"))
    }

    @Test func `an item that can't be decoded is corrupt until a save replaces it`() async throws {
        try await store.save(Secret("x"), in: slot)
        let corrupt = CredentialStoreError.corrupt("the keychain can't decode its item")
        keychain.fail(.copyMatching, with: .decode)
        await #expect(throws: corrupt) { try await store.load(slot) }
        keychain.fail(.copyMatching, with: nil)
        keychain.fail(.update, with: .decode)
        try await store.prepareToSave(in: slot)
        try await store.save(Secret("y"), in: slot)
        #expect(keychain.items.map(\.value) == [Secret("y")])
    }

    @Test func anItemIsReadUpToAMebibyte() async throws {
        let largest = Secret([UInt8](repeating: 1, count: 1 << 20))
        try await store.save(largest, in: slot)
        #expect(try await store.load(slot) == largest)
        let larger = Secret([UInt8](repeating: 1, count: 1 << 20 + 1))
        keychain.overwrite(with: larger)
        await #expect(throws: CredentialStoreError.corrupt("the keychain's item is larger than any credential")) {
            try await store.load(slot)
        }
        let calls = keychain.made.count
        await #expect(
            throws: CredentialStoreError.failed(
                "a secret of 1048577 bytes is longer than the limit of 1048576 bytes")
        ) { try await store.save(larger, in: slot) }
        #expect(keychain.made.count == calls)
    }

    // MARK: A system that does not answer

    /// Calls that block until the test lets them go on.
    private struct SilentSystem: Sendable {
        private let answer = DispatchSemaphore(value: 0)
        private let begun = AsyncStream.makeStream(of: Void.self)

        var calls: SecItemCalls {
            var calls = InMemoryKeychain().calls()
            calls.copyMatching = { [answer, begun] _ in
                begun.continuation.finish()
                answer.wait()
                return (.itemNotFound, nil)
            }
            return calls
        }

        func untilItIsAsked() async { for await _ in begun.stream {} }

        func goOn() { answer.signal() }
    }

    @Test func `a call that the system doesn't answer is given up at the deadline`() async throws {
        let system = SilentSystem()
        let store = KeychainCredentialStore(deadline: .milliseconds(20), calls: system.calls)
        await #expect(throws: CredentialStoreError.timedOut(.milliseconds(20))) { try await store.load(slot) }
        system.goOn()
    }

    /// More calls than Swift's pool has threads block at once, and other tasks go on.
    @Test func aCallThatBlocksHoldsNoThreadOfSwift() async throws {
        let systems = (0..<ProcessInfo.processInfo.activeProcessorCount + 2).map { _ in SilentSystem() }
        let loads = systems.map { system in
            Task { [slot] in try await KeychainCredentialStore(calls: system.calls).load(slot) }
        }
        for system in systems { await system.untilItIsAsked() }
        loads[0].cancel()
        await #expect(throws: CredentialStoreError.failed("the call was cancelled")) { try await loads[0].value }
        for system in systems { system.goOn() }
        for load in loads.dropFirst() { #expect(try await load.value == nil) }
    }
}
