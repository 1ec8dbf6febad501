@_spi(ChappieInternals) public import ChappieCore
import Dispatch
import Synchronization

/// A worker that runs the blocking work of a credential store, one call after the other, on a thread outside of Swift's
/// pool. That pool has as many threads as there are cores, and must never block.
@_spi(ChappieInternals)
public final class StoreWorker: Sendable {
    private let queue: DispatchQueue
    private let clock: any ChappieClock

    /// - Parameters:
    ///   - label: The name of the queue in a debugger.
    ///   - clock: The clock that measures the deadlines.
    public init(label: String, clock: any ChappieClock = SystemClock()) {
        queue = DispatchQueue(label: label)
        self.clock = clock
    }

    /// Runs `work` when its turn comes. The caller stops waiting at the deadline, or when its task is cancelled. Work
    /// that has not begun by then is skipped.
    ///
    /// - Parameter deadline: The time limit. It starts now, so that it includes the wait for the turn. The work may set
    ///   another deadline.
    /// - Throws: The errors of `work`, `timedOut`, and `failed` if the task is cancelled.
    public func perform<Output: Sendable>(
        within deadline: Duration,
        _ work: @escaping @Sendable (StoreCall) throws(CredentialStoreError) -> Output
    ) async throws(CredentialStoreError) -> Output {
        let result = Promise<Output>()
        let call = StoreCall(clock) { result.fulfil(.failure($0)) }
        call.allow(deadline)
        defer { call.end() }
        queue.async {
            guard !call.isOver else { return }
            do throws(CredentialStoreError) {
                result.fulfil(.success(try work(call)))
            } catch {
                result.fulfil(.failure(error))
            }
        }
        do {
            return try await result.value()
        } catch let error as CredentialStoreError {
            throw error
        } catch {
            throw .cancelled
        }
    }

    /// Runs `work` after all waiting calls. No caller waits for it.
    public func enqueue(_ work: @escaping @Sendable () -> Void) { queue.async(execute: work) }
}

/// A call of a ``StoreWorker``, for use by its work.
@_spi(ChappieInternals)
public final class StoreCall: Sendable {
    private struct State {
        var isOver = false
        var timer: Task<Void, Never>?
        var onEnd: (@Sendable () -> Void)?
    }

    private let state = Mutex(State())
    private let clock: any ChappieClock
    private let fail: @Sendable (CredentialStoreError) -> Void

    init(_ clock: any ChappieClock, fail: @escaping @Sendable (CredentialStoreError) -> Void) {
        self.clock = clock
        self.fail = fail
    }

    /// Whether the caller has stopped waiting.
    public var isOver: Bool { state.withLock(\.isOver) }

    /// Replaces the call's deadline with one that starts now, because a user needs more time than a program.
    public func allow(_ limit: Duration) {
        let timer = Task.detached { [self] in
            // If the sleep was interrupted, the call has ended or has another deadline.
            guard (try? await clock.sleep(for: limit)) != nil else { return }
            fail(.timedOut(limit))
            end()
        }
        let old = state.withLock { state in
            guard !state.isOver else { return timer as Task<Void, Never>? }
            defer { state.timer = timer }
            return state.timer
        }
        old?.cancel()
    }

    /// Runs `handler` once when the call ends, for any reason, or immediately if it has already ended. Use it to cancel
    /// blocking C calls.
    public func onEnd(_ handler: @escaping @Sendable () -> Void) {
        let isOver = state.withLock { state in
            if !state.isOver { state.onEnd = handler }
            return state.isOver
        }
        if isOver { handler() }
    }

    func end() {
        let ended = state.withLock { state in
            defer { state = State(isOver: true) }
            return state
        }
        ended.timer?.cancel()
        // The handler runs outside of the lock, because it calls a library.
        ended.onEnd?()
    }
}

@_spi(ChappieInternals)
extension CredentialStoreError {
    /// The error of a call whose task was cancelled.
    public static let cancelled = CredentialStoreError.failed("the call was cancelled")
}
