import ChappieCore
import ChappieTesting
import Testing

@testable import ChappieWebSocket

@Suite(.byItself) struct WebSocketSessionTests {
    @Test func aReceiverIsToldOnceARoundWithAllThatCame() throws {
        let run = try SessionRun.opened()
        run.awaitArrival()
        run.receive(WebSocketFrames.text("a") + WebSocketFrames.text("b"), at: .seconds(1))
        run.receive(WebSocketFrames.text("c"), at: .seconds(1))
        #expect(run.told == [.success(.messages([.text("a"), .text("b")]))])
        run.awaitArrival()
        #expect(run.told.last == .success(.messages([.text("c")])))
    }

    @Test func aReceiversDeadlineIsItsOwn() throws {
        let run = try SessionRun.opened()
        run.awaitArrival(within: .seconds(5), at: .seconds(10))
        #expect(run.act { $0.deadline } == .seconds(15))
        run.tick(at: .seconds(15) - .nanoseconds(1))
        #expect(run.told.isEmpty)
        run.tick(at: .seconds(15))
        let error = try #require(run.firstError)
        #expect(error.code == .timedOut)
        #expect(error.stage == .message)
        #expect(run.act { $0.isOpen })
    }

    @Test func silencePingsOnceAndThenEnds() throws {
        let run = try SessionRun.opened()
        run.awaitArrival()
        run.tick(at: .seconds(30))
        run.tick(at: .seconds(31))
        // A ping without a payload: two bytes and a masking key.
        #expect(run.takeOutput().count == 6)
        run.tick(at: .seconds(60))
        let error = try #require(run.firstError)
        #expect(error.code == .timedOut)
        #expect(error.stage == .liveness)
        #expect(run.act { $0.isOver })
        #expect(run.act { !$0.isOpen })
    }

    @Test func aFullInboxStopsReadingUntilItIsEmptied() throws {
        let run = try SessionRun.opened()
        let frame = WebSocketFrames.frame(2, [UInt8](repeating: 1, count: 1 << 20))
        for _ in 0..<3 { run.receive(frame, at: .seconds(1)) }
        #expect(run.act { $0.wantsRead })
        run.receive(frame, at: .seconds(1))
        #expect(run.act { !$0.wantsRead })
        // Nothing is expected of a peer that nobody listens to.
        #expect(run.act { $0.deadline } == nil)
        #expect(run.act { !$0.takeReadAttempt() })
        run.awaitArrival()
        run.tick(at: .seconds(500))
        #expect(run.act { $0.wantsRead })
        // What TLS holds the socket doesn't tell of.
        #expect(run.act { $0.takeReadAttempt() })
        #expect(run.act { !$0.takeReadAttempt() })
        #expect(run.act { $0.deadline } == .seconds(530))
        #expect(run.act { $0.isOpen })
    }

    /// Behind TLS the socket does not tell of it again.
    @Test func anInboxThatFillsTwiceInARowIsReadOn() throws {
        let run = try SessionRun.opened()
        let frames = [[UInt8]](
            repeating: WebSocketFrames.frame(2, [UInt8](repeating: 1, count: 1 << 20)), count: 4
        ).flatMap(\.self)
        run.receive(frames, at: .seconds(1))
        for _ in 1...3 {
            run.awaitArrival()
            #expect(run.act { $0.takeReadAttempt() })
            // As the connection does: reading stops where the inbox is full.
            run.act { session in
                frames.withUnsafeBytes { session.received($0, at: .seconds(1)) }
                if !session.wantsRead { session.leftOffReading() }
                session.settle(at: .seconds(1))
            }
        }
    }

    @Test func whoTakesNoPongsIsNotHeardAndGivenUpInTime() throws {
        let run = try SessionRun.opened()
        let ping = WebSocketFrames.ping(String(repeating: "p", count: 125))
        var heard = 0
        while run.act({ $0.wantsRead }), heard < 10_000 {
            heard += 1
            run.receive(ping, at: .seconds(1))
        }
        #expect(run.act { $0.outbox.byteCount } < WebSocketOutbox.answerLimitBytes + 200)
        #expect(run.act { !$0.takeReadAttempt() })
        run.awaitArrival()
        run.tick(at: .seconds(31))
        run.tick(at: .seconds(61))
        #expect(run.firstError?.stage == .liveness)
        #expect(run.act { $0.isOver })
    }

    @Test func whoTakesItsPongsIsHeardAgain() throws {
        let run = try SessionRun.opened()
        let count = 1000
        let ping = WebSocketFrames.ping(String(repeating: "p", count: 125))
        run.receive([[UInt8]](repeating: ping, count: count).flatMap(\.self), at: .seconds(1))
        #expect(run.act { !$0.wantsRead })
        // A header of two bytes and a masking key.
        #expect(run.takeOutput().count == count * (2 + 4 + 125))
        #expect(run.act { $0.wantsRead })
        // What TLS holds the socket doesn't tell of.
        #expect(run.act { $0.takeReadAttempt() })
    }

    /// A peer may refuse a long message before it has read all of it.
    @Test func whatWeSendDoesNotKeepUsFromReading() throws {
        let run = try SessionRun.opened()
        #expect(try run.act { try $0.send(.binary([UInt8](repeating: 1, count: 8 << 20))) } != nil)
        run.receive(WebSocketFrames.ping("still there?"), at: .seconds(1))
        #expect(run.act { $0.wantsRead })
    }

    /// Nobody waits for an answer to what is still on its way.
    @Test func aSenderWaitsUntilItsMessageIsWritten() throws {
        let run = try SessionRun.opened()
        let written = run.awaitWriting(try run.act { try $0.send(.text("long")) }, at: .zero)
        run.act { session in
            session.outbox.offer()
            session.wrote(session.outbox.offered.count - 1, at: .seconds(1))
            session.settle(at: .seconds(1))
        }
        #expect(!written.isOpen)
        _ = run.takeOutput()
        run.tick(at: .seconds(2))
        #expect(written.isOpen)
    }

    @Test func aSenderDoesNotWaitForASocketThatTakesNothing() throws {
        let run = try SessionRun.opened()
        let written = run.awaitWriting(try run.act { try $0.send(.text("long")) }, at: .zero)
        run.act { $0.outbox.blocked(at: .seconds(10)) }
        // The peer lives, but does not read.
        for second in [30, 50, 69] { run.receive(WebSocketFrames.ping(""), at: .seconds(second)) }
        #expect(!written.isOpen)
        #expect(run.act { $0.deadline } == .seconds(70))
        run.tick(at: .seconds(70))
        #expect(written.isOpen)
        #expect(run.act { $0.isOpen })
        let next = run.awaitWriting(try run.act { try $0.send(.text("next")) }, at: .seconds(71))
        #expect(next.isOpen)
    }

    @Test func aSenderDoesNotWaitWhereNothingIsReadOrEverythingIsOver() throws {
        let run = try SessionRun.opened()
        let written = run.awaitWriting(try run.act { try $0.send(.text("a")) }, at: .zero)
        for _ in 0..<4 { run.receive(WebSocketFrames.frame(2, [UInt8](repeating: 1, count: 1 << 20)), at: .zero) }
        #expect(written.isOpen)
        let ended = try SessionRun.opened()
        let last = ended.awaitWriting(try ended.act { try $0.send(.text("b")) }, at: .zero)
        ended.act { session in
            session.connectionBroke()
            session.settle(at: .zero)
        }
        #expect(last.isOpen)
    }

    @Test func smallMessagesCountForMoreThanTheirBytes() throws {
        let run = try SessionRun.opened()
        let empty = WebSocketFrames.text("")
        var many: [UInt8] = []
        for _ in 0..<70_000 { many += empty }
        run.receive(many, at: .seconds(1))
        #expect(run.act { !$0.wantsRead })
    }

    @Test func afterItsCloseThePeerIsLeftASecondToGo() throws {
        let run = try SessionRun.opened()
        run.awaitEnd()
        run.receive(WebSocketFrames.close(1000), at: .seconds(5))
        #expect(run.takeOutput().first == 0x88)
        #expect(run.act { !$0.isOver })
        #expect(run.act { $0.wantsRead })
        run.tick(at: .seconds(6))
        #expect(run.act { $0.isOver })
        #expect(run.closeCount == 1)
    }

    @Test func aCloseGoesOutBehindWhatIsQueued() throws {
        let run = try SessionRun.opened()
        #expect(try run.act { try $0.send(.text("last")) } != nil)
        run.act { $0.close(.normal, at: .seconds(1)) }
        #expect(throws: ChappieTransportError.self) { try run.act { try $0.send(.text("late")) } }
        let output = run.takeOutput()
        #expect(output.first == 0x81)
        #expect(output.count == 10 + 8)
        run.receive(WebSocketFrames.text("still delivered") + WebSocketFrames.close(1000), at: .seconds(2))
        run.act { $0.connectionEnded(at: .seconds(2)) }
        #expect(run.act { $0.isOver })
        run.awaitArrival()
        run.awaitArrival()
        #expect(
            run.told == [.success(.messages([.text("still delivered")])), .success(.closed(.normal))])
    }

    @Test func aCloseThatIsNotAnsweredEndsTheConnection() throws {
        let run = try SessionRun.opened()
        run.act { $0.close(.normal, at: .seconds(1)) }
        run.tick(at: .seconds(6))
        #expect(run.act { $0.isOver })
        run.awaitArrival()
        #expect(run.firstError?.code == .connectionLost)
    }

    /// A peer that refuses and resets while we still write has had its say all the same.
    @Test func aSocketThatTakesNothingMoreIsReadToItsEnd() throws {
        let run = try SessionRun.opened()
        #expect(try run.act { try $0.send(.text("hello")) } != nil)
        run.act { $0.writingBroke() }
        #expect(run.act { !$0.wantsWrite })
        #expect(run.act { $0.wantsRead })
        run.receive(WebSocketFrames.close(1008), at: .seconds(1))
        run.awaitArrival()
        #expect(run.told == [.success(.closed(WebSocketCloseReason(code: 1008)))])
    }

    @Test func droppingItDropsWhatHasArrived() throws {
        let run = try SessionRun.opened()
        run.receive(WebSocketFrames.text("unread"), at: .seconds(1))
        run.act { $0.drop() }
        run.awaitArrival()
        #expect(run.firstError?.code == .connectionLost)
        #expect(run.act { $0.isOver })
    }

    @Test func theFirstEndCounts() throws {
        let run = try SessionRun.opened()
        run.receive(WebSocketFrames.close(1001), at: .seconds(1))
        run.act { $0.connectionBroke() }
        run.act { $0.drop() }
        run.awaitArrival()
        #expect(run.told == [.success(.closed(.goingAway))])
    }
}
