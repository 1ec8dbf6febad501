@_spi(ChappieInternals) import ChappieAuth
import ChappieTesting
import Dispatch
import Testing

/// The limits of a blocking call, on the worker that the keyring and file stores share.
struct StoreWorkerTests {
    private let clock = ManualClock()
    private let worker: StoreWorker

    init() { worker = StoreWorker(label: "test", clock: clock) }

    /// Work that blocks until the test lets it end, and whether its caller was still waiting then.
    private struct Blocker: Sendable {
        private let disk = DispatchSemaphore(value: 0)
        private let begun = AsyncStream.makeStream(of: Void.self)
        private let ended = AsyncStream.makeStream(of: Bool.self)

        func work(_ call: StoreCall) -> Bool {
            begun.continuation.finish()
            disk.wait()
            ended.continuation.yield(call.isOver)
            return call.isOver
        }

        func untilItWorks() async { for await _ in begun.stream {} }

        func goOn() { disk.signal() }

        /// Lets the work end, and returns whether its caller had left.
        func end() async -> Bool? {
            goOn()
            var iterator = ended.stream.makeAsyncIterator()
            return await iterator.next()
        }
    }

    @Test func theDeadlineEndsTheWaitingNotTheWork() async throws {
        let (worker, blocker) = (worker, Blocker())
        let call = Task { try await worker.perform(within: .seconds(5)) { blocker.work($0) } }
        await blocker.untilItWorks()
        clock.advance(by: .seconds(5))
        await #expect(throws: CredentialStoreError.timedOut(.seconds(5))) { try await call.value }
        #expect(await blocker.end() == true)
    }

    @Test func `a cancelled call returns at once, and its work is notified`() async throws {
        let (worker, blocker, told) = (worker, Blocker(), DispatchSemaphore(value: 0))
        let call = Task {
            try await worker.perform(within: .seconds(5)) { call in
                call.onEnd { told.signal() }
                return blocker.work(call)
            }
        }
        await blocker.untilItWorks()
        call.cancel()
        await #expect(throws: CredentialStoreError.cancelled) { try await call.value }
        #expect(await blocker.end() == true)
        try await worker.perform(within: .seconds(5)) { _ in told.wait() }
    }

    @Test func anotherLimitTakesThePlaceOfTheFirst() async throws {
        for (first, second) in [(5, 60), (60, 5)] {
            let (clock, blocker) = (ManualClock(), Blocker())
            let patient = StoreWorker(label: "test", clock: clock)
            let call = Task {
                try await patient.perform(within: .seconds(first)) { call in
                    call.allow(.seconds(second))
                    return blocker.work(call)
                }
            }
            await blocker.untilItWorks()
            await clock.waitForSleepers(count: 1)
            clock.advance(by: .seconds(10))
            if second == 60 {
                blocker.goOn()
                #expect(try await call.value == false)
            } else {
                await #expect(throws: CredentialStoreError.timedOut(.seconds(5))) { try await call.value }
                #expect(await blocker.end() == true)
            }
        }
    }

    /// Waiting for the turn is part of the deadline, and ends with the task.
    @Test(arguments: [true, false])
    func workThatWasGivenUpBeforeItsTurnIsNotDone(byDeadline: Bool) async throws {
        let (worker, blocker) = (worker, Blocker())
        let first = Task { try await worker.perform(within: .seconds(60)) { blocker.work($0) } }
        await blocker.untilItWorks()
        let second = Task {
            try await worker.perform(within: .seconds(5)) { _ in Issue.record("worked although nothing waits") }
        }
        if byDeadline {
            await clock.waitForSleepers(count: 2)
            clock.advance(by: .seconds(5))
        } else {
            second.cancel()
        }
        let error = byDeadline ? CredentialStoreError.timedOut(.seconds(5)) : .cancelled
        await #expect(throws: error) { try await second.value }
        blocker.goOn()
        #expect(try await first.value == false)
        #expect(try await worker.perform(within: .seconds(5)) { _ in 7 } == 7)
    }

    @Test func aHandlerThatComesTooLateRunsAtOnce() async throws {
        let (worker, blocker, told) = (worker, Blocker(), AsyncStream.makeStream(of: Void.self))
        let call = Task {
            try await worker.perform(within: .seconds(5)) { call in
                _ = blocker.work(call)
                call.onEnd { told.continuation.finish() }
            }
        }
        await blocker.untilItWorks()
        call.cancel()
        await #expect(throws: CredentialStoreError.cancelled) { try await call.value }
        blocker.goOn()
        for await _ in told.stream {}
    }
}
