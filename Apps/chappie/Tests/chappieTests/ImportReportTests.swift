import ChappieAuth
import ChappieCore
import ChappieRuntime
import ChappieThreadForms
import ChappieThreadsSQLite
import FoundationEssentials
import Testing

@testable import chappie

@Suite struct ImportReportTests {
    private let folder = TemporaryFolder()

    /// Writes an export of a thread with so many turns, and returns its path.
    private func export(_ id: String, turns: Int = 1, to name: String? = nil) throws -> String {
        let text = String(repeating: "words ", count: 20_000)
        let records = (0..<turns).flatMap { turn in
            [
                ChappieThreadRecord(
                    position: 2 * turn, kind: .turnStarted, date: Date(timeIntervalSince1970: 1_790_000_000),
                    body: ["turn": .string("t\(turn)"), "more": .string(text)]),
                ChappieThreadRecord(
                    position: 2 * turn + 1, kind: .turnFinished, date: Date(timeIntervalSince1970: 1_790_000_001),
                    body: ["turn": .string("t\(turn)"), "items": []]),
            ]
        }
        let path = "\(folder.path)/\(name ?? id).json"
        let thread = try ChappieThread(id: id, records: records)
        try Data(ChappieThreadFormat.json.text(of: thread).utf8).write(to: URL(filePath: path))
        return path
    }

    private func store(_ bytes: Int) -> ChappieFileThreadStore {
        ChappieFileThreadStore(
            directory: folder.path + "/threads", storagePolicy: .init(fileProtection: .none),
            limits: .init(maximumBytes: bytes), keys: NoKeys())
    }

    @Test func `threads are kept until the store is full`() async throws {
        let store = store(400_000)
        var report = ImportReport(store: ThreadsFolder(path: nil))
        try await report.keep(export("one"), in: store)
        await #expect(throws: ChappieThreadStoreError.self) {
            try await report.keep(export("one", turns: 4), in: store)
        }
        #expect(try await store.summaries().map(\.turnCount) == [1])
        // Records that the store has already need no room.
        try await report.keep(export("one"), in: self.store(130_000))
    }

    @Test func `a cancelled import ends in an error`() async throws {
        let store = store(1 << 20)
        let path = try export("one")
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            var report = ImportReport(store: ThreadsFolder(path: nil))
            try await report.keep(path, in: store)
        }
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(try await store.summaries().isEmpty)
    }

    @Test func `a folder gives its threads although one file is odd`() async throws {
        let store = ChappieInMemoryThreadStore()
        let place = folder.path + "/exports"
        try FileManager.default.createDirectory(atPath: place + "/a", withIntermediateDirectories: true)
        _ = try export("one", to: "exports/one")
        _ = try export("two", to: "exports/a/two")
        try Data("hello".utf8).write(to: URL(filePath: place + "/notes.txt"))
        var report = ImportReport(store: ThreadsFolder(path: nil))
        try await report.keep(place, in: store)
        #expect(Set(store.summaries().map(\.id)) == ["one", "two"])
        #expect(report.leftOut == ["file of another kind *.txt": 1] && !report.hasDamage)
        // A thread without an end of its line is damaged, and costs no other one.
        try Data("{\"timestamp\":".utf8).write(to: URL(filePath: place + "/rollout-1.jsonl"))
        try await report.keep(place, in: store)
        #expect(report.hasDamage && store.summaries().count == 2)
    }

    @Test func `a path that gives no thread is an error`() async throws {
        let store = ChappieInMemoryThreadStore()
        let place = folder.path + "/nothing"
        try FileManager.default.createDirectory(atPath: place, withIntermediateDirectories: true)
        var report = ImportReport(store: ThreadsFolder(path: nil))
        await #expect(throws: ChappieThreadImportError.self) { try await report.keep(place, in: store) }
        try Data("{\"hello\":1}".utf8).write(to: URL(filePath: place + "/rollout-1.jsonl"))
        await #expect(throws: ChappieThreadImportError.self) { try await report.keep(place, in: store) }
        #expect(report.leftOut.keys.contains { $0.hasPrefix("unreadable file rollout-1.jsonl, because ") })
    }
}

/// Is not asked for plain text.
private struct NoKeys: CredentialStore {
    func load(_ slot: CredentialSlot) throws(CredentialStoreError) -> Secret? { nil }
    func save(_ secret: Secret, in slot: CredentialSlot) throws(CredentialStoreError) {}
    func delete(_ slot: CredentialSlot) throws(CredentialStoreError) {}
}
