import ChappieCore
import ChappieRuntime
import ChappieThreadForms
import ChappieThreadsSQLite

/// The result of an import so far. The user also sees it if a later file fails.
struct ImportReport {
    private var updates = ThreadUpdates()
    private var leftOut: [String: Int] = [:]
    /// The number of records of each thread before the import.
    private let counts: [String: Int]

    init(into store: ChappieFileThreadStore) async throws {
        let threads = try await store.readableThreads().threads
        counts = Dictionary(threads.map { ($0.id, $0.recordCount) }) { first, _ in first }
    }

    /// Keeps the threads of one file.
    ///
    /// - Throws: `full` before anything of the file is kept, if its new records do not fit, or `CancellationError`
    ///   between two threads.
    mutating func keep(_ read: ChappieThreadImport, in store: ChappieFileThreadStore) async throws {
        let usage = try await store.usage()
        if let limit = usage.limit {
            let records = read.threads.flatMap { $0.records.dropFirst(counts[$0.id] ?? 0) }
            let bytes = usage.bytes + records.reduce(0) { $0 + $1.body.serializedBytes().count }
            guard records.isEmpty || bytes <= limit else {
                throw ChappieThreadStoreError.full(bytes: bytes, limit: limit)
            }
        }
        for thread in read.threads {
            try Task.checkCancellation()
            updates.threads[try await store.update(thread), default: []].append(thread.id)
        }
        leftOut.merge(read.leftOut, uniquingKeysWith: +)
    }

    mutating func leaveOut(_ what: String) { leftOut[what, default: 0] += 1 }

    func say(_ program: Program) {
        let leftOut = leftOut.sorted { $0.key < $1.key }
        let json = ChappieJSONObject(leftOut.map { ($0.key, .integer($0.value)) })
        updates.say(program, "Imported", more: [("left_out", .object(json))])
        for (name, count) in leftOut { program.console.note("Left out: \(name) (\(count)).") }
    }
}

/// The threads from a file, grouped by their changes to the store.
struct ThreadUpdates {
    var threads: [ChappieThreadUpdate: [String]] = [:]

    func say(_ program: Program, _ added: String, more: [(String, ChappieJSON)]) {
        let count = { (update: ChappieThreadUpdate) in threads[update]?.count ?? 0 }
        let ids = { (updates: [ChappieThreadUpdate]) -> ChappieJSON in
            .array(updates.flatMap { threads[$0] ?? [] }.map { .string($0) })
        }
        let parts = [
            ("Brought up to date", count(.continued)), ("Already present", count(.unchanged)),
            ("Skipped because you continued them here", count(.diverged)),
        ]
        let json: [(String, ChappieJSON)] = [
            ("imported", ids([.added])), ("updated", ids([.continued])), ("present", ids([.unchanged, .diverged])),
        ]
        program.say(
            .object(ChappieJSONObject(json + more)),
            "\(added): \(count(.added))." + parts.filter { $0.1 > 0 }.map { " \($0.0): \($0.1)." }.joined())
    }
}
