import Dispatch
import Synchronization

/// A value of an asynchronous call, for a thread that may block.
final class BlockingValue<Value: Sendable>: Sendable {
    private let known = Mutex<Value?>(nil)

    /// Returns the value. Each call asks for it until it has come once, or `nil` if it does not come in time.
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
