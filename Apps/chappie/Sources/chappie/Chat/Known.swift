import Dispatch
import Synchronization

/// A value that an asynchronous call brings, for a thread that may block.
final class Known<Value: Sendable>: Sendable {
    private let known = Mutex<Value?>(nil)

    /// The value, which is asked for until it is there; `nil` when it does not come in time.
    func value(within seconds: Double, _ ask: @escaping @Sendable () async throws -> Value) -> Value? {
        if let value = known.withLock({ $0 }) { return value }
        let done = DispatchSemaphore(value: 0)
        let asking = Task {
            defer { done.signal() }
            let value = try await ask()
            known.withLock { $0 = value }
        }
        if done.wait(timeout: .now() + seconds) == .timedOut { asking.cancel() }
        return known.withLock { $0 }
    }
}
