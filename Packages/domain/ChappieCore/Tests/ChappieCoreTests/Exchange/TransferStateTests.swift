@_spi(ChappieInternals) import ChappieCore
import HTTPTypes
import Testing

@Suite struct TransferStateTests {
    private var state = TransferState(
        deadlines: ChappieDeadlines(
            connect: .seconds(1), responseHead: .seconds(2), firstByte: .seconds(3), idle: .seconds(4)),
        startedAt: .seconds(10))

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
    @Test mutating func `a connection is in doubt after a timeout or a cancelled long silence`() {
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

    /// URLSession may deliver some more after it was suspended.
    @Test mutating func `bytes that cannot be offered again are taken, and the network waits`() throws {
        receiveHead(at: .seconds(1))
        let half = [UInt8](repeating: 1, count: TransferState.highWaterMark / 2)
        let goOn = (1...3).map { second in half.withUnsafeBytes { state.mustTakeBody($0, at: .seconds(second)) } }
        #expect(goOn == [true, false, false])
        #expect(state.phase == .paused && state.deadline == nil)
        #expect(try state.takeChunk()?.get()?.count == 3 * half.count)
        let resumes = [4, 5].map { state.resume(at: .seconds($0)) }
        #expect(resumes == [true, false])
        state.cancelled(at: .seconds(6))
        let isTaken = half.withUnsafeBytes { state.mustTakeBody($0, at: .seconds(7)) }
        #expect(isTaken)
        #expect(throws: CancellationError.self) { try state.takeChunk()?.get() }
    }

    private mutating func receiveHead(at now: Int) {
        state.received(ResponseHead(status: .ok, headerFields: [:]), at: now)
    }
}

extension Int {
    /// In nanoseconds.
    fileprivate static func seconds(_ seconds: Int) -> Int { seconds * 1_000_000_000 }
}
