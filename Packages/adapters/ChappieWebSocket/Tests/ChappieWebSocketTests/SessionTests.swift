@_spi(ChappieInternals) import ChappieCore
import ChappieSimulatorServer
import ChappieTesting
import TestFixtures
import Testing

@testable import ChappieWebSocket

/// A session with nothing around it; times are those since the first attempt to connect.
private final class SessionRun {
    var session: WebSocketSession

    init() throws {
        let handshake = try WebSocketHandshake(target: "/", authority: "host.test", offersCompression: false, nonce: 1)
        let deadlines = ChappieDeadlines(connect: .seconds(1), upgrade: .seconds(2), liveness: .seconds(60))
        session = WebSocketSession(
            handshake, host: "host.test", deadlines: deadlines, startedAt: 0, nextMaskingKey: { 0x1234_5678 })
    }

    /// A session that was opened at second 0.
    static func opened() throws -> SessionRun {
        let run = try SessionRun()
        run.session.connected(at: 0)
        let request = String(decoding: run.takeOutput(), as: UTF8.self)
        let key = try #require(request.split(separator: "\r\n").first { $0.hasPrefix("Sec-WebSocket-Key:") })
        let answer = ScriptedAnswer.switchingToWebSocket(
            ReceivedRequest(
                method: "GET", target: "/",
                headerFields: [("Sec-WebSocket-Key", String(key.split(separator: " ").last ?? ""))]))
        guard case .send(let head)? = answer.steps.first else { throw ContractViolation("The answer has no head.") }
        run.receive(head, at: .zero)
        return run
    }

    /// A visit: the socket has these bytes to read, all of them at once.
    ///
    /// - Parameter isReadable: whether it says so.
    /// - Returns: whether they were read.
    @discardableResult
    func receive(_ bytes: [UInt8], at time: Duration, isReadable: Bool = true, hasMore: Bool = false) -> Bool {
        let now = time.nanoseconds
        let reads = session.beginsReading(isReadable: isReadable, at: now)
        if reads {
            bytes.withUnsafeBytes { session.received($0, at: now) }
            session.endedReading(hasMore: hasMore || !session.wantsRead, at: now)
        }
        tick(at: time)
        return reads
    }

    /// A visit for which there is no reason but the time.
    func tick(at time: Duration) {
        session.timeHasPassed(until: time.nanoseconds) { _ in
            ChappieTransportError(.timedOut, stage: .connect, host: "host.test", reason: "no connection")
        }
    }

    /// The events that it waits for after a visit.
    func waits(at time: Duration, deadline: Duration? = nil) -> (reads: Bool, until: Duration?) {
        let verdict = session.verdict(at: time.nanoseconds, deadline: deadline?.nanoseconds)
        guard case .stay(let reads, _, let until, _) = verdict else { return (false, nil) }
        return (reads, until.map { .nanoseconds($0) })
    }

    /// The bytes that it wants to send; the socket takes them at once.
    func takeOutput(at time: Duration = .zero) -> [UInt8] {
        var output: [UInt8] = []
        while let (bytes, range) = session.outbox.nextPiece {
            output += bytes[range]
            session.wrote(range.count, at: time.nanoseconds)
        }
        return output
    }

    // The test macros can't call what changes a value.
    func take(at time: Duration = .zero) throws -> WebSocketInbound? {
        try session.takeInbound(at: time.nanoseconds)?.get()
    }
    func send(_ message: WebSocketMessage) throws -> Int? { try session.send(message)?.get() }

    /// The error that a receiver is given.
    func failure() throws -> ChappieTransportError {
        try #require(throws: ChappieTransportError.self) { _ = try take() }
    }

    func refusal() throws -> [UInt8]? {
        guard case .refused(_, let body)? = try session.opening?.get() else { return nil }
        return body
    }
}

@Suite(.byItself) struct SessionTests {
    private let megabyte = WebSocketFrames.frame(2, [UInt8](repeating: 1, count: 1 << 20))

    // MARK: Deadlines

    @Test func theHandshakeHasTwoDeadlines() throws {
        let run = try SessionRun()
        #expect(run.session.deadline == Duration.seconds(1).nanoseconds)
        run.session.connected(at: Duration.seconds(20).nanoseconds)
        // Half an answer is no answer.
        run.receive(Array("HTTP/1.1 1".utf8), at: .seconds(21))
        #expect(run.session.deadline == Duration.seconds(22).nanoseconds)
        run.tick(at: .seconds(22) - .nanoseconds(1))
        #expect(!run.session.isOver)
        run.tick(at: .seconds(22))
        let error = try run.failure()
        #expect(error.stage == .responseHead && error.host == "host.test")
        #expect(error.reason == "no response head within 2 s")
        let unanswered = try SessionRun()
        unanswered.tick(at: .seconds(1))
        #expect(try unanswered.failure().stage == .connect)
    }

    @Test func `a demanded ping goes out at once and needs a byte in time`() throws {
        let mute = try SessionRun.opened()
        // Half of the liveness deadline does not end it.
        mute.session.ping(within: .seconds(40), at: Duration.seconds(1).nanoseconds)
        #expect(WebSocketFrames.frame(9, []).first == mute.takeOutput().first)
        #expect(mute.session.deadline == Duration.seconds(41).nanoseconds)
        #expect(mute.session.pingAnswer == nil)
        mute.tick(at: .seconds(41))
        let error = try mute.failure()
        #expect(error.code == .timedOut && error.stage == .firstByte)
        #expect(error.reason == "not even an answer to a ping within 40 s")
        #expect(throws: ChappieTransportError.self) { try mute.session.pingAnswer?.get() }
    }

    @Test func `any byte answers a demanded ping, and a later silence is one of a living connection`() throws {
        let run = try SessionRun.opened()
        run.session.ping(within: .seconds(5), at: 0)
        _ = run.takeOutput()
        run.receive([0x81], at: .seconds(4))
        #expect(throws: Never.self) { try run.session.pingAnswer?.get() }
        #expect(run.session.deadline == Duration.seconds(34).nanoseconds)
        run.session.ping(within: .seconds(5), at: Duration.seconds(10).nanoseconds)
        run.tick(at: .seconds(15))
        #expect(try run.failure().stage == .liveness)
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
        #expect(run.session.isOver)
        #expect(!run.session.isOpen)
    }

    /// The machine slept for an hour: the peer gets its time to answer from then on.
    @Test func aPingThatGoesOutLateIsWaitedFor() throws {
        let run = try SessionRun.opened()
        run.tick(at: .seconds(3600))
        #expect(run.takeOutput().count == 6)
        run.tick(at: .seconds(3600) + .microseconds(3))
        run.tick(at: .seconds(3629))
        #expect(run.session.isOpen)
        run.tick(at: .seconds(3630))
        #expect(try run.failure().stage == .liveness)
    }

    @Test func everythingHeardIsASignOfLife() throws {
        let run = try SessionRun.opened()
        run.tick(at: .seconds(30))
        // A socket that takes bytes as ever says nothing about the peer.
        _ = run.takeOutput(at: .seconds(40))
        #expect(run.session.deadline == Duration.seconds(60).nanoseconds)
        run.receive(WebSocketFrames.ping(""), at: .seconds(59))
        #expect(run.session.deadline == Duration.seconds(89).nanoseconds)
        // The network takes a long message piece by piece.
        run.session.outbox.blocked(at: Duration.seconds(60).nanoseconds)
        _ = run.takeOutput(at: .seconds(80))
        #expect(run.session.deadline == Duration.seconds(110).nanoseconds)
    }

    @Test func aCloseHasFiveSecondsAndThePeerOneMore() throws {
        let run = try SessionRun.opened()
        run.session.close(.normal, at: Duration.seconds(10).nanoseconds)
        // What still comes doesn't put it off.
        run.receive(WebSocketFrames.text("late"), at: .seconds(14))
        #expect(run.session.deadline == Duration.seconds(15).nanoseconds)
        run.receive(WebSocketFrames.close(1000), at: .seconds(14))
        #expect(run.session.deadline == Duration.seconds(15).nanoseconds)
        #expect(run.session.wantsRead)
        run.tick(at: .seconds(15))
        #expect(run.session.isOver)
        #expect(run.session.deadline == nil)
        let unanswered = try SessionRun.opened()
        unanswered.session.close(.normal, at: 0)
        unanswered.tick(at: .seconds(5))
        #expect(try unanswered.failure().code == .connectionLost)
    }

    /// A body that breaks off does not change the answer.
    @Test func aRefusalsBodyHasFiveSecondsFromItsHead() throws {
        let run = try SessionRun()
        run.session.connected(at: 0)
        run.receive(Array("HTTP/1.1 500 No\r\n\r\n".utf8), at: .seconds(1))
        run.receive([65], at: .seconds(4))
        #expect(run.session.deadline == Duration.seconds(6).nanoseconds)
        #expect(try run.refusal() == nil)
        run.tick(at: .seconds(6))
        #expect(try run.refusal() == [65])
        let ending = try SessionRun()
        ending.session.connected(at: 0)
        ending.receive(Array("HTTP/1.1 500 No\r\ncontent-length: 9\r\n\r\nhalf".utf8), at: .seconds(1))
        ending.session.connectionEnded()
        #expect(try ending.refusal() == Array("half".utf8))
    }

    @Test func aRefusalsBodyIsReadUpTo64KiB() throws {
        let run = try SessionRun()
        run.session.connected(at: 0)
        run.receive(Array("HTTP/1.1 500 No\r\n\r\n".utf8) + [UInt8](repeating: 65, count: 70_000), at: .seconds(1))
        #expect(run.session.isOver)
        #expect(try run.refusal()?.count == 64 << 10)
    }

    // MARK: Reading

    @Test func aFullInboxStopsReadingUntilItIsEmptied() throws {
        let run = try SessionRun.opened()
        for _ in 0..<3 { run.receive(megabyte, at: .seconds(1)) }
        #expect(run.session.wantsRead)
        run.receive(megabyte, at: .seconds(2))
        #expect(!run.session.wantsRead)
        // Nothing is expected of a peer that is not heard.
        #expect(run.session.deadline == nil)
        #expect(!run.receive([], at: .seconds(400)))
        #expect(try run.take(at: .seconds(500)) != nil)
        // The socket doesn't report bytes that TLS holds.
        #expect(run.session.shouldReadOn(at: Duration.seconds(500).nanoseconds))
        #expect(run.session.deadline == Duration.seconds(530).nanoseconds)
        #expect(run.session.isOpen)
    }

    /// With TLS the socket does not report it again.
    @Test func anInboxThatFillsTwiceInARowIsReadOn() throws {
        let run = try SessionRun.opened()
        let frames = megabyte + megabyte + megabyte + megabyte
        run.receive(frames, at: .seconds(1))
        for second in 2...4 {
            #expect(try run.take() != nil)
            #expect(run.receive(frames, at: .seconds(second), isReadable: false))
        }
    }

    @Test func `a peer that reads no pongs is no longer read and is given up in time`() throws {
        let run = try SessionRun.opened()
        let ping = WebSocketFrames.ping(String(repeating: "p", count: 125))
        var heard = 0
        while run.receive(ping, at: .seconds(1)), heard < 10_000 { heard += 1 }
        #expect(run.session.outbox.byteCount < WebSocketOutbox.answerLimitBytes + 200)
        run.tick(at: .seconds(31))
        run.tick(at: .seconds(61))
        #expect(try run.failure().stage == .liveness)
    }

    @Test func aPeerThatTakesItsPongsIsHeardAgain() throws {
        let run = try SessionRun.opened()
        let ping = WebSocketFrames.ping(String(repeating: "p", count: 125))
        run.receive([[UInt8]](repeating: ping, count: 1000).flatMap(\.self), at: .seconds(1))
        #expect(!run.session.wantsRead)
        // A header of two bytes and a masking key.
        #expect(run.takeOutput().count == 1000 * (2 + 4 + 125))
        #expect(run.session.shouldReadOn(at: Duration.seconds(2).nanoseconds))
    }

    /// A peer may refuse a long message before it has read all of it.
    @Test func `a long outgoing message does not keep us from reading`() throws {
        let run = try SessionRun.opened()
        #expect(try run.send(.binary([UInt8](repeating: 1, count: 8 << 20))) != nil)
        #expect(run.receive(WebSocketFrames.ping("still there?"), at: .seconds(1)))
    }

    @Test func `a message over the limit is refused at once, and the connection survives`() throws {
        let run = try SessionRun.opened()
        #expect(try run.send(.text("queued")) != nil)
        let error = try #require(throws: ChappieTransportError.self) {
            try run.send(.binary([UInt8](repeating: 1, count: 17 << 20)))
        }
        #expect(error.code == .bodyTooLarge && error.stage == .request)
        #expect(run.session.isOpen)
    }

    @Test func smallMessagesCountForMoreThanTheirBytes() throws {
        let run = try SessionRun.opened()
        run.receive([[UInt8]](repeating: WebSocketFrames.text(""), count: 70_000).flatMap(\.self), at: .seconds(1))
        #expect(!run.session.wantsRead)
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
        #expect(run.waits(at: .milliseconds(1001), deadline: .milliseconds(1002)).until == .milliseconds(1002))
    }

    // MARK: Writing

    /// The answer to a message that is still on its way is not waited for.
    @Test func aMessageIsWrittenOnceTheSocketHasAllOfIt() throws {
        let run = try SessionRun.opened()
        let end = try #require(try run.send(.text("long")))
        let (_, range) = try #require(run.session.outbox.nextPiece)
        run.session.wrote(range.count - 1, at: 0)
        #expect(!run.session.isWritten(end, at: 0))
        _ = run.takeOutput()
        #expect(run.session.isWritten(end, at: 0))
    }

    @Test func `the wait for a blocked socket is no longer than the wait for a peer`() throws {
        let run = try SessionRun.opened()
        let end = try #require(try run.send(.text("long")))
        run.session.outbox.blocked(at: Duration.seconds(10).nanoseconds)
        // The peer lives, but does not read.
        for second in [30, 50, 69] { run.receive(WebSocketFrames.ping(""), at: .seconds(second)) }
        #expect(!run.session.isWritten(end, at: Duration.seconds(69).nanoseconds))
        #expect(run.waits(at: .seconds(69)).until == .seconds(70))
        #expect(run.session.isWritten(end, at: Duration.seconds(70).nanoseconds))
        #expect(run.session.isOpen)
    }

    @Test func `writing isn't awaited if nothing is read or the connection has ended`() throws {
        let full = try SessionRun.opened()
        let first = try #require(try full.send(.text("a")))
        full.receive(megabyte + megabyte + megabyte + megabyte, at: .zero)
        #expect(full.session.isWritten(first, at: 0))
        let broken = try SessionRun.opened()
        let second = try #require(try broken.send(.text("b")))
        broken.session.connectionEnded()
        #expect(broken.session.isWritten(second, at: 0))
    }

    // MARK: The end

    @Test func aCloseGoesOutBehindWhatIsQueued() throws {
        let run = try SessionRun.opened()
        #expect(try run.send(.text("last")) != nil)
        run.session.close(.normal, at: Duration.seconds(1).nanoseconds)
        #expect(throws: ChappieTransportError.self) { try run.send(.text("late")) }
        let output = run.takeOutput()
        #expect(output.first == 0x81)
        #expect(output.count == 10 + 8)
        run.receive(WebSocketFrames.text("still delivered") + WebSocketFrames.close(1000), at: .seconds(2))
        run.session.connectionEnded()
        #expect(run.session.isOver)
        #expect(try run.take() == .messages([.text("still delivered")]))
        #expect(try run.take() == .closed(.normal))
    }

    @Test func aPeersCloseIsAnswered() throws {
        let run = try SessionRun.opened()
        run.receive(WebSocketFrames.close(1000), at: .seconds(5))
        #expect(run.takeOutput().first == 0x88)
        #expect(!run.session.isOver)
        run.tick(at: .seconds(6))
        #expect(run.session.isOver)
    }

    @Test func `a close is delivered once its answer is written, or can't be in time`() throws {
        for isTaken in [true, false] {
            let run = try SessionRun.opened()
            run.receive(WebSocketFrames.close(1001), at: .seconds(1))
            #expect(try run.take() == nil)
            if isTaken { #expect(run.takeOutput() != []) } else { run.tick(at: .seconds(2)) }
            #expect(try run.take() == .closed(.goingAway))
        }
    }

    /// A peer that refuses and resets while we still write has had its say all the same.
    @Test func `a socket that accepts nothing more is read to its end`() throws {
        let run = try SessionRun.opened()
        #expect(try run.send(.text("hello")) != nil)
        run.session.writingBroke()
        #expect(run.session.outbox.isEmpty)
        run.receive(WebSocketFrames.close(1008), at: .seconds(1))
        #expect(try run.take() == .closed(WebSocketCloseReason(code: 1008)))
    }

    @Test func droppingItDropsWhatHasArrived() throws {
        let run = try SessionRun.opened()
        run.receive(WebSocketFrames.text("unread"), at: .seconds(1))
        run.session.drop()
        #expect(try run.failure().code == .connectionLost)
        #expect(run.session.isOver)
    }

    @Test func theFirstEndCounts() throws {
        let run = try SessionRun.opened()
        run.receive(WebSocketFrames.close(1001), at: .seconds(1))
        run.session.connectionEnded()
        run.session.drop()
        #expect(try run.take() == .closed(.goingAway))
    }
}
