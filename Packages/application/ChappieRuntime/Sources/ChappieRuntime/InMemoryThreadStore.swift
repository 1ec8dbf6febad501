public import ChappieCore
import Synchronization

/// A store that keeps threads for the life of the process, for tests, previews and programs that store no threads on
/// disk.
public final class ChappieInMemoryThreadStore: ChappieThreadStore {
    private let threads = Mutex<[String: (summary: ChappieThreadSummary, records: [ChappieThreadRecord])]>([:])

    public var kind: ChappieThreadStoreKind { .memory }

    /// Creates an empty store.
    public init() {}

    public func summaries() -> [ChappieThreadSummary] { threads.withLock { $0.values.map(\.summary) } }

    public func records(
        of thread: String, from position: Int
    ) throws(ChappieThreadStoreError) -> [ChappieThreadRecord] {
        guard let kept = threads.withLock({ $0[thread]?.records }) else { throw .notFound(thread: thread) }
        return Array(kept.dropFirst(max(position, 0)))
    }

    public func append(
        _ records: [ChappieThreadRecord], to thread: ChappieThreadSummary, at position: Int
    ) throws(ChappieThreadStoreError) {
        try write(thread, expecting: position) { $0 += records }
    }

    public func replace(
        _ records: [ChappieThreadRecord], of thread: ChappieThreadSummary, expecting count: Int
    ) throws(ChappieThreadStoreError) {
        try write(thread, expecting: count) { $0 = records }
    }

    private func write(
        _ thread: ChappieThreadSummary, expecting expected: Int, _ change: (inout [ChappieThreadRecord]) -> Void
    ) throws(ChappieThreadStoreError) {
        let actual = threads.withLock { threads in
            let count = threads[thread.id]?.records.count ?? 0
            guard count == expected else { return count }
            threads[thread.id, default: (thread, [])].summary = thread
            change(&threads[thread.id, default: (thread, [])].records)
            return count
        }
        guard actual == expected else { throw .conflict(thread: thread.id, expected: expected, actual: actual) }
    }

    public func delete(_ thread: String) { threads.withLock { $0[thread] = nil } }
}
