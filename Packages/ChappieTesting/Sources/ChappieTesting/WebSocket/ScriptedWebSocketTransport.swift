public import ChappieCore
public import FoundationEssentials
public import HTTPTypes
import Synchronization

/// ``WebSocketTransport`` in memory: plays scripted servers and remembers what it was asked and told.
///
/// ```swift
/// let transport = ScriptedWebSocketTransport(openings: [
///     .refused(.response(status: .serviceUnavailable, body: "later")),
///     .opened(replies: [
///         [.deliver(["one", "two"]), .cut],       // in answer to the first message
///     ]),
///     .opened { message, number in [.deliver(["echo \(number)"]), .close(.normal)] },
/// ])
/// …
/// #expect(transport.receivedOpenings.count == 3)
/// #expect(transport.peers[0].sentMessages == [.text("hello")])
/// ```
///
/// It keeps ``WebSocketTransportContract``, as the real adapter does: plain `ws` and `http` only to loopback, an end
/// after what arrived before it, and again at every further call.
public final class ScriptedWebSocketTransport: WebSocketTransport {
    /// Decides how an opening goes.
    public typealias Script = @Sendable (Opening) async throws -> ScriptedWebSocketOpening

    /// What the transport was asked for.
    public struct Opening: Sendable, Hashable {
        /// The address that was asked for.
        public let url: URL
        /// As they were given: without those of the handshake itself.
        public let headerFields: HTTPFields
    }

    private struct Record {
        var openings: [Opening] = []
        var peers: [ScriptedWebSocketPeer] = []
    }

    private let script: Script
    private let clock: any ChappieClock
    private let deadlines: ChappieDeadlines?
    private let record = Mutex(Record())

    /// Asks `script` for each opening.
    ///
    /// - Parameters:
    ///   - clock: for the deadlines of receivers, and of openings that hang.
    ///   - deadlines: whose `upgrade` ends an opening that hangs; `nil` (the default) for none.
    public init(
        clock: any ChappieClock = SystemClock(), deadlines: ChappieDeadlines? = nil, _ script: @escaping Script
    ) {
        self.script = script
        self.clock = clock
        // The player knows HTTP's stages: the answer to a handshake is a response head there.
        self.deadlines = deadlines.map { deadlines in
            var deadlines = deadlines
            deadlines.responseHead = deadlines.upgrade
            return deadlines
        }
    }

    /// Plays `openings` in order. One after the last fails with code `.unavailable`, which says so.
    public convenience init(
        clock: any ChappieClock = SystemClock(), deadlines: ChappieDeadlines? = nil,
        openings: [ScriptedWebSocketOpening]
    ) {
        let rest = Mutex(openings[...])
        self.init(clock: clock, deadlines: deadlines) { opening in
            guard let answer = rest.withLock({ $0.popFirst() }) else {
                throw ChappieTransportError(
                    .unavailable, stage: .configuration, host: opening.url.host() ?? "",
                    reason: "the script has no answer for opening \(openings.count + 1)")
            }
            return answer
        }
    }

    /// Every opening so far, the refused and failed ones included.
    public var receivedOpenings: [Opening] { record.withLock(\.openings) }

    /// The far ends of the connections that were opened, in order: what was sent to them, and a hand to play further
    /// steps with.
    public var peers: [ScriptedWebSocketPeer] { record.withLock(\.peers) }

    public func open(_ url: URL, headerFields: HTTPFields) async throws -> WebSocketOpening {
        try Task.checkCancellation()
        let host = try ScriptedURLRule.usableHost(of: url, schemes: ["wss", "https", "ws", "http"])
        let opening = Opening(url: url, headerFields: headerFields)
        record.withLock { $0.openings.append(opening) }
        switch try await script(opening).answer {
        case .failed(let error): throw error
        case .hangs:
            let player = ScriptedAnswerPlayer(
                ScriptedHTTPAnswer(beforeHead: [.stall]), host: host, deadlines: deadlines, clock: clock)
            try await player.playBeforeHead()
            throw CancellationError()
        case .refused(let answer):
            let player = ScriptedAnswerPlayer(answer, host: host, deadlines: deadlines, clock: clock)
            try await player.playBeforeHead()
            return .refused(
                HTTPExchangeResponse(
                    status: answer.status, headerFields: answer.headerFields,
                    body: HTTPBody(next: { try await player.nextChunk() }, cancel: { player.cancel() })))
        case .opened(let fields, let greeting, let reply):
            let peer = ScriptedWebSocketPeer(host: host, clock: clock, reply: reply)
            record.withLock { $0.peers.append(peer) }
            peer.play(greeting)
            return .opened(ScriptedWebSocketConnection(peer: peer), headerFields: fields)
        }
    }
}
