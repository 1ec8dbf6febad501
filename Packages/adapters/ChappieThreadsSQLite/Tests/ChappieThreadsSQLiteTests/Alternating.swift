import ChappieRuntime
import Synchronization

/// Each call goes to the next store, as if several processes took turns.
final class Alternating: ChappieThreadStore {
    private let stores: [any ChappieThreadStore]
    private let turn = Mutex(0)

    init(_ stores: [any ChappieThreadStore]) { self.stores = stores }

    private var next: any ChappieThreadStore {
        stores[
            turn.withLock { turn in
                turn += 1
                return turn % stores.count
            }]
    }

    func summaries() async throws(ChappieThreadStoreError) -> [ChappieThreadSummary] { try await next.summaries() }
    func summary(of thread: String) async throws(ChappieThreadStoreError) -> ChappieThreadSummary? {
        try await next.summary(of: thread)
    }
    func records(
        of thread: String, from position: Int
    ) async throws(ChappieThreadStoreError) -> [ChappieThreadRecord] {
        try await next.records(of: thread, from: position)
    }
    func append(
        _ records: [ChappieThreadRecord], to thread: ChappieThreadSummary, at position: Int
    ) async throws(ChappieThreadStoreError) {
        try await next.append(records, to: thread, at: position)
    }
    func replace(
        _ records: [ChappieThreadRecord], of thread: ChappieThreadSummary, expecting count: Int
    ) async throws(ChappieThreadStoreError) {
        try await next.replace(records, of: thread, expecting: count)
    }
    func delete(_ thread: String) async throws(ChappieThreadStoreError) { try await next.delete(thread) }
    func search(_ query: ChappieThreadQuery) async throws(ChappieThreadStoreError) -> [ChappieThreadHit] {
        try await next.search(query)
    }
    func usage() async throws(ChappieThreadStoreError) -> ChappieThreadStoreUsage { try await next.usage() }
}
