import ChappieCore
import Synchronization

/// What a turn has come to, shared by its attempts.
///
/// Events are handed on under the lock, so that they keep their order; the receiver only queues them.
final class TurnProgress: Sendable {
    private let accumulator = Mutex(TurnAccumulator())
    private let emit: @Sendable (ChappieStreamEvent) -> Void

    init(emit: @escaping @Sendable (ChappieStreamEvent) -> Void) { self.emit = emit }

    var hasDelivered: Bool { accumulator.withLock { $0.hasDelivered } }
    /// Whether the present attempt has brought any event that counts.
    var hasBegunAttempt: Bool { accumulator.withLock { $0.hasBegun } }
    var turnState: String? { accumulator.withLock { $0.turnState } }
    /// The items of the present attempt, as the backend sent them.
    var rawItems: [ChappieOutputItem] { accumulator.withLock { $0.rawItems } }

    func attemptBegan() { accumulator.withLock { $0.attemptBegan() } }

    func received(turnState: String?) { accumulator.withLock { $0.received(turnState: turnState) } }

    /// - Throws: ``ReplayDivergence``.
    func received(_ events: [ResponsesEvent]) throws -> TurnAccumulator.Outcome? {
        try accumulator.withLock { try $0.received(events, emit: emit) }
    }

    func tell(_ event: ChappieStreamEvent) { accumulator.withLock { _ in emit(event) } }
}
