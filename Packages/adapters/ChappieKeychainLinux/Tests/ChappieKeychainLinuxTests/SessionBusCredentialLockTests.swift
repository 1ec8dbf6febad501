@_spi(ChappieInternals) import ChappieAuth
import Foundation
import TestFixtures
import Testing

@testable import ChappieKeychainLinux

/// Locks of processes that share a bus and nothing else.
@Suite(
    .enabled(if: [SystemProgram.dbusDaemon, .python].areUsable, "\([SystemProgram.dbusDaemon, .python].absence)"),
    .timeLimit(.minutes(2)))
struct SessionBusCredentialLockTests {
    private let slot = CredentialSlot()

    private func lock(on bus: PrivateBus) -> SessionBusCredentialLock {
        SessionBusCredentialLock(files: NoCredentialLock(), busAddress: bus.address)
    }

    @Test func `a held lock is busy for others and free afterwards`() async throws {
        let bus = try await PrivateBus()
        var hold: CredentialLockHold? = try await lock(on: bus).acquire(slot, within: .zero)
        await #expect(throws: CredentialStoreError.busy(.milliseconds(30))) {
            try await lock(on: bus).acquire(slot, within: .milliseconds(30))
        }
        _ = try await lock(on: bus).acquire(CredentialSlot(account: "other"), within: .zero)
        let waiting = Task { try await lock(on: bus).acquire(slot, within: .seconds(60)) }
        withExtendedLifetime(hold) {}
        hold = nil
        _ = try await waiting.value
    }

    @Test func aHolderThatIsKilledLeavesTheLockFree() async throws {
        let bus = try await PrivateBus()
        let script = """
            import dbus, time
            dbus.SessionBus().request_name("com.chappie.lock.slot-\(slot.digest)")
            print("held", flush=True)
            time.sleep(60)
            """
        let holder = try await bus.start(.python, ["-c", script], readyAt: "held")
        await #expect(throws: CredentialStoreError.busy(.zero)) {
            try await lock(on: bus).acquire(slot, within: .zero)
        }
        holder.end()
        _ = try await lock(on: bus).acquire(slot, within: .seconds(60))
    }

    @Test func withoutABusTheFilesAreTheLock() async throws {
        _ = try await SessionBusCredentialLock(files: NoCredentialLock(), busAddress: "unix:path=/nowhere")
            .acquire(slot, within: .zero)
        // A sandbox that may not own the name.
        let bus = try await PrivateBus(rules: #"<deny own_prefix="com.chappie.lock"/>"#)
        _ = try await lock(on: bus).acquire(slot, within: .zero)
    }
}
