import ChappieAuth
import Dispatch
import Testing

@testable import ChappieCrypto

struct WorkTests {
    /// Occupies the lane until it is told to go on.
    private static func block(_ lane: BlockingLane) async -> DispatchSemaphore {
        let (disk, begun) = (DispatchSemaphore(value: 0), AsyncStream.makeStream(of: Void.self))
        Task.detached {
            try await lane.perform { _ throws(CredentialStoreError) in
                begun.continuation.finish()
                disk.wait()
            }
        }
        for await _ in begun.stream {}
        return disk
    }

    @Test func aCancelledCallAnswersAtOnceWhileTheDiskHangs() async throws {
        let lane = BlockingLane(label: "test")
        let disk = DispatchSemaphore(value: 0)
        let begun = AsyncStream.makeStream(of: Void.self)
        let call = Task {
            try await lane.perform { isWanted throws(CredentialStoreError) in
                begun.continuation.finish()
                disk.wait()
                return isWanted()
            }
        }
        for await _ in begun.stream {}
        call.cancel()
        await #expect(throws: CredentialStoreError.cancelled) { try await call.value }
        disk.signal()
    }

    @Test func theDeadlineEndsTheWaitingNotTheWork() async throws {
        let lane = BlockingLane(label: "test", deadline: .milliseconds(20))
        let (disk, done) = (DispatchSemaphore(value: 0), AsyncStream.makeStream(of: Bool.self))
        await #expect(throws: CredentialStoreError.timedOut(.milliseconds(20))) {
            try await lane.perform { isWanted throws(CredentialStoreError) in
                disk.wait()
                done.continuation.yield(isWanted())
            }
        }
        disk.signal()
        var isWanted = done.stream.makeAsyncIterator()
        #expect(await isWanted.next() == false)
    }

    @Test func workThatWasGivenUpBeforeItsTurnIsNotDone() async throws {
        let lane = BlockingLane(label: "test")
        let disk = await Self.block(lane)
        let runs = AsyncStream.makeStream(of: Void.self)
        await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                try await lane.perform { _ throws(CredentialStoreError) in _ = runs.continuation.yield() }
            }
            group.cancelAll()
        }
        disk.signal()
        try await lane.perform { _ throws(CredentialStoreError) in }
        runs.continuation.finish()
        let count = await runs.stream.reduce(0) { count, _ in count + 1 }
        #expect(count == 0)
    }

    @Test func aSaveThatIsCancelledReplacesNothing() async throws {
        let folder = try PrivateFolder()
        let store = try EncryptedFileCredentialStore.cheap(folder)
        try await store.save(Secret("old"), in: .mine)
        let before = try Files.read(store.path(of: .mine))
        let place = try CredentialPlace(.mine, in: folder.credentials)
        let file = try CredentialFile(before, path: place.path)
        #expect(throws: CredentialStoreError.cancelled) {
            try place.write(file, isWanted: { false }) { _ throws(CredentialStoreError) in true }
        }
        #expect(throws: CredentialStoreError.notVerified) {
            try place.write(file, isWanted: { true }) { _ throws(CredentialStoreError) in false }
        }
        #expect(throws: CredentialStoreError.notVerified) {
            try place.write(file, isWanted: { true }) { _ throws(CredentialStoreError) in throw .corrupt("disk") }
        }
        #expect(try Files.read(store.path(of: .mine)) == before)
        #expect(try folder.names() == [place.name])
    }
}
