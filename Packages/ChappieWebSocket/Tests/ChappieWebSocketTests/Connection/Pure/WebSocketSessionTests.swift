import ChappieCore
import ChappieTesting
import TestFixtures
import Testing

@_spi(ChappieInternals) @testable import ChappieCurl
@testable import ChappieWebSocket

@Suite(.byItself) struct WebSocketSessionTests {
    private let megabyte = WebSocketFrames.frame(2, [UInt8](repeating: 1, count: 1 << 20))

    // MARK: Deadlines

    @Test func theHandshakeHasTwoDeadlines() throws {
        let run = try SessionRun()
        #expect(run.deadline == Duration.seconds(1).nanoseconds)
        run.connected(at: Duration.seconds(20).nanoseconds)
        // Half an answer is no answer.
        run.receive(Array("HTTP/1.1 1".utf8), at: .seconds(21))
        #expect(run.deadline == Duration.seconds(22).nanoseconds)
        run.tick(at: .seconds(22) - .nanoseconds(1))
        #expect(!run.isOver)
        run.tick(at: .seconds(22))
        #expect(try run.failure().stage == .responseHead)
        let unanswered = try SessionRun()
        unanswered.tick(at: .seconds(1))
        #expect(try unanswered.failure().stage == .connect)
    }

    @Test func silencePingsOnceAndThenEnds() throws {
        let run = try SessionRun.opened()
        run.tick(at: .seconds(30) - .nanoseconds(1))
        #expect(run.takeOutput().isEmpty)
        run.tick(at: .seconds(30))
        run.tick(at: .seconds(31))
        // A ping without a payload: two bytes and a masking key.
        #expect(run.takeOutput().count == 6)
        run.tick(at: .seconds(60))
        let error = try run.failure()
        #expect(error.code == .timedOut)
        #expect(error.stage == .liveness)
        #expect(run.isOver)
        #expect(!run.isOpen)
    }

    @Test func everythingHeardIsASignOfLife() throws {
        let run = try SessionRun.opened()
        run.tick(at: .seconds(30))
        run.receive(WebSocketFrames.ping(""), at: .seconds(59))
        #expect(run.deadline == Duration.seconds(89).nanoseconds)
        // The network takes a long message piece by piece.
        run.blocked(at: Duration.seconds(60).nanoseconds)
        _ = run.takeOutput(at: .seconds(80))
        #expect(run.deadline == Duration.seconds(110).nanoseconds)
    }

    @Test func aCloseHasFiveSecondsAndThePeerOneMore() throws {
        let run = try SessionRun.opened()
        run.close(.normal, at: Duration.seconds(10).nanoseconds)
        // What still comes doesn't put it off.
        run.receive(WebSocketFrames.text("late"), at: .seconds(14))
        #expect(run.deadline == Duration.seconds(15).nanoseconds)
        run.receive(WebSocketFrames.close(1000), at: .seconds(14))
        #expect(run.deadline == Duration.seconds(15).nanoseconds)
        #expect(run.wantsRead)
        run.tick(at: .seconds(15))
        #expect(run.isOver)
        #expect(run.deadline == nil)
        let unanswered = try SessionRun.opened()
        unanswered.close(.normal, at: 0)
        unanswered.tick(at: .seconds(5))
        #expect(try unanswered.failure().code == .connectionLost)
    }

    @Test func aRefusalsBodyHasTheDeadlinesOfABody() throws {
        let run = try SessionRun()
        run.connected(at: 0)
        run.receive(Array("HTTP/1.1 500 No\r\n\r\n".utf8), at: .seconds(1))
        #expect(run.deadline == Duration.seconds(4).nanoseconds)
        run.receive([65], at: .seconds(2))
        #expect(run.deadline == Duration.seconds(6).nanoseconds)
        run.tick(at: .seconds(6))
        #expect(try run.takeBody() == [65])
        let error = try #require(throws: ChappieTransportError.self) { _ = try run.takeBody() }
        #expect(error.stage == .responseBody)
    }

    @Test func aRefusalsBodyIsReadUpTo64KiB() throws {
        let run = try SessionRun()
        run.connected(at: 0)
        run.receive(Array("HTTP/1.1 500 No\r\n\r\n".utf8) + [UInt8](repeating: 65, count: 70_000), at: .seconds(1))
        #expect(run.isOver)
        #expect(try run.takeBody()??.count == RefusalBody.limitBytes)
        #expect(try run.takeBody() == .some(.none))
    }

    // MARK: Reading

    @Test func aFullInboxStopsReadingUntilItIsEmptied() throws {
        let run = try SessionRun.opened()
        for _ in 0..<3 { run.receive(megabyte, at: .seconds(1)) }
        #expect(run.wantsRead)
        run.receive(megabyte, at: .seconds(2))
        #expect(!run.wantsRead)
        // Nothing is expected of a peer that is not heard.
        #expect(run.deadline == nil)
        #expect(!run.receive([], at: .seconds(400)))
        let (_, resumes) = try #require(try run.takeInbound())
        #expect(resumes)
        // What TLS holds the socket doesn't tell of.
        #expect(run.shouldReadOn(at: Duration.seconds(500).nanoseconds))
        run.tick(at: .seconds(500))
        #expect(run.deadline == Duration.seconds(530).nanoseconds)
        #expect(run.isOpen)
    }

    /// Behind TLS the socket does not tell of it again.
    @Test func anInboxThatFillsTwiceInARowIsReadOn() throws {
        let run = try SessionRun.opened()
        let frames = megabyte + megabyte + megabyte + megabyte
        run.receive(frames, at: .seconds(1))
        for second in 2...4 {
            #expect(try run.take() != nil)
            #expect(run.receive(frames, at: .seconds(second), isReadable: false))
        }
    }

    @Test func aPeerThatTakesNoPongsIsNotHeardAndGivenUpInTime() throws {
        let run = try SessionRun.opened()
        let ping = WebSocketFrames.ping(String(repeating: "p", count: 125))
        var heard = 0
        while run.receive(ping, at: .seconds(1)), heard < 10_000 { heard += 1 }
        #expect(run.queuedBytes < WebSocketOutbox.answerLimitBytes + 200)
        run.tick(at: .seconds(31))
        run.tick(at: .seconds(61))
        #expect(try run.failure().stage == .liveness)
    }

    @Test func aPeerThatTakesItsPongsIsHeardAgain() throws {
        let run = try SessionRun.opened()
        let ping = WebSocketFrames.ping(String(repeating: "p", count: 125))
        run.receive([[UInt8]](repeating: ping, count: 1000).flatMap(\.self), at: .seconds(1))
        #expect(!run.wantsRead)
        // A header of two bytes and a masking key.
        #expect(run.takeOutput().count == 1000 * (2 + 4 + 125))
        #expect(run.shouldReadOn(at: Duration.seconds(2).nanoseconds))
    }

    /// A peer may refuse a long message before it has read all of it.
    @Test func aLongMessageOfOursDoesNotKeepUsFromReading() throws {
        let run = try SessionRun.opened()
        #expect(try run.send(.binary([UInt8](repeating: 1, count: 8 << 20))) != nil)
        #expect(run.receive(WebSocketFrames.ping("still there?"), at: .seconds(1)))
    }

    @Test func smallMessagesCountForMoreThanTheirBytes() throws {
        let run = try SessionRun.opened()
        run.receive([[UInt8]](repeating: WebSocketFrames.text(""), count: 70_000).flatMap(\.self), at: .seconds(1))
        #expect(!run.wantsRead)
    }

    // MARK: The rest in a burst

    @Test func aBurstIsReadEveryTwoMilliseconds() throws {
        let run = try SessionRun.opened()
        let message = WebSocketFrames.text("delta")
        // After silence there is no delay, and one message makes no burst.
        run.receive(message, at: .milliseconds(1000))
        #expect(run.waits(at: .milliseconds(1000)).reads)
        run.receive(message, at: .milliseconds(1001))
        for start in [1001, 1003, 1005] {
            let waits = run.waits(at: .milliseconds(start))
            #expect(!waits.reads)
            #expect(waits.until == .milliseconds(start + 2))
            #expect(!run.receive(message, at: .milliseconds(start + 1)))
            #expect(run.receive(message, at: .milliseconds(start + 2), isReadable: false))
        }
        // Nothing came meanwhile: the socket is waited for again.
        #expect(run.receive([], at: .milliseconds(1009), isReadable: false))
        #expect(run.waits(at: .milliseconds(1009)).reads)
        #expect(run.receive(message, at: .milliseconds(1050)))
        #expect(run.waits(at: .milliseconds(1050)).reads)
    }

    @Test func theAnswerToAMessageOfOursIsNotMadeToWait() throws {
        let run = try SessionRun.opened()
        for millisecond in [1000, 1001] { run.receive(WebSocketFrames.text("a"), at: .milliseconds(millisecond)) }
        #expect(!run.waits(at: .milliseconds(1001)).reads)
        #expect(try run.send(.text("question")) != nil)
        _ = run.takeOutput()
        #expect(run.receive(WebSocketFrames.text("answer"), at: .milliseconds(1002)))
        #expect(run.waits(at: .milliseconds(1002)).reads)
    }

    @Test func aPeerThatFillsTheLineIsNotMadeToWait() throws {
        let run = try SessionRun.opened()
        for millisecond in [1000, 1001] { run.receive(megabyte, at: .milliseconds(millisecond)) }
        #expect(run.waits(at: .milliseconds(1001)).reads)
    }

    @Test func aVisitThatStoppedAtItsBoundGoesOnAtOnce() throws {
        let run = try SessionRun.opened()
        let time = Duration.milliseconds(1001)
        run.receive(WebSocketFrames.text("a"), at: .milliseconds(1000))
        run.receive(WebSocketFrames.text("b"), at: time, hasMore: true)
        #expect(run.waits(at: time).until == time)
        #expect(run.receive(WebSocketFrames.text("c"), at: time, isReadable: false))
        #expect(!run.waits(at: time).reads)
    }

    @Test func aRestEndsWithTheNextDeadline() throws {
        let run = try SessionRun.opened()
        for millisecond in [1000, 1001] { run.receive(WebSocketFrames.text("a"), at: .milliseconds(millisecond)) }
        let deadline = Duration.milliseconds(1002).nanoseconds
        guard case .stay(_, _, let until) = run.verdict(at: deadline - 1_000_000, deadline: deadline) else {
            Issue.record("it has left")
            return
        }
        #expect(until == deadline)
    }

    // MARK: Writing

    /// The answer to a message that is still on its way is not waited for.
    @Test func aMessageIsWrittenOnceTheSocketHasAllOfIt() throws {
        let run = try SessionRun.opened()
        let end = try #require(try run.send(.text("long")))
        let (_, range) = try #require(run.nextPiece())
        run.wrote(range.count - 1, at: 0)
        #expect(!run.isWritten(end, at: 0))
        _ = run.takeOutput()
        #expect(run.isWritten(end, at: 0))
    }

    @Test func aSocketThatTakesNothingIsNotWaitedForLongerThanAPeer() throws {
        let run = try SessionRun.opened()
        let end = try #require(try run.send(.text("long")))
        run.blocked(at: Duration.seconds(10).nanoseconds)
        // The peer lives, but does not read.
        for second in [30, 50, 69] { run.receive(WebSocketFrames.ping(""), at: .seconds(second)) }
        #expect(!run.isWritten(end, at: Duration.seconds(69).nanoseconds))
        #expect(run.writingDeadline == Duration.seconds(70).nanoseconds)
        #expect(run.isWritten(end, at: Duration.seconds(70).nanoseconds))
        #expect(run.isOpen)
    }

    @Test func writingIsNotWaitedForWhereNothingIsReadOrEverythingIsOver() throws {
        let full = try SessionRun.opened()
        let first = try #require(try full.send(.text("a")))
        full.receive(megabyte + megabyte + megabyte + megabyte, at: .zero)
        #expect(full.isWritten(first, at: 0))
        let broken = try SessionRun.opened()
        let second = try #require(try broken.send(.text("b")))
        broken.connectionBroke()
        #expect(broken.isWritten(second, at: 0))
    }

    // MARK: The end

    @Test func aCloseGoesOutBehindWhatIsQueued() throws {
        let run = try SessionRun.opened()
        #expect(try run.send(.text("last")) != nil)
        run.close(.normal, at: Duration.seconds(1).nanoseconds)
        #expect(throws: ChappieTransportError.self) { try run.send(.text("late")) }
        let output = run.takeOutput()
        #expect(output.first == 0x81)
        #expect(output.count == 10 + 8)
        run.receive(WebSocketFrames.text("still delivered") + WebSocketFrames.close(1000), at: .seconds(2))
        run.connectionEnded(at: Duration.seconds(2).nanoseconds)
        #expect(run.isOver)
        #expect(try run.take() == .messages([.text("still delivered")]))
        #expect(try run.take() == .closed(.normal))
    }

    @Test func aPeersCloseIsAnswered() throws {
        let run = try SessionRun.opened()
        run.receive(WebSocketFrames.close(1000), at: .seconds(5))
        #expect(run.takeOutput().first == 0x88)
        #expect(!run.isOver)
        run.tick(at: .seconds(6))
        #expect(run.isOver)
    }

    /// A peer that refuses and resets while we still write has had its say all the same.
    @Test func aSocketThatTakesNothingMoreIsReadToItsEnd() throws {
        let run = try SessionRun.opened()
        #expect(try run.send(.text("hello")) != nil)
        run.writingBroke()
        #expect(!run.wantsWrite)
        run.receive(WebSocketFrames.close(1008), at: .seconds(1))
        #expect(try run.take() == .closed(WebSocketCloseReason(code: 1008)))
    }

    @Test func droppingItDropsWhatHasArrived() throws {
        let run = try SessionRun.opened()
        run.receive(WebSocketFrames.text("unread"), at: .seconds(1))
        run.drop()
        #expect(try run.failure().code == .connectionLost)
        #expect(run.isOver)
    }

    @Test func theFirstEndCounts() throws {
        let run = try SessionRun.opened()
        run.receive(WebSocketFrames.close(1001), at: .seconds(1))
        run.connectionBroke()
        run.drop()
        #expect(try run.take() == .closed(.goingAway))
    }
}
