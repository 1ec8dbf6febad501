import CSpawn
import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// Waits for one child on a thread of its own, for as long as it lives, and tells the task that waits for it until the
/// limit.
///
/// The thread outlives the task's interest: a child that was left running is reaped when it ends.
final class ChildWatch: Sendable {
    private struct State {
        var continuation: CheckedContinuation<Int32?, Never>?
        /// `.some(nil)`: the limit came first.
        var outcome: Int32??
        var hasEnded = false
    }

    private let child: pid_t
    private let atLimit: ChildProcess.AtLimit
    private let state = Mutex(State())

    init(_ child: pid_t, atLimit: ChildProcess.AtLimit) {
        self.child = child
        self.atLimit = atLimit
        let watch = Unmanaged.passRetained(self)
        #if canImport(Darwin)
            var thread: pthread_t?
        #else
            var thread = pthread_t()
        #endif
        if pthread_create(&thread, nil, childWatchMain, watch.toOpaque()) != 0 {
            // Without a thread nobody would see the end: the limit decides, and the child stays a zombie until we end.
            watch.release()
        }
    }

    /// Resumes `continuation` with the exit code, or with `nil` at the limit.
    func await(_ continuation: CheckedContinuation<Int32?, Never>) {
        let outcome = state.withLock { state in
            if state.outcome == nil { state.continuation = continuation }
            return state.outcome
        }
        if let outcome { continuation.resume(returning: outcome) }
    }

    func reachedLimit() {
        let continuation = state.withLock { state in
            // Under the lock, so that the number still is this child's.
            if state.outcome == nil, !state.hasEnded, atLimit == .kill { cspawn_kill(child) }
            return Self.end(&state, nil)
        }
        continuation?.resume(returning: nil)
    }

    fileprivate func waitToTheEnd() {
        cspawn_await_end(child)
        state.withLock { $0.hasEnded = true }
        let code = cspawn_reap(child)
        let continuation = state.withLock { Self.end(&$0, code) }
        continuation?.resume(returning: code)
    }

    /// The first end counts; the continuation to resume after it.
    private static func end(_ state: inout State, _ outcome: Int32?) -> CheckedContinuation<Int32?, Never>? {
        guard state.outcome == nil else { return nil }
        state.outcome = .some(outcome)
        defer { state.continuation = nil }
        return state.continuation
    }
}

/// The thread's body; a C function, which can't carry a context of its own.
private func childWatchMain(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    guard let argument else { return nil }
    pthread_detach(pthread_self())
    Unmanaged<ChildWatch>.fromOpaque(argument).takeRetainedValue().waitToTheEnd()
    return nil
}
