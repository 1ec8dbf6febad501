import Synchronization

/// A value and everyone who watches it: each watcher gets the current value first, then every change, in order.
final class Broadcast<Value: Sendable & Equatable>: Sendable {
    private struct State {
        var value: Value
        var watchers: [Int: AsyncStream<Value>.Continuation] = [:]
        var nextID = 0
    }

    private let state: Mutex<State>

    init(_ value: Value) { state = Mutex(State(value: value)) }

    deinit {
        // Outside of the lock: finishing calls back into `remove`.
        for watcher in state.withLock({ Array($0.watchers.values) }) { watcher.finish() }
    }

    var value: Value { state.withLock(\.value) }

    /// Sets the value and tells the watchers; an equal value is no change.
    func set(_ value: Value) { update { $0 = value } }

    /// Changes the value under the lock, so that watchers see changes in the order in which they were made.
    func update<Result: Sendable>(_ change: (inout Value) -> Result) -> Result {
        state.withLock { state in
            let old = state.value
            let result = change(&state.value)
            if state.value != old {
                for watcher in state.watchers.values { watcher.yield(state.value) }
            }
            return result
        }
    }

    /// A stream of its own for each caller, with a buffer that has no bound: a slow watcher misses nothing.
    func updates() -> AsyncStream<Value> {
        let (stream, continuation) = AsyncStream.makeStream(of: Value.self, bufferingPolicy: .unbounded)
        let id = state.withLock { state in
            let id = state.nextID
            state.nextID += 1
            state.watchers[id] = continuation
            continuation.yield(state.value)
            return id
        }
        continuation.onTermination = { [weak self] _ in self?.remove(id) }
        return stream
    }

    private func remove(_ id: Int) { state.withLock { _ = $0.watchers.removeValue(forKey: id) } }
}
