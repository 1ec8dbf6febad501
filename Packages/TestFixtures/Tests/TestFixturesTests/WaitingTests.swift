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

    @Test func oneAtATimeIsOne() async {
        let (turns, inside) = (OneAtATime(), Inside())
        await withTaskGroup { group in
            for _ in 0..<20 {
                group.addTask {
                    await turns.perform {
                        inside.enter()
                        await Task.yield()
                        inside.leave()
                    }
                }
            }
        }
        #expect(inside.mostAtOnce == 1)
        #expect(inside.total == 20)
    }

    @Test func theThreadsOfThisProcessHaveNames() throws {
        let names = try ProcessThreads.names()
        let name = try #require(names.first)
        #expect(try ProcessThreads.contextSwitches(ofThreadsNamed: name) ?? -1 >= 0)
        #expect(try ProcessThreads.contextSwitches(ofThreadsNamed: "nobody") == nil)
    }

    private final class Inside: Sendable {
        private let counts = Mutex((now: 0, most: 0, total: 0))

        var mostAtOnce: Int { counts.withLock(\.most) }
        var total: Int { counts.withLock(\.total) }

        func enter() { counts.withLock { $0 = ($0.now + 1, max($0.most, $0.now + 1), $0.total + 1) } }
        func leave() { counts.withLock { $0.now -= 1 } }
    }
}
