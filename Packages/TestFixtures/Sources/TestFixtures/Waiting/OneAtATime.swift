import Synchronization

/// Lets one in at a time, in the order in which they came. Who waits keeps no thread.
public final class OneAtATime: Sendable {
    private struct State {
        var isTaken = false
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())

    /// For suites of all packages that count the network's threads or measure its time.
    public static let network = OneAtATime()

    /// A gate that lets one pass at a time.
    public init() {}

    /// Runs `body` when it is its turn.
    public func perform<Output>(_ body: () async throws -> Output) async rethrows -> Output {
        await enter()
        defer { leave() }
        return try await body()
    }

    private func enter() async {
        await withCheckedContinuation { continuation in
            let isFree = state.withLock { state in
                defer { state.isTaken = true }
                if state.isTaken { state.waiting.append(continuation) }
                return !state.isTaken
            }
            if isFree { continuation.resume() }
        }
    }

    private func leave() {
        let next = state.withLock { state in
            state.isTaken = !state.waiting.isEmpty
            return state.waiting.isEmpty ? nil : state.waiting.removeFirst()
        }
        next?.resume()
    }
}
