import ChappieAuth
@_spi(ChappieInternals) public import ChappieCore
import Synchronization

/// A queue that runs turns one at a time, in the order in which they were requested.
@_spi(ChappieInternals) public final class TurnQueue: Sendable {
    /// Runs a turn, and emits its events.
    public typealias Work =
        @Sendable (
            _ emit: @escaping @Sendable (ChappieStreamEvent) -> Void, _ control: TurnControl
        ) async throws -> ChappieResponse

    private let lock = AsyncLock()
    /// The turns that have not ended, in the order in which they were requested.
    private let turns = Mutex<
        [(ticket: AsyncLock.Ticket, task: Task<ChappieResponse, any Error>, control: TurnControl)]
    >([])

    /// The system's time in the background, for each turn until its end.
    private let backgroundTime: any BackgroundTime
    private let observer: (any ChappieObserver)?

    /// Creates a queue without turns.
    init(backgroundTime: any BackgroundTime, observer: (any ChappieObserver)? = nil) {
        self.backgroundTime = backgroundTime
        self.observer = observer
    }

    /// Whether no turn is running or waiting.
    var isEmpty: Bool { turns.withLock(\.isEmpty) }

    /// Starts a turn, which waits for earlier turns.
    public func begin(endsWithItsStream: Bool, _ work: @escaping Work) -> ChappieStreamHandle {
        observer?.happened(.turnsWaiting(change: 1))
        return turns.withLock { turns in
            let ticket = lock.reserve()
            let control = TurnControl()
            var handle = ChappieStreamHandle(endsWithItsStream: endsWithItsStream) { emit in
                defer {
                    self.lock.leave(ticket)
                    self.turns.withLock { $0.removeAll { $0.ticket == ticket } }
                }
                try await self.enter(ticket)
                let background = self.backgroundTime.hold("answering")
                defer { withExtendedLifetime(background) {} }
                return try await work(emit, control)
            }
            handle.control = control
            // The queue does not hold the handle, because its stream may have to have only one owner.
            turns.append((ticket, handle.task, control))
            return handle
        }
    }

    private func enter(_ ticket: AsyncLock.Ticket) async throws {
        defer { observer?.happened(.turnsWaiting(change: -1)) }
        try await lock.enter(ticket)
    }

    /// Runs `work` between two turns.
    public func alone<Value>(_ work: () async throws -> Value) async throws -> Value { try await lock.alone(work) }

    /// Ends the newest turn. Another call ends the newest of the remaining ones.
    public func cancelNewest() {
        turns.withLock { $0.last { !$0.task.isCancelled } }?.task.cancel()
    }

    /// Interrupts the newest turn if it runs. A waiting turn is ended.
    public func interruptNewest() {
        guard let turn = turns.withLock({ $0.last { !$0.task.isCancelled } }) else { return }
        turn.control.interrupt(turn.task)
    }

    /// Interrupts the running turn, and ends the waiting ones.
    public func interruptAll() {
        for turn in turns.withLock({ $0.reversed() }) { turn.control.interrupt(turn.task) }
    }

    /// Gives the running turn a message. See ``ChappieConversation/steer(_:)-(ChappieInputMessage)``.
    func steer(_ message: ChappieInputMessage) -> Bool {
        turns.withLock { turns in
            guard let turn = turns.first, !turn.task.isCancelled else { return false }
            return turn.control.steer(message)
        }
    }
}
