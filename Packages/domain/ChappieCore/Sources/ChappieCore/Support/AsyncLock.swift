import Synchronization

/// A lock that admits one task at a time, in the order of their tickets.
@_spi(ChappieInternals) public final class AsyncLock: Sendable {
    /// A place in the queue of one lock.
    public final class Ticket: Sendable, Equatable {
        fileprivate let turn = Promise<Void>()

        public static func == (left: Ticket, right: Ticket) -> Bool { left === right }
    }

    /// The tickets that have not been given back, beginning with the oldest. The task of the first one is inside or may
    /// enter.
    private let line = Mutex<[Ticket]>([])

    /// Creates a free lock.
    public init() {}

    /// Draws a ticket, which follows all earlier tickets. Every ticket must be given back with ``leave(_:)``.
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
    /// - Throws: `CancellationError` if the task is cancelled before its turn, or if the ticket was given back. The
    ///   next ticket then takes its place.
    public func enter(_ ticket: Ticket) async throws {
        do {
            try await ticket.turn.value()
            try Task.checkCancellation()
        } catch {
            leave(ticket)
            throw error
        }
    }

    /// Gives the ticket back, even before its turn, and admits the next one. A second call does nothing.
    public func leave(_ ticket: Ticket) {
        let first = line.withLock { line in
            line.removeAll { $0 == ticket }
            return line.first
        }
        ticket.turn.fulfil(.failure(CancellationError()))
        first?.turn.fulfil(.success(()))
    }

    /// Runs `work` while no other task is inside, after all tasks that drew their tickets earlier.
    ///
    /// - Throws: The errors of `work`, or `CancellationError` if the task is cancelled before its turn.
    public func alone<Value>(_ work: () async throws -> Value) async throws -> Value {
        let ticket = reserve()
        defer { leave(ticket) }
        try await enter(ticket)
        return try await work()
    }
}
