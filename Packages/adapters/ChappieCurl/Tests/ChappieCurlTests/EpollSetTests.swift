import Testing

@testable import ChappieCurl

@Suite struct EpollSetTests {
    @Test(arguments: [
        (0, 5, 0), (1, 0, 1), (1_000_000, 0, 1), (1_000_001, 0, 2), (.max, 0, Int.max / 1_000_000 + 1),
        (.max, 1, Int.max / 1_000_000 + 1),
    ])
    func `the time until a moment is rounded up, and no clock makes it too large`(moment: Int, now: Int, time: Int) {
        #expect(EpollSet.milliseconds(until: moment, from: now) == time)
    }
}
