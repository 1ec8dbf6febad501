import ChappieCore
import ChappieSimulator
import ChappieTesting
import HTTPTypes
import Synchronization
import Testing

@testable import ChappieWebSocket

/// A session with nothing around it: what was reported to its users, and what it wants to send.
final class SessionRun: Sendable {
    private let session: Mutex<WebSocketSession>
    private let arrivals = Mutex<[Result<WebSocketInbound, ChappieTransportError>]>([])
    private let closes = Mutex(0)

    static let deadlines = ChappieDeadlines(
        connect: .seconds(1), firstByte: .seconds(3), idle: .seconds(4), upgrade: .seconds(2),
        liveness: .seconds(60))

    init(limits: WebSocketLimits = .default) throws {
        let handshake = try WebSocketHandshake(target: "/", authority: "host.test", compression: .off, nonce: 1)
        session = Mutex(
            WebSocketSession(
                handshake, host: "host.test", deadlines: Self.deadlines, limits: limits, startedAt: .zero))
    }

    /// One that has been opened at second 0.
    static func opened(limits: WebSocketLimits = .default) throws -> SessionRun {
        let run = try SessionRun(limits: limits)
        run.act { $0.connected(at: .zero) }
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

    @discardableResult
    func act<Value>(_ change: (inout WebSocketSession) throws -> sending Value) rethrows -> sending Value {
        let (value, wakeups) = try session.withLock { session in
            let value = try change(&session)
            return (value, session.takeWakeups())
        }
        for wakeup in wakeups { wakeup() }
        return value
    }

    func receive(_ bytes: [UInt8], at now: Duration) {
        act { session in
            bytes.withUnsafeBytes { session.received($0, at: now) }
            session.settle(at: now)
        }
    }

    func tick(at now: Duration) {
        act { session in
            session.tick(at: now) { _ in
                ChappieTransportError(.timedOut, stage: .connect, host: "host.test", reason: "no connection")
            }
            session.settle(at: now)
        }
    }

    /// What it wants to send, taken by the socket at once.
    func takeOutput() -> [UInt8] {
        act { session in
            var output: [UInt8] = []
            while session.wantsWrite {
                session.outbox.offer()
                output += session.outbox.offered[session.outbox.offset...]
                session.wrote(session.outbox.offered.count - session.outbox.offset, at: .zero)
            }
            return output
        }
    }

    func awaitArrival(within allowance: Duration? = nil, at now: Duration = .zero) {
        act { session in
            session.awaitArrival(within: allowance, as: session.newID(), at: now) { result in
                self.report(result)
            }
        }
    }

    /// Open once the sender of the message that ends there is told to go on.
    func awaitWriting(_ end: Int?, at now: Duration) -> ScriptedGate {
        let gate = ScriptedGate()
        guard let end else { return gate }
        act { session in session.awaitWriting(upTo: end, as: session.newID(), at: now) { _ in gate.open() } }
        return gate
    }

    /// Counts when the connection is over.
    func awaitEnd() { act { session in session.awaitEnd(as: session.newID()) { self.closes.withLock { $0 += 1 } } } }

    /// What the receivers were told, in order.
    var told: [Result<WebSocketInbound, ChappieTransportError>] { arrivals.withLock { $0 } }
    var firstError: ChappieTransportError? {
        if case .failure(let error)? = told.first { error } else { nil }
    }
    var closeCount: Int { closes.withLock { $0 } }

    private func report(_ result: Result<WebSocketInbound, any Error>) {
        let result = result.mapError { error in
            error as? ChappieTransportError
                ?? ChappieTransportError(.unavailable, stage: .message, host: "", reason: "\(error)")
        }
        arrivals.withLock { $0.append(result) }
    }
}
