@_spi(ChappieInternals) public import ChappieCore
import Dispatch
import Synchronization

/// Runs the blocking work of a credential store, one piece after the other, on a thread outside of Swift's pool. That
/// pool has as many threads as there are cores and must never block.
@_spi(ChappieInternals)
public final class StoreWorker: Sendable {
    private let queue: DispatchQueue
    private let clock: any ChappieClock

    /// - Parameters:
    ///   - label: For a debugger.
    ///   - clock: For the deadlines.
    public init(label: String, clock: any ChappieClock = SystemClock()) {
        queue = DispatchQueue(label: label)
        self.clock = clock
    }

    /// Runs `work` when its turn comes. The caller stops waiting at the deadline and when its task is cancelled; work
    /// that has not begun by then is not done.
    ///
    /// - Parameter deadline: Counts from now, so that waiting for the turn is part of it; the work may ask for another.
    /// - Throws: The errors of `work`; `timedOut`; `failed` when the task is cancelled.
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

    /// Runs `work` after everything that is waiting; no call waits for it.
    public func enqueue(_ work: @escaping @Sendable () -> Void) { queue.async(execute: work) }
}

/// One call of a ``StoreWorker``, as its work sees it.
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

    /// Replaces the call's deadline, from now on: a user takes longer than a program.
    public func allow(_ limit: Duration) {
        let timer = Task.detached { [self] in
            // A sleep that was cut short means that the call is over or has another deadline.
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

    /// Runs `handler` once when the call ends, however it ends; at once when it is over. Cancels blocking C calls.
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
        // Outside of the lock: the handler runs code of a library.
        ended.onEnd?()
    }
}

@_spi(ChappieInternals)
extension CredentialStoreError {
    /// A call whose task was cancelled.
    public static let cancelled = CredentialStoreError.failed("the call was cancelled")
}
