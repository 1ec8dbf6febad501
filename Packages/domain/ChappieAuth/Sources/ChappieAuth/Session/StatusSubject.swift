import Synchronization

/// A value and its watchers.
@_spi(ChappieInternals) public final class StatusSubject<Value: Sendable & Equatable>: Sendable {
    private struct Watcher {
        /// The function to call after a change. It is called under the lock, so that all watchers see the changes in
        /// the same order.
        let changed: @Sendable (_ earlier: Value, _ now: Value) -> Void
        let finished: @Sendable () -> Void
    }

    private struct State {
        var value: Value
        var watchers: [Int: Watcher] = [:]
        var nextID = 0
    }

    private let state: Mutex<State>

    /// Creates a subject that starts with `value`.
    public init(_ value: Value) { state = Mutex(State(value: value)) }

    deinit {
        // This is outside of the lock, because finishing calls the code that removes the watcher.
        for watcher in state.withLock({ Array($0.watchers.values) }) { watcher.finished() }
    }

    /// The current value.
    public var value: Value { state.withLock(\.value) }

    /// Sets the value and notifies the watchers. An equal value is not a change.
    public func set(_ value: Value) {
        state.withLock { state in
            let earlier = state.value
            guard value != earlier else { return }
            state.value = value
            for watcher in state.watchers.values { watcher.changed(earlier, value) }
        }
    }

    /// Returns a stream of the current value and then of every change in order. Each call returns a new stream. Its
    /// buffer has no bound, so a slow watcher misses no change.
    public func updates() -> AsyncStream<Value> { changes(startingWith: { $0 }) { _, now in now } }

    /// Returns a stream of the elements that `element` creates from changes.
    func changes<Element: Sendable>(
        startingWith first: (Value) -> Element? = { _ in nil },
        _ element: @escaping @Sendable (_ earlier: Value, _ now: Value) -> Element?
    ) -> AsyncStream<Element> {
        let (stream, continuation) = AsyncStream.makeStream(of: Element.self)
        let id = state.withLock { state in
            state.nextID += 1
            state.watchers[state.nextID] = Watcher(
                changed: { earlier, now in if let element = element(earlier, now) { continuation.yield(element) } },
                finished: { continuation.finish() })
            if let first = first(state.value) { continuation.yield(first) }
            return state.nextID
        }
        continuation.onTermination = { [weak self] _ in
            self?.state.withLock { _ = $0.watchers.removeValue(forKey: id) }
        }
        return stream
    }
}
