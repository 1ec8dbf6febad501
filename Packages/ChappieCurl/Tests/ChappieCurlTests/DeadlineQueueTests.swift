import Testing

@testable import ChappieCurl

@Suite struct DeadlineQueueTests {
    @Test func givesTheEarliestFirstWhateverTheOrderTheyCameIn() {
        var queue = DeadlineQueue()
        let moments = (0..<500).map { Duration.milliseconds($0 * 7919 % 500) }
        for (id, moment) in moments.enumerated() { queue.add(moment, for: id) }
        #expect(queue.count == 500)
        var given: [Duration] = []
        while let entry = queue.popFirst(dueAt: .seconds(1)) {
            #expect(moments[entry.id] == entry.moment)
            given.append(entry.moment)
        }
        #expect(given == moments.sorted())
        #expect(queue.earliest == nil)
    }

    @Test func givesNothingBeforeItsMoment() {
        var queue = DeadlineQueue()
        queue.add(.seconds(2), for: 2)
        queue.add(.seconds(1), for: 1)
        #expect(queue.earliest == .seconds(1))
        let early = queue.popFirst(dueAt: .seconds(1) - .nanoseconds(1))
        #expect(early == nil)
        let first = queue.popFirst(dueAt: .seconds(1))
        #expect(first == DeadlineQueue.Entry(moment: .seconds(1), id: 1))
        let second = queue.popFirst(dueAt: .seconds(1))
        #expect(second == nil)
        #expect(queue.count == 1)
    }
}
