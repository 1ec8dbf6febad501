public import ChappieCore
import Synchronization

/// The far end of one scripted WebSocket.
public final class ScriptedWebSocketPeer: Sendable {
    private let state: Mutex<ScriptedWebSocketState>
    private let clock: any ChappieClock
    private let reply: ScriptedWebSocketOpening.Reply

    init(host: String, clock: any ChappieClock, reply: @escaping ScriptedWebSocketOpening.Reply) {
        state = Mutex(ScriptedWebSocketState(host: host))
        self.clock = clock
        self.reply = reply
    }

    /// Every message that was sent to it, in order.
    public var sentMessages: [WebSocketMessage] { state.withLock(\.sent) }
    /// The client's close frame; `nil` while it has sent none.
    public var sentClosure: WebSocketCloseReason? { state.withLock(\.sentClosure) }
    /// Whether the client let go of the connection, or cancelled it, before it had ended.
    public var isDropped: Bool { state.withLock(\.isDropped) }
    /// Whether the connection stands.
    public var isOpen: Bool { state.withLock { $0.end == nil } }

    /// Does `steps` after all earlier ones.
    public func play(_ steps: [ScriptedWebSocketStep]) { act { $0.play(steps) } }

    // MARK: The client's side

    /// Replies are made one after the other, in the order of the messages, so the reply is asked for under the lock.
    func received(_ message: WebSocketMessage) throws {
        let result = try state.withLock { state in
            let number = try state.received(message)
            return state.play(reply(message, number))
        }
        carryOut(result)
    }

    func received(_ closure: WebSocketCloseReason) { act { $0.received(closure) } }

    func wasDropped() { act { $0.dropped() } }

    func nextArrival(within deadline: Duration?) async throws -> WebSocketInbound {
        try Task.checkCancellation()
        let (id, ready) = state.withLock { state in (state.newID(), state.takeArrival(within: deadline)) }
        if let ready { return try ready.get() }
        let timer = deadline.map { deadline in
            Task { [clock] in
                try await clock.sleep(for: deadline)
                expire(id)
            }
        }
        defer { timer?.cancel() }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                act { $0.wait(as: id, continuation, isCancelled: Task.isCancelled, within: deadline) }
            }
        } onCancel: {
            act { $0.giveUp(id, CancellationError()) }
        }
    }

    private func expire(_ id: Int) { act { $0.expire(id) } }

    private func act(_ change: (inout ScriptedWebSocketState) -> ScriptedWebSocketState.Action) {
        carryOut(state.withLock { change(&$0) })
    }

    private func carryOut(_ action: ScriptedWebSocketState.Action) {
        action.delivery?()
        guard let gate = action.gate else { return }
        Task {
            try await gate.pass()
            act { $0.gateOpened() }
        }
    }
}
