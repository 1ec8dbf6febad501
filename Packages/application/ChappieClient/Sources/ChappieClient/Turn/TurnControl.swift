public import ChappieCore
import Synchronization

/// The control of a turn from outside: an interruption that keeps the partial answer, and messages for the running turn.
///
/// The turn's work runs in a separate task. An interruption cancels only that task, so that the turn's end can be kept.
/// Cancelling the turn cancels both.
@_spi(ChappieInternals) public final class TurnControl: Sendable {
    private enum Work {
        /// The work has not begun.
        case waiting
        case running(cancel: @Sendable () -> Void)
        /// The work has been asked to end.
        case requested
        /// The work has ended, and its result is being kept.
        case over
    }

    private struct State {
        var work = Work.waiting
        /// Reports each accepted message. `nil` while no further request of the turn can take messages.
        var report: (@Sendable (ChappieStreamEvent) -> Void)?
        /// The accepted messages that no request contains yet, in order.
        var messages: [ChappieInputMessage] = []
    }

    private let state = Mutex(State())

    /// Creates a control without an interruption and without messages.
    init() {}

    // MARK: Interruption

    /// Whether the work has been asked to end.
    var isRequested: Bool { state.withLock { if case .requested = $0.work { true } else { false } } }

    /// Interrupts the work of the turn's task. A waiting turn is cancelled, because it has nothing to keep. A turn that
    /// has ended is unchanged.
    func interrupt(_ turn: Task<ChappieResponse, any Error>) {
        let end: (@Sendable () -> Void)? = state.withLock { state in
            switch state.work {
            case .waiting: return { turn.cancel() }
            case .running(let cancel):
                state.work = .requested
                state.report = nil
                return cancel
            case .requested, .over: return nil
            }
        }
        end?()
    }

    /// Runs the work that can be interrupted.
    func run<Value: Sendable>(_ work: @escaping @Sendable () async throws -> Value) async throws -> Value {
        let task = Task { try await work() }
        state.withLock { $0.work = .running { task.cancel() } }
        defer {
            state.withLock { state in
                state.work = .over
                state.report = nil
            }
        }
        return try await withTaskCancellationHandler {
            try await task.value
        } onCancel: {
            task.cancel()
        }
    }

    // MARK: Steering

    /// Accepts messages from now on.
    ///
    /// - Parameter report: reports each accepted message.
    func acceptMessages(_ report: @escaping @Sendable (ChappieStreamEvent) -> Void) {
        state.withLock { state in
            switch state.work {
            // The work may begin before its task is known here.
            case .waiting, .running: state.report = report
            case .requested, .over: break
            }
        }
    }

    /// Gives the turn a message, which its next request contains.
    ///
    /// - Returns: `false` if no further request can take it. The turn does not have the message then.
    public func steer(_ message: ChappieInputMessage) -> Bool {
        state.withLock { state in
            guard let report = state.report else { return false }
            state.messages.append(message)
            report(.steered(message))
            return true
        }
    }

    /// The accepted messages that no request contains yet.
    var waitingMessages: [ChappieInputMessage] { state.withLock(\.messages) }

    /// Takes the accepted messages into the next request.
    ///
    /// - Parameter endsOtherwise: whether the turn ends if there are none, so that it accepts none from now on.
    func nextMessages(endsOtherwise: Bool = false) -> [ChappieInputMessage] {
        state.withLock { state in
            defer { state.messages = [] }
            if endsOtherwise, state.messages.isEmpty { state.report = nil }
            return state.messages
        }
    }
}
