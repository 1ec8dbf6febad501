import ChappieCore

/// What a ``ScriptedWebSocketPeer`` knows: a synchronous machine, changed under its lock.
struct ScriptedWebSocketState {
    typealias Continuation = CheckedContinuation<WebSocketInbound, any Error>

    /// What to do once the lock is let go.
    struct Action {
        /// Tells the receiver.
        var delivery: (() -> Void)?
        /// Wait for this gate, then report `gateOpened`.
        var gate: ScriptedGate?
    }

    enum End {
        case closed(WebSocketCloseReason)
        case failed(ChappieTransportError)
    }

    private let host: String
    private(set) var sent: [WebSocketMessage] = []
    private(set) var sentClosure: WebSocketCloseReason?
    private(set) var isDropped = false
    private(set) var end: End?
    private var arrived: [WebSocketMessage] = []
    private var steps: ArraySlice<ScriptedWebSocketStep> = []
    private var isAtGate = false
    private var isSilent = false
    private var receiver: (id: Int, continuation: Continuation, hasDeadline: Bool)?
    private var lastID = 0
    /// A deadline that passed before its receiver had come to wait.
    private var expired: Int?

    init(host: String) { self.host = host }

    // MARK: The script's side

    mutating func play(_ more: [ScriptedWebSocketStep]) -> Action {
        steps += more
        return advance()
    }

    mutating func gateOpened() -> Action {
        isAtGate = false
        return advance()
    }

    private mutating func advance() -> Action {
        var action = Action()
        while end == nil, !isAtGate, !isSilent, let step = steps.popFirst() {
            switch step {
            case .deliver(let messages): arrived += messages
            case .close(let closure): end = .closed(closure)
            case .cut: end = .failed(lost("the connection broke as the script has it"))
            case .fail(let error): end = .failed(error)
            case .silence: isSilent = true
            case .wait(until: let gate):
                isAtGate = true
                action.gate = gate
            }
        }
        action.delivery = delivery()
        return action
    }

    // MARK: The client's side

    /// - Returns: the number of the message.
    /// - Throws: the end of the connection.
    mutating func received(_ message: WebSocketMessage) throws(ChappieTransportError) -> Int {
        switch end {
        case .failed(let error): throw error
        case .closed: throw lost("the WebSocket is closed")
        case nil:
            sent.append(message)
            return sent.count - 1
        }
    }

    mutating func received(_ closure: WebSocketCloseReason) -> Action {
        guard end == nil else { return Action() }
        sentClosure = closure
        end = .closed(closure)
        return Action(delivery: delivery())
    }

    mutating func dropped() -> Action {
        guard end == nil else { return Action() }
        isDropped = true
        arrived = []
        end = .failed(lost("the connection was dropped on this side"))
        return Action(delivery: delivery())
    }

    mutating func newID() -> Int {
        lastID += 1
        return lastID
    }

    /// What a receiver gets without waiting; `nil` when it has to.
    mutating func takeArrival(within deadline: Duration?) -> Result<WebSocketInbound, any Error>? {
        if !arrived.isEmpty {
            defer { arrived = [] }
            return .success(.messages(arrived))
        }
        switch end {
        case .closed(let closure): return .success(.closed(closure))
        case .failed(let error): return .failure(error)
        case nil:
            guard let deadline, isSilent || deadline <= .zero else { return nil }
            return .failure(timeOut)
        }
    }

    mutating func wait(
        as id: Int, _ continuation: Continuation, isCancelled: Bool, within deadline: Duration?
    ) -> Action {
        if receiver != nil { preconditionFailure("A WebSocket has one receiver; two tasks receive from this one.") }
        if isCancelled { return Action { continuation.resume(throwing: CancellationError()) } }
        if let result = takeArrival(within: deadline) { return Action { continuation.resume(with: result) } }
        if expired == id { return Action { [timeOut] in continuation.resume(throwing: timeOut) } }
        receiver = (id, continuation, deadline != nil)
        return Action()
    }

    mutating func expire(_ id: Int) -> Action {
        expired = id
        return giveUp(id, timeOut)
    }

    mutating func giveUp(_ id: Int, _ error: any Error) -> Action {
        guard let receiver, receiver.id == id else { return Action() }
        self.receiver = nil
        return Action { receiver.continuation.resume(throwing: error) }
    }

    private mutating func delivery() -> (() -> Void)? {
        guard let receiver, let result = takeArrival(within: receiver.hasDeadline ? .seconds(1) : nil) else {
            return nil
        }
        self.receiver = nil
        return { receiver.continuation.resume(with: result) }
    }

    private var timeOut: ChappieTransportError {
        ChappieTransportError(.timedOut, stage: .message, host: host, reason: "no message, as the script has it")
    }

    private func lost(_ reason: String) -> ChappieTransportError {
        ChappieTransportError(.connectionLost, stage: .message, host: host, reason: reason)
    }
}
