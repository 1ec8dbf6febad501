import Testing

@testable import ChappieHTTP

@Suite struct ReadBurstTests {
    @Test func smallPiecesThatFollowCloselyAreABurst() {
        var burst = ReadBurst()
        let reads = [(0, 100), (3, 100), (5, 100), (12, 100), (13, 1 << 16), (14, 0), (15, 100)]
        let rests = reads.map { milliseconds, size in
            burst.read(size)
            return burst.goesOn(isReceiving: true, at: milliseconds * 1_000_000)
        }
        #expect(rests == [false, true, true, false, false, false, true])
        burst.read(100)
        let restsAfterTheEnd = burst.goesOn(isReceiving: false, at: 16_000_000)
        #expect(!restsAfterTheEnd)
    }
}
