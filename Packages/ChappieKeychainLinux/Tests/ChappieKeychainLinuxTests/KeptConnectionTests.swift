import ChappieAuth
import Foundation
import TestFixtures
import Testing

@testable import ChappieKeychainLinux

/// What stays between two calls, and for how long.
struct KeptConnectionTests {
    private let slot = CredentialSlot()

    @Test func isClosedWhenItsTimeIsOverAlthoughNoCallComes() async throws {
        let keyring = try await PrivateKeyring()
        try await expectConnections(1, on: keyring.bus)
        #expect(try await load(on: KeyringLane(keepTime: .seconds(3600)), keyring.bus) == nil)
        try await expectConnections(2, on: keyring.bus)
        #expect(try await load(on: KeyringLane(keepTime: .milliseconds(100)), keyring.bus) == nil)
        try await expectConnections(2, on: keyring.bus)
    }

    @Test func aConnectionWhoseTimeIsOverIsReplacedByTheNextCall() async throws {
        let keyring = try await PrivateKeyring()
        let lane = KeyringLane(keepTime: .zero)
        for secret in [Secret("first"), Secret("second")] {
            try await onConnection(of: lane, keyring.bus) { session throws(CredentialStoreError) in
                try session.save(secret, in: slot)
            }
            #expect(try await load(on: lane, keyring.bus) == secret)
        }
        try await expectConnections(1, on: keyring.bus)
    }

    @Test func remembersTheItemUntilItIsDeleted() async throws {
        let keyring = try await PrivateKeyring()
        let lane = KeyringLane(keepTime: .zero)
        let remembered = try await onConnection(of: lane, keyring.bus) { session throws(CredentialStoreError) in
            try session.save(Secret("secret"), in: slot)
            let path = session.shared.item(of: slot)
            try session.delete(slot)
            return [path, session.shared.item(of: slot)]
        }
        #expect(remembered == ["/org/freedesktop/secrets/collection/login/1", nil])
    }

    /// In a process of its own: in this one, other tests open and close descriptors all the time.
    @Test func aRestartOfTheServiceBetweenTwoCallsLeavesNoDescriptorOpen() async throws {
        await #expect(processExitsWith: .success) {
            let bus = try await PrivateBus()
            try await Self.loadAndEndTheService(on: bus)
            let descriptors = try Self.descriptorCount()
            let rounds = 10
            for _ in 0..<rounds { try await Self.loadAndEndTheService(on: bus) }
            // What was dropped is closed by a thread of the library's. Less than one descriptor a round is no leak.
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
        // The bus tells everybody at the same time that the name has lost its owner.
        let hasNoOwner = try await eventually {
            try await bus.call(
                "org.freedesktop.DBus.NameHasOwner", at: "/org/freedesktop/DBus", in: "org.freedesktop.DBus",
                "org.freedesktop.secrets"
            ).contains("false")
        }
        try #require(hasNoOwner)
    }

    private static func descriptorCount() throws -> Int {
        try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count
    }

    private func load(on lane: KeyringLane, _ bus: PrivateBus) async throws -> Secret? {
        try await onConnection(of: lane, bus) { session throws(CredentialStoreError) in try session.load(slot) }
    }

    private func onConnection<Output: Sendable>(
        of lane: KeyringLane, _ bus: PrivateBus,
        _ work: @escaping @Sendable (SecretServiceSession) throws(CredentialStoreError) -> Output
    ) async throws -> Output {
        let limits = KeyringLimits(work: Patience.limit, prompt: nil)
        return try await lane.perform(within: limits.work) { turn throws(CredentialStoreError) in
            try lane.onConnection(to: bus.address, limits, turn, work)
        }
    }

    /// Waits until the bus has this many connections beside that of the question.
    private func expectConnections(_ count: Int, on bus: PrivateBus) async throws {
        var names: [Substring] = []
        let came = try await eventually {
            let answer = try await bus.call(
                "org.freedesktop.DBus.ListNames", at: "/org/freedesktop/DBus", in: "org.freedesktop.DBus")
            names = answer.split(separator: "'").filter { $0.hasPrefix(":") }
            return names.count == count + 1
        }
        #expect(came, "\(names)")
    }
}
