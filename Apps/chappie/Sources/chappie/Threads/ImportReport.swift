import ChappieCore
import ChappieRuntime
import ChappieThreadForms

/// The result of an import so far. The user also sees it if a later file fails.
struct ImportReport {
    private var updates = ThreadUpdates()
    private(set) var leftOut: [String: Int] = [:]
    /// Whether something was left out because it cannot be read.
    private(set) var hasDamage = false
    /// The folder of the kept threads, whose files are not read. Closing another descriptor of a database would release
    /// the locks of this process.
    private let store: ThreadsFolder

    init(store: ThreadsFolder) { self.store = store }

    /// Keeps one thread after the other of a file, or of the files in a folder.
    ///
    /// - Throws: ``ChappieThreadImportError`` if `path` cannot be read, or gives no thread. The error is `full` at the
    ///   first thread that does not fit, and `CancellationError` between two threads.
    mutating func keep(_ path: String, in store: some ChappieThreadStore) async throws {
        let folder = self.store
        var reader = try ChappieThreadReader(path: path) { folder.contains($0) }
        var isEmpty = true
        defer {
            leftOut.merge(reader.leftOut, uniquingKeysWith: +)
            hasDamage = hasDamage || reader.hasDamage
        }
        while let thread = try reader.next() {
            try Task.checkCancellation()
            updates.threads[try await store.update(thread), default: []].append(thread.id)
            isEmpty = false
        }
        guard !isEmpty else { throw ChappieThreadImportError(.damaged, path: path, reason: "it contains no threads.") }
    }

    func say(_ program: Program) {
        let leftOut = leftOut.sorted { $0.key < $1.key }
        let json = ChappieJSONObject(leftOut.map { ($0.key, .integer($0.value)) })
        updates.say(program, "Imported", more: [("left_out", .object(json))])
        // Users do not know the instructions that a program added to their conversations.
        for (name, count) in leftOut where name != "instruction of the program" {
            program.console.note("Left out: \(name) (\(count)).")
        }
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
            ("Brought up to date", count(.continued)),
            ("Replaced, because earlier messages were changed in the other program", count(.changed)),
            ("Brought up to date, with a copy of what you continued here", count(.copied)),
            ("Already present", count(.unchanged)),
        ]
        let json: [(String, ChappieJSON)] = [
            ("imported", ids([.added])), ("updated", ids([.continued, .changed, .copied])),
            ("present", ids([.unchanged])),
        ]
        program.say(
            .object(ChappieJSONObject(json + more)),
            "\(added): \(count(.added))." + parts.filter { $0.1 > 0 }.map { " \($0.0): \($0.1)." }.joined())
    }
}
