import ChappieAuth
import ChappieCore
import ChappieFiles
import Foundation
import Testing

@Suite final class FileCredentialLockTests: Sendable {
    private let folder = FileManager.default.temporaryDirectory.path + "/chappie-locks-\(UUID().uuidString)"
    private var directory: String { folder + "/deep" }
    private let slot = CredentialSlot()

    deinit { try? FileManager.default.removeItem(atPath: folder) }

    @Test func `a held lock is busy for others and free afterwards`() async throws {
        let one = FileCredentialLock(directory: directory)
        let other = FileCredentialLock(directory: directory)
        var hold: CredentialLockHold? = try await one.acquire(slot, within: .zero)
        await #expect(throws: CredentialStoreError.busy(.milliseconds(30))) {
            try await other.acquire(slot, within: .milliseconds(30))
        }
        let waiting = Task { try await other.acquire(slot, within: .seconds(30)) }
        withExtendedLifetime(hold) {}
        hold = nil
        _ = try await waiting.value
    }

    @Test func anotherSlotHasAnotherLock() async throws {
        let lock = FileCredentialLock(directory: directory)
        let hold = try await lock.acquire(slot, within: .zero)
        _ = try await lock.acquire(CredentialSlot(account: "other"), within: .zero)
        withExtendedLifetime(hold) {}
    }

    @Test func aHolderThatIsKilledLeavesTheLockFree() async throws {
        let lock = FileCredentialLock(directory: directory)
        _ = try await lock.acquire(slot, within: .zero)
        let files = try FileManager.default.contentsOfDirectory(atPath: directory)
        let file = directory + "/" + (try #require(files.first))
        let holder = Process()
        holder.executableURL = URL(fileURLWithPath: "/usr/bin/flock")
        // Without a fork, one process holds it, which is killed below.
        holder.arguments = ["--no-fork", file, "sh", "-c", "echo locked; exec sleep 60"]
        let output = Pipe()
        holder.standardOutput = output
        try holder.run()
        // On a thread of its own: the tasks' threads are for tasks.
        await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                _ = output.fileHandleForReading.availableData
                continuation.resume()
            }
        }
        await #expect(throws: CredentialStoreError.busy(.zero)) { try await lock.acquire(slot, within: .zero) }
        kill(holder.processIdentifier, SIGKILL)
        _ = try await lock.acquire(slot, within: .seconds(30))
    }

    @Test func aSymbolicLinkIsNotFollowed() async throws {
        let lock = FileCredentialLock(directory: directory)
        _ = try await lock.acquire(slot, within: .zero)
        let file = directory + "/" + (try #require(FileManager.default.contentsOfDirectory(atPath: directory).first))
        try FileManager.default.removeItem(atPath: file)
        try FileManager.default.createSymbolicLink(atPath: file, withDestinationPath: directory + "/elsewhere")
        await #expect(throws: CredentialStoreError.self) { try await lock.acquire(slot, within: .zero) }
        #expect(!FileManager.default.fileExists(atPath: directory + "/elsewhere"))
    }

    @Test func `a note outlives the lock and is replaced completely`() throws {
        let lock = FileCredentialLock(directory: directory)
        #expect(lock.note(for: slot) == nil)
        for note: [UInt8] in [[1, 2, 3], [4]] {
            lock.setNote(note, for: slot)
            #expect(FileCredentialLock(directory: directory).note(for: slot) == note)
            #expect(lock.note(for: CredentialSlot(issuer: "https://other.test")) == nil)
        }
        lock.setNote(nil, for: slot)
        #expect(lock.note(for: slot) == nil)
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory).isEmpty)
    }
}
