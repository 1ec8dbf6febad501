import ChappieCore
@_spi(ChappieInternals) import ChappieCurl
import Testing

@testable import ChappieHTTP

@Suite struct TransferStateTests {
    private let deadlines = ChappieDeadlines(
        connect: .seconds(1), responseHead: .seconds(2), firstByte: .seconds(3), idle: .seconds(4))

    @Test func eachPhaseHasItsDeadline() throws {
        var state = TransferState(deadlines: deadlines, isThroughProxy: false, startedAt: .seconds(10))
        #expect(state.deadline == .seconds(11))
        #expect(state.expired(at: .seconds(11) - 1) == nil)
        #expect(state.expired(at: .seconds(11)) == .seconds(1))
        let accepted = state.connected(hasBody: true, at: .seconds(20))
        #expect(accepted)
        #expect(state.deadline == .seconds(24))
        state.sentBody(isWhole: false, at: .seconds(21))
        #expect(state.phase == .sending)
        #expect(state.deadline == .seconds(25))
        state.sentBody(isWhole: true, at: .seconds(30))
        #expect(state.deadline == .seconds(32))
        receiveHead(&state, at: .seconds(40))
        #expect(state.deadline == .seconds(43))
        _ = state.receivedBody(UnsafeRawBufferPointer(start: nil, count: 0), at: .seconds(50))
        #expect(state.deadline == .seconds(54))
        let full = [UInt8](repeating: 1, count: TransferState.highWaterMark)
        let isTaken = full.withUnsafeBytes { state.receivedBody($0, at: .seconds(51)) }
        let isTakenToo = full.withUnsafeBytes { state.receivedBody($0, at: .seconds(52)) }
        #expect(isTaken && !isTakenToo)
        #expect(state.deadline == nil)
        #expect(state.expired(at: .seconds(1_000_000)) == nil)
        let tooEarly = state.resume(at: .seconds(53))
        #expect(!tooEarly)
        #expect(try state.takeChunk()?.get() == full)
        let resumes = state.resume(at: .seconds(60))
        #expect(resumes)
        #expect(state.deadline == .seconds(64))
        state.ended()
        #expect(state.deadline == nil)
    }

    @Test func aRequestWithoutABodyIsOutAtOnce() {
        var state = TransferState(deadlines: deadlines, isThroughProxy: false, startedAt: 0)
        _ = state.connected(hasBody: false, at: .seconds(1))
        #expect(state.phase == .awaitingHead)
    }

    @Test func aSecondConnectionIsRefused() {
        var state = TransferState(deadlines: deadlines, isThroughProxy: false, startedAt: 0)
        let first = state.connected(hasBody: false, at: .seconds(1))
        let second = state.connected(hasBody: false, at: .seconds(2))
        #expect(first && !second)
    }

    @Test func anEarlyAnswerEndsTheSending() {
        var state = TransferState(deadlines: deadlines, isThroughProxy: false, startedAt: 0)
        _ = state.connected(hasBody: true, at: .seconds(1))
        receiveHead(&state, at: .seconds(2))
        state.sentBody(isWhole: true, at: .seconds(3))
        #expect(state.phase == .awaitingBody)
        #expect(state.deadline == .seconds(5))
    }

    private func receiveHead(_ state: inout TransferState, at now: Int) {
        for line in ["HTTP/1.1 200 OK\r\n", "\r\n"] { _ = state.receivedLine(Array(line.utf8), at: now) }
    }
}

extension Int {
    /// In nanoseconds.
    fileprivate static func seconds(_ seconds: Int) -> Int { seconds * 1_000_000_000 }
}
