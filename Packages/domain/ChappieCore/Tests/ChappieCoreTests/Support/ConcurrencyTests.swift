@_spi(ChappieInternals) import ChappieCore
import Synchronization
import Testing

@Suite struct PromiseTests {
    @Test func givesItsFirstResultToAllButTheCancelled() async throws {
        let promise = Promise<Int>()
        let tasks = (0..<20).map { _ in Task { try await promise.value() } }
        for task in tasks.prefix(10) { task.cancel() }
        for task in tasks.prefix(10) { await #expect(throws: CancellationError.self) { try await task.value } }
        #expect(!promise.isFulfilled)
        promise.fulfil(.success(7))
        promise.fulfil(.success(8))
        #expect(promise.isFulfilled)
        for task in tasks.dropFirst(10) { #expect(try await task.value == 7) }
        #expect(try await promise.value() == 7)
    }

    @Test func `cancelling and fulfilling at the same time resumes every waiter`() async {
        for _ in 0..<200 {
            let promise = Promise<Int>()
            let task = Task { try await promise.value() }
            async let fulfilment: Void = promise.fulfil(.success(1))
            task.cancel()
            await fulfilment
            let result = await task.result
            if case .failure(let error) = result { #expect(error is CancellationError) }
        }
    }
}

@Suite struct AsyncLockTests {
    @Test func letsOneInAtATimeInTheOrderOfTheTickets() async throws {
        let (lock, log) = (AsyncLock(), Log())
        let tickets = (0..<50).map { _ in lock.reserve() }
        await withTaskGroup(of: Void.self) { group in
            for (index, ticket) in tickets.enumerated().reversed() {
                group.addTask {
                    defer { lock.leave(ticket) }
                    guard (try? await lock.enter(ticket)) != nil else { return }
                    #expect(log.enter(index) == 1)
                    await Task.yield()
                    log.leave()
                }
            }
        }
        #expect(log.entered == Array(0..<50))
    }

    @Test func aCancelledTicketLeavesTheLine() async throws {
        let lock = AsyncLock()
        let (first, second, third) = (lock.reserve(), lock.reserve(), lock.reserve())
        try await lock.enter(first)
        let waiting = Task { try await lock.enter(second) }
        waiting.cancel()
        await #expect(throws: CancellationError.self) { try await waiting.value }
        async let last: Void = lock.enter(third)
        lock.leave(first)
        try await last
        lock.leave(second)
        lock.leave(third)
        try await lock.enter(lock.reserve())
    }

    @Test func `cancelling and leaving at the same time keeps the line moving`() async throws {
        for _ in 0..<200 {
            let lock = AsyncLock()
            let (first, second, third) = (lock.reserve(), lock.reserve(), lock.reserve())
            try await lock.enter(first)
            let waiting = Task {
                defer { lock.leave(second) }
                try await lock.enter(second)
            }
            async let leaving: Void = lock.leave(first)
            waiting.cancel()
            await leaving
            _ = await waiting.result
            try await lock.enter(third)
        }
    }

    private final class Log: Sendable {
        private let state = Mutex<(entered: [Int], inside: Int)>(([], 0))

        var entered: [Int] { state.withLock(\.entered) }

        /// - Returns: how many are inside now.
        func enter(_ index: Int) -> Int {
            state.withLock { state in
                state.entered.append(index)
                state.inside += 1
                return state.inside
            }
        }

        func leave() { state.withLock { $0.inside -= 1 } }
    }
}
