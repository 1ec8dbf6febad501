import ChappieCore
import ChappieRuntime
import ChappieTesting
import ChappieThreadsSQLite
import Foundation
import TestFixtures
import Testing

/// Databases that are gone, and folders that go away under a running program.
struct LossTests {
    private static let files = ["threads.db", "threads.db-wal", "threads.lock"]

    /// A copy of the folder as it is, for a program that begins after this one was killed.
    private func copy(of place: Place, _ change: (String) throws -> Void) throws -> (TemporaryDirectory, String) {
        let folder = try TemporaryDirectory()
        let directory = folder.path("threads")
        try FileManager.default.createDirectory(
            atPath: directory, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        for name in try Self.files.filter(Set(Files.names(in: place.directory)).contains) {
            try Files.write(Files.read("\(place.directory)/\(name)"), to: "\(directory)/\(name)")
            try Files.set(0o600, of: "\(directory)/\(name)")
        }
        try change(directory)
        return (folder, directory)
    }

    private func store(_ directory: String, _ protection: FileProtection, of place: Place) -> ChappieFileThreadStore {
        ChappieFileThreadStore(
            directory: directory, storagePolicy: .init(fileProtection: protection), keys: place.keys)
    }

    @Test(arguments: everyProtection) func `an empty database in place of a full one is noticed`(
        _ protection: FileProtection
    ) async throws {
        let place = try Place()
        try await place.store(protection).say(["first"], in: "one")
        // A store is closed in its own time.
        try RawDatabase(place.database).run("PRAGMA wal_checkpoint(TRUNCATE)")
        let (folder, directory) = try copy(of: place) { try Files.write([], to: $0 + "/threads.db") }
        let store = store(directory, protection, of: place)
        await refusal("damaged", saying: "is empty, although it had threads") { _ = try await store.summaries() }
        await refusal("damaged", saying: "is empty, although it had threads") {
            try await store.say(["new"], in: "two")
        }
        withExtendedLifetime(folder) {}
    }

    /// A session that was imported in the middle of a turn has grown beyond the limit.
    @Test(arguments: everyProtection) func `an update that exceeds the limit leaves the thread unchanged`(
        _ protection: FileProtection
    ) async throws {
        let place = try Place()
        let store = place.store(protection, limits: .init(maximumBytes: 200_000))
        func thread(_ answer: String) throws -> ChappieThread {
            let item: ChappieJSON = [
                "type": "message", "role": "assistant", "content": [["type": "output_text", "text": .string(answer)]],
            ]
            let end = ChappieThreadRecord(
                position: 1, kind: .turnFinished, date: Date(timeIntervalSince1970: 1_790_000_001),
                body: ["turn": "turn-0", "items": answer.isEmpty ? [] : [item]])
            return try ChappieThread(id: "one", records: [said("question"), end])
        }
        let earlier = try thread("")
        #expect(try await store.update(earlier) == .added)
        await refusal("full") { try await store.update(thread(String(repeating: "long ", count: 50_000))) }
        #expect(try await store.thread("one") == earlier)
        #expect(try await store.update(thread("elephant")) == .continued)
        #expect(try await store.search(ChappieThreadQuery("elephant")).map(\.thread.id) == ["one"])
        #expect(try await store.verify().isEmpty)
    }

    @Test(arguments: everyProtection) func `a folder that is replaced under a running program is opened again`(
        _ protection: FileProtection
    ) async throws {
        let place = try Place()
        let running = place.store(protection)
        try await running.say(["first"], in: "one")
        let (folder, directory) = try copy(of: place) { _ in }
        try FileManager.default.moveItem(atPath: place.directory, toPath: place.folder.path("old"))
        try FileManager.default.moveItem(atPath: directory, toPath: place.directory)
        try await running.say(["second"], in: "one", from: 1)
        #expect(try await place.store(protection).words(of: "one") == ["first", "second"])
        #expect(try await place.store(protection).verify().isEmpty)
        withExtendedLifetime(folder) {}
    }

    @Test(arguments: everyProtection) func aTurnOfAFolderThatIsRemovedIsAnError(
        _ protection: FileProtection
    ) async throws {
        let place = try Place()
        let running = place.store(protection)
        try await running.say(["first"], in: "one")
        var summary = try #require(try await running.summary(of: "one"))
        try FileManager.default.removeItem(atPath: place.directory)
        let end = ChappieThreadRecord(
            position: 1, kind: .turnFinished, date: summary.createdAt, body: ["turn": "turn-0"])
        summary.add(end)
        await refusal("conflict") { try await running.append([end], to: summary, at: 1) }
        // A new thread is kept in a new folder.
        try await running.say(["new"], in: "two")
        #expect(try await place.store(protection).words(of: "two") == ["new"])
    }
}
