@_spi(ChappieInternals) import ChappieAuth
import ChappieTesting
import Foundation
import TestFixtures
import Testing

@testable import ChappieKeychainLinux

/// The connection that stays between two calls, and for how long.
@Suite(.enabled(if: SystemProgram.keyrings.areUsable, "\(SystemProgram.keyrings.absence)"))
struct KeptConnectionTests {
    private let slot = CredentialSlot()

    @Test func isClosedWhenItsTimeIsOverAlthoughNoCallComes() async throws {
        let keyring = try await PrivateKeyring()
        try await expectConnections(1, on: keyring.bus)
        let clock = ManualClock()
        let worker = BusWorker(address: keyring.bus.address, clock: clock)
        #expect(try await load(on: worker) == nil)
        // The one for the deadline has gone.
        await clock.waitForSleepers(count: 1)
        clock.advance(by: .seconds(119))
        #expect(try await load(on: worker) == nil)
        try await expectConnections(2, on: keyring.bus)
        clock.advance(by: .seconds(1))
        try await expectConnections(1, on: keyring.bus)
    }

    @Test func aConnectionWhoseTimeIsOverIsReplacedByTheNextCall() async throws {
        let keyring = try await PrivateKeyring()
        let worker = BusWorker(address: keyring.bus.address, keepTime: .zero)
        for secret in [Secret("first"), Secret("second")] {
            try await inSession(worker) { [slot] in try $0.save(secret, in: slot) }
            #expect(try await load(on: worker) == secret)
        }
        try await expectConnections(1, on: keyring.bus)
    }

    @Test func remembersTheItemUntilItIsDeleted() async throws {
        let keyring = try await PrivateKeyring()
        let worker = BusWorker(address: keyring.bus.address, keepTime: .zero)
        let remembered = try await inSession(worker) { [slot] session in
            try session.save(Secret("secret"), in: slot)
            let path = session.shared.found?.path
            try session.delete(slot)
            return [path, session.shared.found?.path]
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
            // A dropped connection is closed by a thread of the library's. Less than one descriptor a round is no leak.
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
                ["org.freedesktop.secrets"]
            ).contains("false")
        }
        try #require(hasNoOwner)
    }

    private static func descriptorCount() throws -> Int {
        try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count
    }

    private func load(on worker: BusWorker) async throws -> Secret? {
        try await inSession(worker) { [slot] in try $0.load(slot) }
    }

    private func inSession<Output: Sendable>(
        _ worker: BusWorker, _ work: @escaping @Sendable (KeyringSession) throws -> Output
    ) async throws -> Output {
        try await worker.inSession(KeyringLimits(work: Patience.limit, prompt: nil), work)
    }

    /// Waits until the bus has this many connections beside that of the question.
    private func expectConnections(_ count: Int, on bus: PrivateBus) async throws {
        var connections: [Substring] = []
        let came = try await eventually {
            connections = try await bus.connections()
            return connections.count == count + 1
        }
        #expect(came, "\(connections)")
    }
}
