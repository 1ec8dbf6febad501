import Synchronization

/// Lets one task in at a time, in the order in which places were drawn.
@_spi(ChappieInternals) public final class AsyncLock: Sendable {
    /// A place in the line of one lock.
    public struct Ticket: Sendable, Hashable {
        fileprivate let number: Int
    }

    private struct State {
        var nextNumber = 0
        /// Tickets that were not handed back, oldest first. The first one is inside or may enter.
        var line: [Int] = []
        /// Resumed with whether the ticket's turn has come.
        var waiting: [Int: CheckedContinuation<Bool, Never>] = [:]

        mutating func remove(_ number: Int) -> Departure {
            line.removeAll { $0 == number }
            return Departure(
                left: waiting.removeValue(forKey: number),
                next: line.first.flatMap { waiting.removeValue(forKey: $0) })
        }
    }

    /// The tasks to wake when a ticket goes, outside of the lock.
    private struct Departure {
        /// The ticket's own task, if it was still waiting.
        var left: CheckedContinuation<Bool, Never>?
        var next: CheckedContinuation<Bool, Never>?

        func resume() {
            left?.resume(returning: false)
            next?.resume(returning: true)
        }
    }

    private let state = Mutex(State())

    /// A lock that is free.
    public init() {}

    /// Draws a place now, after all places drawn before. Every ticket must be handed back by ``leave(_:)``.
    public func reserve() -> Ticket {
        state.withLock { state in
            state.nextNumber += 1
            state.line.append(state.nextNumber)
            return Ticket(number: state.nextNumber)
        }
    }

    /// Waits for the ticket's turn.
    ///
    /// - Throws: `CancellationError` when the task is cancelled before, or the ticket was handed back; the ticket's place
    ///   is then free for the next one.
    public func enter(_ ticket: Ticket) async throws {
        let hasEntered = await withTaskCancellationHandler {
            await withCheckedContinuation { wait($0, as: ticket, isCancellable: true) }
        } onCancel: {
            // A ticket that is inside already stays there: the task that entered hands it back.
            state.withLock { $0.waiting[ticket.number] == nil ? nil : $0.remove(ticket.number) }?.resume()
        }
        guard hasEntered else {
            leave(ticket)
            throw CancellationError()
        }
    }

    /// Hands the ticket back, whether its turn had come or not, and lets the next one in. A second call does nothing.
    public func leave(_ ticket: Ticket) {
        state.withLock { $0.remove(ticket.number) }.resume()
    }

    /// Runs `body` when its turn comes. The wait can't be cancelled; use it where those before have deadlines of their own.
    public func withLock<R: Sendable>(_ body: () async throws -> R) async rethrows -> R {
        let ticket = reserve()
        defer { leave(ticket) }
        _ = await withCheckedContinuation { wait($0, as: ticket, isCancellable: false) }
        return try await body()
    }

    private func wait(_ continuation: CheckedContinuation<Bool, Never>, as ticket: Ticket, isCancellable: Bool) {
        let hasEntered: Bool? = state.withLock { state in
            if isCancellable, Task.isCancelled { return false }
            guard state.line.contains(ticket.number) else { return false }
            if state.line.first == ticket.number { return true }
            state.waiting[ticket.number] = continuation
            return nil
        }
        if let hasEntered { continuation.resume(returning: hasEntered) }
    }
}
