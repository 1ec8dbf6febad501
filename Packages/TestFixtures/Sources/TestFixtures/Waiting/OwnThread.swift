import Glibc

/// Runs `work`, which may block, on a thread of its own.
///
/// The tasks' threads are as few as the cores: tests that block them starve those whose answers they wait for.
public func onOwnThread<Output: Sendable>(_ work: @escaping @Sendable () throws -> Output) async throws -> Output {
    try await withCheckedThrowingContinuation { continuation in
        let body = ThreadBody { continuation.resume(with: Result(catching: work)) }
        var thread = pthread_t()
        let failure = pthread_create(
            &thread, nil,
            { context in
                if let context { Unmanaged<ThreadBody>.fromOpaque(context).takeRetainedValue().run() }
                return nil
            }, Unmanaged.passRetained(body).toOpaque())
        precondition(failure == 0, "the system has no thread left")
        pthread_detach(thread)
    }
}

private final class ThreadBody: Sendable {
    let run: @Sendable () -> Void
    init(_ run: @escaping @Sendable () -> Void) { self.run = run }
}
