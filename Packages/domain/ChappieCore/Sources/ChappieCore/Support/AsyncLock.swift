import Synchronization

/// Lets one task in at a time, in the order of their tickets.
@_spi(ChappieInternals) public final class AsyncLock: Sendable {
    /// A place in the queue of one lock.
    public final class Ticket: Sendable, Equatable {
        fileprivate let turn = Promise<Void>()

        public static func == (left: Ticket, right: Ticket) -> Bool { left === right }
    }

    /// The tickets that were not returned, oldest first. The first one is inside or may enter.
    private let line = Mutex<[Ticket]>([])

    /// Makes a free lock.
    public init() {}

    /// Draws a ticket now, after all earlier tickets. Every ticket must be returned by ``leave(_:)``.
    public func reserve() -> Ticket {
        let ticket = Ticket()
        let first = line.withLock { line in
            line.append(ticket)
            return line.first
        }
        first?.turn.fulfil(.success(()))
        return ticket
    }

    /// Waits for the ticket's turn.
    ///
    /// - Throws: `CancellationError` if the task is cancelled before, or the ticket was returned. The ticket's place is
    ///   then free for the next one.
    public func enter(_ ticket: Ticket) async throws {
        do {
            try await ticket.turn.value()
            try Task.checkCancellation()
        } catch {
            leave(ticket)
            throw error
        }
    }

    /// Returns the ticket, whether its turn had come or not, and lets the next one in. A second call does nothing.
    public func leave(_ ticket: Ticket) {
        let first = line.withLock { line in
            line.removeAll { $0 == ticket }
            return line.first
        }
        ticket.turn.fulfil(.failure(CancellationError()))
        first?.turn.fulfil(.success(()))
    }

    /// Runs `work` alone, after all tasks that drew their ticket before.
    ///
    /// - Throws: The errors of `work`; `CancellationError` if the task is cancelled before its turn.
    public func alone<Value>(_ work: () async throws -> Value) async throws -> Value {
        let ticket = reserve()
        defer { leave(ticket) }
        try await enter(ticket)
        return try await work()
    }
}
