import Synchronization

/// A door that a test opens: whoever comes before that waits.
///
/// ```swift
/// let gate = ScriptedGate()
/// let transport = ScriptedHTTPTransport(answers: [ScriptedHTTPAnswer(body: [.wait(until: gate), .chunk(rest)])])
/// await gate.reached()   // the code under test is reading by now
/// gate.open()
/// ```
public final class ScriptedGate: Sendable {
    private struct State {
        var isOpen = false
        var wasReached = false
        var nextID = 0
        var waiting: [Int: CheckedContinuation<Void, any Error>] = [:]
        var watching: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())

    /// A gate that is closed.
    public init() {}

    /// Lets everybody through, now and later. Opening it again does nothing.
    public func open() {
        let waiting = state.withLock { state in
            state.isOpen = true
            defer { state.waiting = [:] }
            return state.waiting.values
        }
        for continuation in waiting { continuation.resume() }
    }

    /// Whether it lets through.
    public var isOpen: Bool { state.withLock(\.isOpen) }

    /// Returns as soon as somebody has come to the gate, whether it was open or not.
    public func reached() async {
        await withCheckedContinuation { continuation in
            let wasReached = state.withLock { state in
                if !state.wasReached { state.watching.append(continuation) }
                return state.wasReached
            }
            if wasReached { continuation.resume() }
        }
    }

    /// Returns when the gate is open.
    ///
    /// - Throws: `CancellationError` at once when the task is cancelled.
    public func pass() async throws {
        let (id, watching) = state.withLock { state in
            state.nextID += 1
            state.wasReached = true
            defer { state.watching = [] }
            return (state.nextID, state.watching)
        }
        for continuation in watching { continuation.resume() }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                // The lock decides between opening, waiting and a cancellation that came first.
                let result: Result<Void, any Error>? = state.withLock { state in
                    if Task.isCancelled { return .failure(CancellationError()) }
                    if state.isOpen { return .success(()) }
                    state.waiting[id] = continuation
                    return nil
                }
                if let result { continuation.resume(with: result) }
            }
        } onCancel: {
            state.withLock { $0.waiting.removeValue(forKey: id) }?.resume(throwing: CancellationError())
        }
    }
}

/// A gate equals itself alone.
extension ScriptedGate: Hashable {
    public static func == (one: ScriptedGate, other: ScriptedGate) -> Bool { one === other }

    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}
