import ChappieCore
@_spi(ChappieInternals) import ChappieCurl
import Testing

@testable import ChappieHTTP

@Suite struct TransferStateTests {
    private var state = TransferState(
        deadlines: ChappieDeadlines(
            connect: .seconds(1), responseHead: .seconds(2), firstByte: .seconds(3), idle: .seconds(4)),
        isThroughProxy: false, startedAt: .seconds(10))

    @Test mutating func eachPhaseHasItsDeadline() throws {
        #expect(state.deadline == .seconds(11))
        #expect(state.expired(at: .seconds(11) - 1) == nil)
        #expect(state.expired(at: .seconds(11)) == .seconds(1))
        // The machine slept if the loop comes seconds late: the connection is lost, and the server was not silent.
        #expect(!state.sleptThrough(at: .seconds(16) - 1) && state.sleptThrough(at: .seconds(16)))
        let isAccepted = state.connected(hasBody: true, at: .seconds(20))
        #expect(isAccepted)
        #expect(state.deadline == .seconds(24))
        state.sentBody(isWhole: false, at: .seconds(21))
        #expect(state.phase == .sending)
        #expect(state.deadline == .seconds(25))
        state.sentBody(isWhole: true, at: .seconds(30))
        #expect(state.deadline == .seconds(32))
        receiveHead(at: .seconds(40))
        #expect(state.deadline == .seconds(43))
        _ = state.receivedBody(UnsafeRawBufferPointer(start: nil, count: 0), at: .seconds(50))
        #expect(state.deadline == .seconds(54))
        let full = [UInt8](repeating: 1, count: TransferState.highWaterMark)
        let areTaken = [51, 52].map { now in full.withUnsafeBytes { state.receivedBody($0, at: .seconds(now)) } }
        #expect(areTaken == [true, false])
        #expect(state.deadline == nil)
        #expect(state.expired(at: .seconds(1_000_000)) == nil)
        let isTooEarly = state.resume(at: .seconds(53))
        #expect(!isTooEarly)
        #expect(try state.takeChunk()?.get() == full)
        let resumes = state.resume(at: .seconds(60))
        #expect(resumes)
        #expect(state.deadline == .seconds(64))
        state.ended()
        #expect(state.deadline == nil)
    }

    @Test mutating func aRequestWithoutABodyIsOutAtOnceAndOnce() {
        let areAccepted = [1, 2].map { state.connected(hasBody: false, at: .seconds($0)) }
        #expect(areAccepted == [true, false])
        #expect(state.phase == .awaitingHead)
    }

    @Test mutating func anEarlyAnswerEndsTheSending() {
        _ = state.connected(hasBody: true, at: .seconds(1))
        receiveHead(at: .seconds(2))
        state.sentBody(isWhole: true, at: .seconds(3))
        #expect(state.phase == .awaitingBody)
        #expect(state.deadline == .seconds(5))
    }

    /// The reader may have given up because of the silence, and the next request would meet with the same.
    @Test mutating func aConnectionIsInDoubtAfterATimeOutAndAfterASilenceThatWasCutOff() {
        _ = state.connected(hasBody: false, at: .seconds(20))
        let limit = Int.seconds(20) + TransferState.suspiciousSilence.nanoseconds
        for (end, isInDoubt) in [(limit - 1, false), (limit, true)] {
            var cut = state
            cut.cancelled(at: end)
            cut.cancelled(at: end + .seconds(100))
            #expect(cut.doubtsConnection == isInDoubt)
        }
        var late = state
        late.timedOut(CancellationError())
        #expect(late.doubtsConnection)
        receiveHead(at: .seconds(21))
        state.ended()
        state.cancelled(at: .seconds(100))
        #expect(!state.doubtsConnection)
    }

    @Test mutating func smallPiecesThatFollowCloselyAreABurst() {
        receiveHead(at: .seconds(1))
        func milliseconds(_ count: Int) -> Int { .seconds(2) + count * 1_000_000 }
        let rests = [(0, 100), (3, 100), (5, 100), (12, 100), (13, 1 << 16), (14, 0), (15, 100)].map { time, size in
            let piece = [UInt8](repeating: 1, count: size)
            _ = piece.withUnsafeBytes { size > 0 && state.receivedBody($0, at: milliseconds(time)) }
            return state.isInBurst(at: milliseconds(time))
        }
        #expect(rests == [false, true, true, false, false, false, true])
        state.ended()
        let restsAfterTheEnd = state.isInBurst(at: milliseconds(16))
        #expect(!restsAfterTheEnd)
    }

    private mutating func receiveHead(at now: Int) {
        for line in ["HTTP/1.1 200 OK\r\n", "\r\n"] { _ = state.receivedLine(Array(line.utf8), at: now) }
    }
}

extension Int {
    /// In nanoseconds.
    fileprivate static func seconds(_ seconds: Int) -> Int { seconds * 1_000_000_000 }
}
