import ChappieCore
import ChappieSimulator
import ChappieTesting
import HTTPTypes
import Testing

@_spi(ChappieInternals) @testable import ChappieCurl
@testable import ChappieWebSocket

/// A session with nothing around it; times are those since the first attempt to connect.
final class SessionRun {
    private var session: WebSocketSession

    static let deadlines = ChappieDeadlines(
        connect: .seconds(1), firstByte: .seconds(3), idle: .seconds(4), upgrade: .seconds(2),
        liveness: .seconds(60))

    init(limits: WebSocketLimits = .default) throws {
        let handshake = try WebSocketHandshake(target: "/", authority: "host.test", compression: .off, nonce: 1)
        session = WebSocketSession(
            handshake, host: "host.test", deadlines: Self.deadlines, limits: limits, startedAt: 0)
    }

    /// One that has been opened at second 0.
    static func opened(limits: WebSocketLimits = .default) throws -> SessionRun {
        let run = try SessionRun(limits: limits)
        run.connected(at: 0)
        let request = String(decoding: run.takeOutput(), as: UTF8.self)
        let key = try #require(
            request.split(separator: "\r\n").first { $0.lowercased().hasPrefix("sec-websocket-key:") })
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
        session.settle(at: time.nanoseconds) { _ in
            ChappieTransportError(.timedOut, stage: .connect, host: "host.test", reason: "no connection")
        }
    }

    /// What it waits for after a visit.
    func waits(at time: Duration) -> (reads: Bool, until: Duration?) {
        guard case .stay(let reads, _, let until) = session.verdict(at: time.nanoseconds, deadline: nil) else {
            return (false, nil)
        }
        return (reads, until.map { .nanoseconds($0) })
    }

    /// What it wants to send, taken by the socket at once.
    func takeOutput(at time: Duration = .zero) -> [UInt8] {
        var output: [UInt8] = []
        while let (bytes, range) = session.outbox.nextPiece() {
            output += bytes[range]
            session.wrote(range.count, at: time.nanoseconds)
        }
        return output
    }

    /// What a receiver is given without waiting.
    func take() throws -> WebSocketInbound? { try takeInbound()?.0 }

    // The test macros can't look into a value that can't be copied.
    var isOver: Bool { session.isOver }
    var isOpen: Bool { session.isOpen }
    var wantsRead: Bool { session.wantsRead }
    var wantsWrite: Bool { session.wantsWrite }
    var deadline: Int? { session.deadline }
    var writingDeadline: Int? { session.writingDeadline }
    var queuedBytes: Int { session.outbox.byteCount }
    func takeInbound() throws -> (WebSocketInbound, Bool)? { try session.takeInbound()?.get() }
    func takeBody() throws -> [UInt8]?? { try session.takeBody()?.get() }
    func shouldReadOn(at now: Int) -> Bool { session.shouldReadOn(at: now) }
    func isWritten(_ end: Int, at now: Int) -> Bool { session.isWritten(end, at: now) }
    func send(_ message: WebSocketMessage) throws -> Int? { try session.send(message)?.get() }
    func verdict(at now: Int, deadline: Int?) -> LoopVerdict { session.verdict(at: now, deadline: deadline) }
    func nextPiece() -> (bytes: [UInt8], range: Range<Int>)? { session.outbox.nextPiece() }
    func wrote(_ count: Int, at now: Int) { session.wrote(count, at: now) }
    func blocked(at now: Int) { session.outbox.blocked(at: now) }
    func connected(at now: Int) { session.connected(at: now) }
    func connectionEnded(at now: Int) { session.connectionEnded(at: now) }
    func connectionBroke() { session.connectionBroke() }
    func writingBroke() { session.writingBroke() }
    func close(_ reason: WebSocketCloseReason, at now: Int) { session.close(reason, at: now) }
    func drop() { session.drop() }

    /// The error that a receiver is given.
    func failure() throws -> ChappieTransportError {
        try #require(throws: ChappieTransportError.self) { _ = try take() }
    }
}
