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

    /// An export of a thread with so many turns.
    private func export(_ id: String, turns: Int = 1) throws -> ChappieThreadImport {
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
        return try ChappieThreadImport(
            Array(ChappieThreadFormat.json.text(of: ChappieThread(id: id, records: records)).utf8))
    }

    private func store(_ bytes: Int) -> ChappieFileThreadStore {
        ChappieFileThreadStore(
            directory: folder.path + "/threads", storagePolicy: .init(fileProtection: .none),
            limits: .init(maximumBytes: bytes), keys: NoKeys())
    }

    @Test func `the space for a thread that has grown is checked before anything is stored`() async throws {
        let store = store(400_000)
        var report = try await ImportReport(into: store)
        try await report.keep(export("one"), in: store)
        var again = try await ImportReport(into: store)
        var both = try export("two")
        both.threads += try export("one", turns: 4).threads
        await #expect(throws: ChappieThreadStoreError.self) { try await again.keep(both, in: store) }
        #expect(try await store.summaries().map(\.id) == ["one"])
        // Records that the store has already need no room.
        let full = self.store(130_000)
        var unchanged = try await ImportReport(into: full)
        try await unchanged.keep(export("one"), in: full)
    }

    @Test func aCancelledImportEndsInAnError() async throws {
        let store = store(1 << 20)
        let read = try export("one")
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            var report = try await ImportReport(into: store)
            try await report.keep(read, in: store)
        }
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(try await store.summaries().isEmpty)
    }
}

/// Is not asked for plain text.
private struct NoKeys: CredentialStore {
    func load(_ slot: CredentialSlot) throws(CredentialStoreError) -> Secret? { nil }
    func save(_ secret: Secret, in slot: CredentialSlot) throws(CredentialStoreError) {}
    func delete(_ slot: CredentialSlot) throws(CredentialStoreError) {}
}
