import ChappieRuntime

/// Keeps threads in a table of the app's own: a store in twenty lines.
actor Table: ChappieThreadStore {
    private var threads: [String: (summary: ChappieThreadSummary, records: [ChappieThreadRecord])] = [:]

    func summaries() -> [ChappieThreadSummary] { threads.values.map(\.summary) }

    func records(of thread: String, from position: Int) throws(ChappieThreadStoreError) -> [ChappieThreadRecord] {
        guard let found = threads[thread] else { throw .notFound(thread: thread) }
        return Array(found.records.dropFirst(position))
    }

    func append(
        _ records: [ChappieThreadRecord], to thread: ChappieThreadSummary, at position: Int
    ) throws(ChappieThreadStoreError) {
        let kept = threads[thread.id]?.records ?? []
        guard kept.count == position else {
            throw .conflict(thread: thread.id, expected: position, actual: kept.count)
        }
        threads[thread.id] = (thread, kept + records)
    }

    func delete(_ thread: String) { threads[thread] = nil }
}
