import Synchronization
import Testing

@testable import ChappieClient

@Suite struct SerialGateTests {
    @Test func letsOneInAtATimeInTheOrderOfTheTickets() async throws {
        let gate = SerialGate()
        let log = Log()
        let tickets = (0..<50).map { _ in gate.draw() }
        await withTaskGroup(of: Void.self) { group in
            for (index, ticket) in tickets.enumerated().reversed() {
                group.addTask {
                    defer { gate.leave(ticket) }
                    guard (try? await gate.enter(ticket)) != nil else { return }
                    #expect(log.enter(index) == 1)
                    await Task.yield()
                    log.leave()
                }
            }
        }
        #expect(log.entered == Array(0..<50))
    }

    private final class Log: Sendable {
        private let state = Mutex<(entered: [Int], inside: Int)>(([], 0))

        var entered: [Int] { state.withLock(\.entered) }

        /// How many are inside now.
        func enter(_ index: Int) -> Int {
            state.withLock { state in
                state.entered.append(index)
                state.inside += 1
                return state.inside
            }
        }

        func leave() { state.withLock { $0.inside -= 1 } }
    }

    @Test func aCancelledTicketDoesNotHoldUpTheOthers() async throws {
        let gate = SerialGate()
        let (first, second, third) = (gate.draw(), gate.draw(), gate.draw())
        try await gate.enter(first)
        let waiting = Task {
            defer { gate.leave(second) }
            try await gate.enter(second)
        }
        waiting.cancel()
        await #expect(throws: CancellationError.self) { try await waiting.value }
        async let last: Void = gate.enter(third)
        gate.leave(first)
        try await last
        gate.leave(third)
    }
}
