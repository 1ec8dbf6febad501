import Dispatch
import Synchronization

/// A value from an asynchronous call, for a thread that may block.
final class BlockingValue<Value: Sendable>: Sendable {
    private let known = Mutex<Value?>(nil)

    /// Returns the value, or `nil` if it does not arrive in time. Each call asks for the value until it has arrived
    /// once.
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
