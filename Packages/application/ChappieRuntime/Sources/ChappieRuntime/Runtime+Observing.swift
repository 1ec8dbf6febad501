import ChappieCore

extension ChappieRuntime {
    /// Adds records to the store, and reports it to the observer.
    func keep(
        _ records: [ChappieThreadRecord], _ summary: ChappieThreadSummary, at position: Int
    ) async throws(ChappieThreadStoreError) {
        guard let observer else { return try await store.append(records, to: summary, at: position) }
        let byteCount = records.reduce(0) { $0 + $1.body.serializedBytes().count }
        let observation = observer.began(.threadAppend(store.kind, byteCount: byteCount), in: nil)
        do throws(ChappieThreadStoreError) {
            try await store.append(records, to: summary, at: position)
            observation?.ended(nil)
        } catch {
            if case .conflict = error { observer.happened(.threadConflict(store.kind)) }
            observation?.ended(error)
            throw error
        }
    }
}
