import Synchronization
import TestFixtures
import Testing

struct WaitingTests {
    @Test func lookAgainUntilItHolds() async throws {
        var looks = 0
        #expect(
            try await eventually {
                looks += 1
                return looks == 3
            })
        #expect(looks == 3)
    }

    @Test func whatNeverHoldsIsGivenUp() async throws {
        #expect(try await !eventually(within: .milliseconds(5)) { false })
    }

    @Test func whatChangesIsNotSettled() async throws {
        var (value, values) = (0, [1, 2, 3, 3].makeIterator())
        let last = try await settled(for: .milliseconds(1)) { () -> Int in
            value = values.next() ?? 0
            return value
        }
        #expect(last == 3)
        var count = 0
        let never = try await settled(for: .milliseconds(1), within: .milliseconds(5)) { () -> Int in
            count += 1
            return count
        }
        #expect(never == nil)
    }

    @Test func aThreadOfItsOwnHasAnswersAndErrors() async throws {
        #expect(try await onOwnThread { 7 } == 7)
        await #expect(throws: FixtureFailure.self) { try await onOwnThread { throw FixtureFailure("why") } }
    }

    @Test func oneAtATimeIsOne() async throws {
        let turns = OneAtATime()
        let inside = Mutex((now: 0, most: 0, all: 0))
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<20 {
                group.addTask {
                    try await turns.perform {
                        inside.withLock { $0 = ($0.now + 1, max($0.most, $0.now + 1), $0.all + 1) }
                        await Task.yield()
                        inside.withLock { $0.now -= 1 }
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(inside.withLock { $0 } == (0, 1, 20))
    }

    @Test func theThreadsOfThisProcessHaveNames() throws {
        let names = try ProcessThreads.names()
        let name = try #require(names.first)
        #expect(try ProcessThreads.contextSwitches(ofThreadsNamed: name) ?? -1 >= 0)
        #expect(try ProcessThreads.contextSwitches(ofThreadsNamed: "nobody") == nil)
    }
}
