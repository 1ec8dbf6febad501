import ChappieRuntime
import Synchronization

/// The runtimes that a command started.
final class StartedRuntimes: Sendable {
    private let all = Mutex<[ChappieRuntime]>([])

    func add(_ runtime: ChappieRuntime) { all.withLock { $0.append(runtime) } }

    /// Waits until they have kept the messages and answers so far, also after Ctrl-C.
    func settle() async {
        for runtime in all.withLock({ $0 }) { await runtime.settle() }
    }
}
